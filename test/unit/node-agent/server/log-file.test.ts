/** Would catch: a tail that starts at the wrong place, a line that is split at a block boundary, and access to a file that is not a log. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { openLogFile } from "../../../../shared/node-agent/server/log-file.ts";
import type { LogFile } from "../../../../shared/node-agent/server/log-file.ts";

const BLOCK_BYTES = 64 * 1024;

let directory: string;
let root: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "deltaloop-log-file-"));
  root = join(directory, "pods");
  mkdirSync(root);
  path = join(root, "0.log");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function all(file: LogFile): Promise<string> {
  const read: Buffer[] = [];
  for (let lines = await file.lines(); lines.length > 0; lines = await file.lines()) read.push(...lines);
  await file.close();
  return Buffer.concat(read).toString();
}

describe("a log file", () => {
  const long = "x".repeat(BLOCK_BYTES);
  const tails: readonly { readonly name: string; readonly text: string; readonly tail: number; readonly want: string }[] = [
    { name: "its last lines", text: "a\nb\nc\n", tail: 2, want: "b\nc\n" },
    { name: "all its lines, if it has exactly as many", text: "a\nb\n", tail: 2, want: "a\nb\n" },
    { name: "all its lines, if it has fewer", text: "a\nb\n", tail: 9, want: "a\nb\n" },
    { name: "no lines on request", text: "a\nb\n", tail: 0, want: "" },
    { name: "an incomplete last line in addition to the requested ones", text: "a\nb\nhalf", tail: 1, want: "b\n" },
    { name: "empty lines, which count", text: "\n\n\n", tail: 2, want: "\n\n" },
    { name: "an empty file", text: "", tail: 3, want: "" },
    { name: "lines longer than a block", text: `a\n${long}1\n${long}2\n`, tail: 2, want: `${long}1\n${long}2\n` },
    {
      name: "a line that begins at a block boundary",
      text: `${"x".repeat(9)}\n${"y".repeat(BLOCK_BYTES - 1)}\n`,
      tail: 1,
      want: `${"y".repeat(BLOCK_BYTES - 1)}\n`,
    },
    { name: "a few of many lines", text: "line\n".repeat(200_000), tail: 3, want: "line\n".repeat(3) },
  ];
  it.each(tails)("a log file is read from its end: $name [node-agent 114]", async ({ text, tail, want }) => {
    writeFileSync(path, text);
    expect((await all(await openLogFile(path, { podLogsDir: root }, tail))) === want).toBe(true);
  });

  it("a log file is read completely, including lines across blocks, and read further when it grows", async () => {
    const text = Array.from({ length: 5_000 }, (_, index) => `${"y".repeat(index % 97)}${index}\n`).join("");
    writeFileSync(path, `${text}ha`);
    const file = await openLogFile(path, { podLogsDir: root });
    let read = "";
    for (let lines = await file.lines(); lines.length > 0; lines = await file.lines()) read += Buffer.concat([...lines]).toString();
    expect(read === text).toBe(true);
    expect(file.rest().toString()).toBe("ha");
    appendFileSync(path, "lf\n");
    expect(await all(file)).toBe("half\n");
  });

  it("reopens the log after rotation once a new file exists at its path, and keeps the old one until then", async () => {
    writeFileSync(path, "a\n");
    const file = await openLogFile(path, { podLogsDir: root });
    expect(await file.isReplaced()).toBe(false);
    renameSync(path, `${path}.1`);
    expect(await file.isReplaced()).toBe(false);
    writeFileSync(path, "b\n");
    expect(await file.isReplaced()).toBe(true);
    expect(await all(file)).toBe("a\n");
  });

  it("a log file is never outside of the pod log directory", async () => {
    const secret = join(directory, "secret");
    writeFileSync(secret, "secret\n");
    symlinkSync(secret, path);
    mkdirSync(`${root}-2`);
    writeFileSync(join(`${root}-2`, "0.log"), "secret\n");
    for (const outside of [secret, path, join(root, "..", "secret"), join(`${root}-2`, "0.log"), "/etc/hostname", root, ""])
      await expect(openLogFile(outside, { podLogsDir: root }), outside).rejects.toThrow("is not in");
    const runtimeLogsDir = join(directory, "runtime");
    mkdirSync(runtimeLogsDir);
    await expect(openLogFile(path, { podLogsDir: root, runtimeLogsDir }), "a link past the runtime's folder").rejects.toThrow("is not in");
    await expect(openLogFile(join(root, "none.log"), { podLogsDir: root })).rejects.toThrow("failed to open log file");
  });

  it("a log file must be a regular file, and opening a FIFO does not block [node-agent 503]", async () => {
    execFileSync("mkfifo", [path]);
    await expect(openLogFile(path, { podLogsDir: root })).rejects.toThrow("is not a regular file");
    mkdirSync(join(root, "1.log"));
    await expect(openLogFile(join(root, "1.log"), { podLogsDir: root })).rejects.toThrow("is not a regular file");
  });

  it("a log file is the target of the runtime's link, and is reachable only by a path below the pod log directory", async () => {
    const runtimeLogsDir = join(directory, "runtime");
    mkdirSync(runtimeLogsDir);
    writeFileSync(join(runtimeLogsDir, "1f-json.log"), "a\n");
    symlinkSync(join(runtimeLogsDir, "1f-json.log"), path);
    const file = await openLogFile(path, { podLogsDir: root, runtimeLogsDir });
    expect(file.directory).toBe(realpathSync(runtimeLogsDir));
    expect(await all(file)).toBe("a\n");
    const past = openLogFile(join(runtimeLogsDir, "1f-json.log"), { podLogsDir: root, runtimeLogsDir });
    await expect(past).rejects.toThrow("is not in");
  });
});
