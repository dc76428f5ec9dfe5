/**
 * Would catch: an import of a path that a package does not export, a README with wrong entry points or imports, a missing dependency of the
 * published command, and a folder with too many files.
 */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname } from "node:path";

import { describe, expect, it } from "vitest";

import { PACKAGE_IMPORTS } from "../../infra/build/architecture-rules.ts";

interface Manifest {
  readonly name: string;
  readonly private?: boolean;
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const read = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8")) as Manifest; // a manifest of this repository
const ROOT = read("package.json");
const PACKAGES = globSync("shared/*/package.json")
  .toSorted()
  .map((file) => ({ folder: dirname(file), manifest: read(file), readme: readFileSync(`${dirname(file)}/README.md`, "utf8") }));
/** Users install these themselves: the Docker runtime is an optional peer dependency, the queue emulator is for development. */
const NOT_PUBLISHED = ["@deltaloop/docker", "@deltaloop/local"];
const FILES_MAX = 25;

it("knows every package", () => {
  expect(PACKAGES.map(({ folder }) => folder.slice("shared/".length))).toEqual(Object.keys(PACKAGE_IMPORTS).toSorted());
});

describe.each(PACKAGES)("$manifest.name", ({ folder, manifest, readme }) => {
  it("the package is private, and lists each entry point without a wildcard", () => {
    expect(manifest).toMatchObject({ name: `@deltaloop/${folder.slice("shared/".length)}`, private: true });
    expect(Object.keys(manifest.exports).join(" ")).not.toContain("*");
    expect(Object.values(manifest.exports).filter((file) => !existsSync(`${folder}/${file}`))).toEqual([]);
  });

  it("the package has a README with its entry points and allowed imports", () => {
    const listed = [...readme.matchAll(/^\| `(@deltaloop\/[\w/-]+)` \|/gm)].map(([, entry]) => entry);
    expect(listed).toEqual(Object.keys(manifest.exports).map((entry) => manifest.name + entry.slice(1)));
    const [, allowed = ""] = /^## Allowed imports\n(.*)$/m.exec(readme) ?? [];
    const imports = PACKAGE_IMPORTS[folder.slice("shared/".length)] ?? [];
    expect([...allowed.matchAll(/`@deltaloop\/([\w-]+)`/g)].map(([, name]) => name)).toEqual(imports);
  });

  it("depends only on its permitted imports, in the versions of the published command", () => {
    const dependencies = Object.entries(manifest.dependencies ?? {});
    const own = dependencies.flatMap(([name]) => (name.startsWith("@deltaloop/") ? [name.slice("@deltaloop/".length)] : []));
    expect(own.filter((name) => !PACKAGE_IMPORTS[folder.slice("shared/".length)]?.includes(name))).toEqual([]);
    if (NOT_PUBLISHED.includes(manifest.name)) return;
    // protobufjs is part of the bundle (infra/build/bundle.ts).
    const others = dependencies.filter(([name]) => !name.startsWith("@deltaloop/") && name !== "protobufjs");
    for (const [name, version] of others) expect(ROOT.dependencies).toMatchObject({ [name]: version });
  });
});

it("a package cannot be imported by a file path", () => {
  const code = 'import("@deltaloop/kube/objects/wire.ts").catch((error) => process.stdout.write(error.code));';
  expect(execFileSync(process.execPath, ["--input-type=module", "--eval", code], { encoding: "utf8" })).toBe(
    "ERR_PACKAGE_PATH_NOT_EXPORTED",
  );
});

it("no folder holds more than 25 source files", () => {
  const files = globSync("{shared,cli,functions,infra}/**/*.{ts,lua,js,mjs}", { exclude: ["**/node_modules/**"] });
  const full = [...Map.groupBy(files, dirname)].flatMap(([folder, inside]) => (inside.length > FILES_MAX ? [folder] : []));
  expect(full).toEqual([]);
});
