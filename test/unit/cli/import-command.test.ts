/** `deltaloop import` as a process. Catches: a lost file, either the input or an existing output that must not be replaced. */
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { afterEach, beforeEach, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const MAIN = join(ROOT, "cli/main.ts");
const AUDIT = readFileSync(join(ROOT, "test/captures/undo.audit.jsonl.gz"));
const LINES = 170;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-import-"));
  writeFileSync(join(folder, "audit.gz"), AUDIT);
});
afterEach(() => rmSync(folder, { recursive: true }));

function imported(...parameters: readonly string[]) {
  return spawnSync(process.execPath, [MAIN, "import", ...parameters], { cwd: folder, encoding: "utf8", maxBuffer: 2 ** 24 });
}

function written(name: string): string {
  const content = readFileSync(join(folder, name));
  return (name.endsWith(".gz") ? gunzipSync(content) : content).toString();
}

const linesIn = (text: string): number => text.split("\n").length - 1;

it.each(["audit.gz", "a-link", "another-name"])("rejects an output that is also an input: %s", (name) => {
  if (name === "a-link") symlinkSync("audit.gz", join(folder, name));
  if (name === "another-name") linkSync(join(folder, "audit.gz"), join(folder, name));
  const { status, stderr } = imported("audit.gz", "-o", name);
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: `deltaloop: -o ${name} is the input audit.gz: choose another name\n`,
  });
  expect(readFileSync(join(folder, "audit.gz")).equals(AUDIT)).toBe(true);
});

it("replaces an existing file at the end, keeps its mode, and follows a link", () => {
  writeFileSync(join(folder, "target.jsonl"), "an earlier one");
  chmodSync(join(folder, "target.jsonl"), 0o600);
  symlinkSync("target.jsonl", join(folder, "out.jsonl"));
  expect(imported("audit.gz", "-o", "out.jsonl")).toMatchObject({ status: 0, stderr: "" });
  expect(linesIn(written("target.jsonl"))).toBe(LINES);
  expect(statSync(join(folder, "target.jsonl")).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder).toSorted()).toEqual(["audit.gz", "out.jsonl", "target.jsonl"]);
});

it("leaves the existing output unchanged, without a temporary file, when an input is missing", () => {
  writeFileSync(join(folder, "out.jsonl"), "an earlier one");
  expect(imported("audit.gz", "no-such-file", "-o", "out.jsonl")).toMatchObject({ status: 2, stdout: "" });
  expect(written("out.jsonl")).toBe("an earlier one");
  expect(readdirSync(folder).toSorted()).toEqual(["audit.gz", "out.jsonl"]);
});

it.each(["-", "/dev/stdout"])("appends only lines to standard output (%s)", (name) => {
  const { status, stdout, stderr } = imported("audit.gz", "-o", name);
  expect([status, linesIn(stdout)]).toEqual([0, LINES]);
  expect(stderr).toMatch(/^standard output: 0 initial objects and \d+ events/);
  const script = `printf 'before\\n' > all; "$@" >> all`;
  spawnSync("/bin/sh", ["-c", script, "sh", process.execPath, MAIN, "import", "audit.gz", "-o", name], { cwd: folder });
  expect([written("all").slice(0, 12), linesIn(written("all"))]).toEqual(['before\n{"t":', LINES + 1]);
});

it("does not treat a closed reader of standard output as an error", () => {
  const script = `"$@" 2> said | head -n 1`;
  const command = [process.execPath, MAIN, "import", "audit.gz", "-o", "-"];
  expect(linesIn(execFileSync("/bin/sh", ["-c", script, "sh", ...command], { cwd: folder, encoding: "utf8" }))).toBe(1);
  expect(written("said")).not.toContain("deltaloop:");
});

it("writes to a named pipe without replacing it", () => {
  const script = `mkfifo pipe; "$@" > said & wc -l < pipe; wait`;
  const command = [process.execPath, MAIN, "import", "audit.gz", "-o", "pipe"];
  expect(execFileSync("/bin/sh", ["-c", script, "sh", ...command], { cwd: folder, encoding: "utf8" }).trim()).toBe(String(LINES));
  expect(statSync(join(folder, "pipe")).isFIFO()).toBe(true);
});
