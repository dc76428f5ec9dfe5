import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";

import { createCommandShell } from "../../../../shared/node-agent/node-files/command-shell.ts";

const TOP = mkdtempSync(join(tmpdir(), "deltaloop-shell-"));
afterAll(() => rmSync(TOP, { recursive: true }));
const LONG_MS = 60_000;

/** Appends a line per start to `starts`, so that the number of shells is visible. */
function countedShell(): { readonly program: string; readonly starts: () => number } {
  const [program, log] = [join(TOP, `sh-${Math.random()}`), join(TOP, `log-${Math.random()}`)];
  writeFileSync(log, "");
  writeFileSync(program, `#!/bin/sh\necho start >>'${log}'\nexec /bin/sh\n`, { mode: 0o755 });
  return { program, starts: () => readFileSync(log, "utf8").split("\n").length - 1 };
}

it("runs programs in one shell, and returns their exit codes", async () => {
  const { program, starts } = countedShell();
  const shell = createCommandShell(program);
  const codes = ["0", "32", "1"].map((code) => shell.run("sh", ["-c", `exit ${code}`], LONG_MS));
  expect(await Promise.all(codes)).toEqual([0, 32, 1]);
  expect([await shell.run("no-such-program", [], LONG_MS), starts()]).toEqual([127, 1]);
});

it.each(["a b", "it's", "$(touch made)`touch made`", "two\nlines", '"; touch made #', "*", ""])(
  "passes a word unchanged: %j",
  async (word) => {
    const path = join(TOP, "word");
    expect(await createCommandShell().run("sh", ["-c", `printf %s "$1" >"$2"`, "sh", word, path], LONG_MS)).toBe(0);
    expect(readFileSync(path, "utf8")).toBe(word);
  },
);

it("MS1 MS2 a hanging command does not block other commands, and has no effect after it was abandoned", async () => {
  const shell = createCommandShell();
  const late = join(TOP, "late");
  const hanging = shell.run("sh", ["-c", 'sleep 1; touch "$1"', "sh", late], 300);
  const [other] = [shell.run("sleep", ["20"], LONG_MS)];
  expect(await shell.run("true", [], LONG_MS)).toBe(0);
  expect([await hanging, await other]).toEqual([undefined, undefined]);
  expect(await shell.run("true", [], LONG_MS)).toBe(0);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(existsSync(late)).toBe(false);
});

it("MS2 never starts a command that was queued behind an abandoned command", async () => {
  const shell = createCommandShell();
  for (let time = 0; time < 3; time++) expect(await shell.run("sleep", ["30"], 100)).toBeUndefined();
  expect(await shell.run("true", [], 5_000)).toBe(0);
});

it("uses the current PATH of this process", async () => {
  const before = process.env["PATH"];
  const shell = createCommandShell();
  expect(await shell.run("env", [], LONG_MS)).toBe(0);
  process.env["PATH"] = TOP;
  try {
    expect(await shell.run("env", [], LONG_MS)).toBe(127);
  } finally {
    process.env["PATH"] = before;
  }
});

it("reports an unknown result when the shell exits, and starts another", async () => {
  const { program, starts } = countedShell();
  const shell = createCommandShell(program);
  const hanging = shell.run("sleep", ["1"], LONG_MS);
  expect(await shell.run("sh", ["-c", 'kill -9 $(cut -d" " -f4 /proc/$PPID/stat) $PPID'], LONG_MS)).toBeUndefined();
  expect(await hanging).toBe(0);
  expect([await shell.run("true", [], LONG_MS), starts()]).toEqual([0, 2]);
});

it("returns an unknown result if no shell can be started", async () => {
  expect(await createCommandShell(join(TOP, "none")).run("true", [], LONG_MS)).toBeUndefined();
});

it("exits after the idle timeout", async () => {
  const { program, starts } = countedShell();
  const shell = createCommandShell(program);
  await shell.run("sh", ["-c", `cut -d" " -f4 /proc/$PPID/stat >'${join(TOP, "pid")}'`], LONG_MS);
  const pid = Number(readFileSync(join(TOP, "pid"), "utf8"));
  expect(process.kill(pid, 0)).toBe(true);
  await expect.poll(() => isThere(pid), { timeout: 10_000 }).toBe(false);
  expect([await shell.run("true", [], LONG_MS), starts()]).toEqual([0, 2]);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
