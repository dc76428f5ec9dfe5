/** The command lines of npm scripts. */
import { spawnSync } from "node:child_process";
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
