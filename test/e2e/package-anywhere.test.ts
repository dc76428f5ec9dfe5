/**
 * `npm run package` is reproducible: builds two copies of the sources without a network, in folders with different names and depths, with
 * different file times, time zones and umasks.
 */
import { spawn, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { linkModules } from "../support/copied-modules.ts";

import { functionNames } from "../../infra/build/bundle.ts";
import { DEPLOYED_AT } from "../support/packaged.ts";

const ROOT = process.cwd();
const SOURCES = ["cli", "functions", "shared", "infra", "package.json", "serverless.yml"];
const BUNDLES = `const { bundleFunction, functionNames } = await import(process.cwd() + "/infra/build/bundle.ts");
  for (const name of await functionNames(process.cwd())) await bundleFunction(process.cwd(), name, "dist/functions");`;
/** Runs a program in a new network namespace without loopback. */
const CUT_OFF = [
  ["unshare", "--net"],
  ["unshare", "--map-root-user", "--net"],
].find(([program = "", ...parameters]) => spawnSync(program, [...parameters, "true"]).status === 0);
if (CUT_OFF === undefined)
  process.stderr.write("!!!!  packaging runs with an unreachable proxy, because this user may not create network namespaces\n");

interface Copy {
  readonly zips: ReadonlyMap<string, Buffer>;
  readonly template: string;
  readonly reached: boolean;
}

let scratch: string;
let copies: readonly [Copy, Copy];
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "deltaloop-anywhere-"));
  copies = await Promise.all([
    packagedIn(join(scratch, "a"), { TZ: "Pacific/Kiritimati", LANG: "C" }, "022", new Date(86_400_000)),
    packagedIn(join(scratch, "somewhere", "much", "deeper"), { TZ: "America/Caracas", LANG: "de_DE.UTF-8" }, "077", new Date()),
  ]);
}, 180_000);
afterAll(() => rm(scratch, { recursive: true }));

describe(CUT_OFF === undefined ? "where a proxy leads nowhere" : "where there is no network", () => {
  it("both checkouts are packaged", async () => {
    const names = (await functionNames(ROOT)).map((name) => `${name}.zip`);
    for (const { zips, template, reached } of copies) {
      expect([...zips.keys()]).toEqual(names);
      expect(template.length).toBeGreaterThan(10_000);
      expect(reached).toBe(false);
    }
  });

  it("the zips of both checkouts are identical byte for byte", () => {
    for (const [name, bytes] of copies[0].zips) expect(copies[1].zips.get(name)?.equals(bytes), name).toBe(true);
  });

  it("both templates have the same text, except for the time in the names of their zips in S3", () => {
    const [one, other] = copies.map(({ template }) => template.replaceAll(DEPLOYED_AT, ""));
    expect(one).toBe(other);
    expect(one).not.toMatch(/anywhere|much\/deeper/);
  });
});

async function packagedIn(folder: string, environment: Readonly<Record<string, string>>, umask: string, at: Date): Promise<Copy> {
  await mkdir(folder, { recursive: true });
  for (const source of SOURCES) await cp(join(ROOT, source), join(folder, source), { recursive: true });
  await touched(join(folder, "functions"), at);
  await touched(join(folder, "shared"), at);
  linkModules(ROOT, folder);
  const nowhere = "http://127.0.0.1:9";
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: folder,
    HTTPS_PROXY: nowhere,
    HTTP_PROXY: nowhere,
    AWS_EC2_METADATA_DISABLED: "true",
    ...environment,
  };
  const run = async (program: string, parameters: readonly string[]): Promise<number | null> => {
    const [first = "", ...rest] = [...(CUT_OFF ?? []), "sh", "-c", `umask ${umask} && exec "$@"`, "sh", program, ...parameters];
    const child = spawn(first, rest, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
    const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
    if (code !== 0 && program !== "true") process.stderr.write(output);
    return code;
  };
  const done = [
    await run(process.execPath, ["--input-type=module", "--eval", BUNDLES]),
    await run(join(ROOT, "node_modules/.bin/osls"), ["package", "--stage", "prod", "--package", "out"]),
  ];
  expect(done).toEqual([0, 0]);
  const zips = new Map<string, Buffer>();
  for (const name of (await readdir(join(folder, "dist", "functions"))).filter((file) => file.endsWith(".zip")).toSorted())
    zips.set(name, await readFile(join(folder, "dist", "functions", name)));
  return {
    zips,
    template: await readFile(join(folder, "out", "cloudformation-template-update-stack.json"), "utf8"),
    // An isolated network namespace has no route to other hosts.
    reached: CUT_OFF !== undefined && (await run(process.execPath, ["--eval", CONNECTS])) === 0,
  };
}

/** Connects to an address without a server, because only the route matters. */
const CONNECTS = `require("node:net").connect(9, "192.0.2.1").once("error", ({ code }) => process.exit(code === "ENETUNREACH" ? 1 : 0)); setTimeout(() => process.exit(0), 500);`;

async function touched(folder: string, at: Date): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }))
    await utimes(join(entry.parentPath, entry.name), at, at);
}
