/** The usage and option errors of npm scripts. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");
const SCRIPTS = {
  local: ["infra/local/run.ts"],
  image: ["infra/image/run.ts"],
  package: ["infra/deploy/run.ts", "package"],
  deploy: ["infra/deploy/run.ts", "deploy"],
};
const run = (args: readonly string[]) =>
  spawnSync(process.execPath, ["infra/nodejs-runtime/run.js", ...args], { cwd: ROOT, encoding: "utf8" });

it.each([[], ["remove"], ["--help"]])("rejects infra/deploy/run.ts without package or deploy as its first word: %j", (...words) => {
  const { status, stdout, stderr } = run(["infra/deploy/run.ts", ...words]);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toBe("deploy: usage: run.ts package|deploy [options]; see npm run package -- --help\n");
});

it.each(
  Object.entries(JSON.parse(readFileSync("package.json", "utf8")).scripts as Readonly<Record<string, string>>).filter(
    ([name, script]) => / test\/\S+\.ts$/.test(script) && name !== "test",
  ),
)("npm run %s prints the usage at the head of its file for --help", (name, script) => {
  const { status, stdout, stderr } = run([...script.split(" ").slice(2), "--help"]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toContain(`npm run ${name}`);
  expect(stdout).not.toContain("*");
});

it.each(["package", "deploy"])("npm run %s uses the default region of serverless.yml", async (name) => {
  expect(await readFile("serverless.yml", "utf8")).toContain("${opt:region, env:AWS_REGION, 'us-east-1'}");
  expect(run(["infra/deploy/run.ts", name, "--help"]).stdout).toContain("(default: AWS_REGION, else us-east-1)");
});

describe.each(Object.entries(SCRIPTS))("npm run %s", { timeout: 60_000 }, (name, script) => {
  it("prints its usage for --help and exits with 0", () => {
    const { status, stdout, stderr } = run([...script, "--help"]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain(`Usage: npm run ${name} -- [options]`);
    expect(stdout).toMatch(/default:[^]*Examples:\n {2}npm run/u);
  });

  it("rejects an unknown option in one line and exits with 2", () => {
    const { status, stdout, stderr } = run([...script, "--no-such-option"]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toBe(`${name}: Unknown option '--no-such-option'; see npm run ${name} -- --help\n`);
  });
});

it("reports a package that npm has not installed, and how to install it", () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-missing-"));
  try {
    writeFileSync(join(folder, "old.mjs"), 'import "@deltaloop/of-a-newer-checkout";');
    const { status, stderr } = run([join(folder, "old.mjs")]);
    const why = "the package @deltaloop/of-a-newer-checkout is not installed, so node_modules is older than this checkout";
    expect({ status, stderr }).toEqual({ status: 2, stderr: `deltaloop: ${why}: run npm ci\n` });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
