/** What a project of `deltaloop init` installs. Catches: a project that gets another deltaloop than the one that wrote it, or a file that is not there. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { dependencyOf } from "../../../cli/init/dependency.ts";

const FROM = "pass --from with the output of `npm pack` in a checkout";
let folder: string;
let root: string;
let project: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-init-"));
  root = join(folder, "node_modules", "deltaloop");
  project = join(folder, "a");
  await mkdir(root, { recursive: true });
  await writeFile(join(folder, "deltaloop-0.1.0.tgz"), "");
});
afterAll(() => rm(folder, { recursive: true }));

const installedFrom = async (resolved: string | undefined): Promise<void> =>
  writeFile(
    join(folder, "node_modules", ".package-lock.json"),
    JSON.stringify({ packages: { "node_modules/deltaloop": { version: "0.1.0", ...(resolved !== undefined && { resolved }) } } }),
  );

it.each([
  { from: "a registry", resolved: "https://registry.example.com/deltaloop/-/deltaloop-1.2.3.tgz", want: "1.2.3" },
  { from: "a tarball", resolved: "file:deltaloop-0.1.0.tgz", want: "file:../deltaloop-0.1.0.tgz" },
  { from: "a URL", resolved: "https://example.com/builds/7.tgz", want: "https://example.com/builds/7.tgz" },
])("the dependency is the deltaloop that runs, as installed from $from", async ({ resolved, want }) => {
  await installedFrom(resolved);
  expect(dependencyOf(root, project)).toBe(want);
});

it("the dependency is the tarball that --from names, whatever the command was installed from", async () => {
  await installedFrom("https://registry.example.com/deltaloop/-/deltaloop-1.2.3.tgz");
  expect(dependencyOf(root, project, join(folder, "deltaloop-0.1.0.tgz"))).toBe("file:../deltaloop-0.1.0.tgz");
});

it.each([
  { what: "a tarball that was deleted", resolved: "file:gone.tgz", says: `the tarball of this deltaloop: there is no file` },
  {
    what: "an unknown source, by another package manager",
    resolved: undefined,
    says: "cannot determine the tarball that this deltaloop was installed from",
  },
])("an error asks for --from when deltaloop was installed from $what", async ({ resolved, says }) => {
  await installedFrom(resolved);
  expect(() => dependencyOf(root, project)).toThrow(says);
  expect(() => dependencyOf(root, project)).toThrow(FROM);
});

it("an error asks for --from in a checkout, and reports a --from without a file", () => {
  expect(() => dependencyOf(join(folder, "checkout"), project)).toThrow(FROM);
  expect(() => dependencyOf(root, project, join(folder, "none.tgz"))).toThrow(/^--from .*none\.tgz: there is no file/);
});
