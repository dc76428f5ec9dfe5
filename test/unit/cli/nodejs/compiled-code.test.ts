/** Would catch: code that is loaded from a folder to which other users can write, and a start that compiles all code again. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";

const FILE = new URL("../../../../shared/base/nodejs/compiled-code.js", import.meta.url).href;
const elsewhere = mkdtempSync(join(tmpdir(), "deltaloop-compiled-"));

afterAll(() => rmSync(elsewhere, { recursive: true, force: true }));

function folderOf(environment: Readonly<Record<string, string>>, home?: string): string {
  const call = `keepCompiledCode(${home === undefined ? "" : JSON.stringify(home)})`;
  const code = `process.umask(0); const { keepCompiledCode } = await import(${JSON.stringify(FILE)}); process.stdout.write(String(${call}));`;
  const { NODE_COMPILE_CACHE: _ours, ...inherited } = process.env;
  const env = { ...inherited, ...environment };
  return execFileSync(process.execPath, ["--input-type=module", "--eval", code], { env, encoding: "utf8" });
}

const COMMAND = join(import.meta.dirname, "../../../../cli/deltaloop.js");

it.each([
  { verb: "keys", kept: join(userInfo().homedir, ".cache", "deltaloop", "compiled") },
  { verb: "node", kept: "undefined" },
])("the compile cache of deltaloop $verb is $kept", ({ verb, kept }) => {
  const tell =
    "data:text/javascript,import { getCompileCacheDir } from 'node:module'; process.on('exit', () => console.log(getCompileCacheDir()))";
  const { NODE_COMPILE_CACHE: _ours, NODE_OPTIONS: _none, ...env } = process.env;
  const said = execFileSync(process.execPath, ["--import", tell, COMMAND, verb, "--help"], { env, encoding: "utf8" });
  expect(said.trimEnd().split("\n").at(-1)?.startsWith(kept)).toBe(true);
});

describe("keepCompiledCode", () => {
  it("stores compiled code below the user's home, regardless of HOME", () => {
    expect(folderOf({ HOME: elsewhere, XDG_CACHE_HOME: elsewhere })).toBe(join(userInfo().homedir, ".cache", "deltaloop", "compiled"));
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it("Node's own variables take precedence", () => {
    expect(dirname(folderOf({ NODE_COMPILE_CACHE: elsewhere }))).toBe(elsewhere); // a folder of this Node.js version only
    expect(readdirSync(elsewhere)).not.toEqual([]);
    expect(folderOf({ NODE_DISABLE_COMPILE_CACHE: "1" })).toBe("undefined");
  });

  it("compiled code is in a folder that only the user can write to, whatever the umask", () => {
    const home = join(elsewhere, "home");
    const folder = join(home, ".cache", "deltaloop", "compiled");
    expect(folderOf({}, home)).toBe(folder);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    chmodSync(folder, 0o770);
    expect(folderOf({}, home)).toBe("undefined");
  });
});
