/**
 * Log lines of processes. Would catch: fields that differ from those of the functions, a line below the log level, and a message that is
 * not exactly one line.
 */
import { Command } from "commander";
import { afterEach, describe, expect, it, vi } from "vitest";
import { consoleLog, jsonLog } from "../../../../shared/base/output/console-log.ts";
import { loggingFormatOption } from "../../../../cli/output/logging-format-option.ts";
import { createLogger } from "../../../../shared/controllers/lambda/logger.ts";
import type { Log } from "../../../../shared/base/log.ts";

afterEach(() => vi.restoreAllMocks());

/** Returns the lines that `speak` writes to standard error, or to standard output, as Powertools does. */
function linesOf(stream: "stderr" | "stdout", speak: () => void): readonly string[] {
  const lines: string[] = [];
  vi.spyOn(process[stream], "write").mockImplementation((text) => lines.push(String(text)) > 0);
  speak();
  vi.restoreAllMocks();
  return lines;
}

function speak(log: Log): void {
  log.debug("too much");
  log.info("key not synced", { key: "shop/web", why: undefined, count: 2 });
}

describe("the log of a process", () => {
  it("the log is text for users, one line per message", () => {
    expect(linesOf("stderr", () => speak(consoleLog("watcher  ", "info")))).toEqual(["watcher  key not synced key=shop/web count=2\n"]);
    expect(linesOf("stderr", () => consoleLog("", "warn").warn("a\nb", { why: "x y" }))).toEqual(['warn: a\\nb why="x y"\n']);
  });

  it("the log is JSON for machines, one line per message, with the fields of the functions' log", () => {
    const [ours = "", ...rest] = linesOf("stderr", () => speak(jsonLog("deltaloop-watch", "info")));
    expect(rest).toEqual([]);
    expect(ours).toMatch(/^[^\n]*\n$/);
    const of = (line: string): object => JSON.parse(line) as object;
    const functions = linesOf("stdout", () => speak(createLogger("deltaloop-watch", "info"))).map(of);
    expect(functions).toMatchObject([{ ...of(ours), timestamp: expect.any(String) }]);
    expect(of(ours)).toMatchObject({ timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/) });
  });

  it.each([consoleLog("", "info"), jsonLog("deltaloop-watch", "info")])(
    "escapes text that would move the cursor or reorder output",
    (log) => {
      const [line = ""] = linesOf("stderr", () => log.info("a\x9b2Jb", { of: "c\u202ed\u200be\u2028f" }));
      expect(line).not.toMatch(/[^\n\x20-\x7e]/);
      expect(line).toMatch(/9b2J.*\\u202ed\\u200be\\u2028f/);
    },
  );

  it.each([
    { stream: "stderr", log: consoleLog("", "info") },
    { stream: "stderr", log: jsonLog("deltaloop-watch", "info") },
    { stream: "stdout", log: createLogger("deltaloop-watch", "info") },
  ] as const)("quotes at most 256 characters of untrusted text, in values of at most 1,024 characters, on $stream", ({ stream, log }) => {
    const foreign = "x".repeat(100_000);
    const key = `${"n".repeat(63)}/${"o".repeat(253)}`;
    const error = `RangeError: not a resourceVersion: "${foreign}"`;
    const [line = ""] = linesOf(stream, () => log.info("failed", { error, why: foreign, key, short: '"y"', count: 1 }));
    expect(line).toContain(`${"x".repeat(256)}…`);
    expect(Math.max(...[...line.matchAll(/x+/g)].map(([run]) => run.length))).toBe(1_024);
    expect(line.match(/resourceVersion: \\?"(x+)…/)?.[1]).toHaveLength(256);
    expect(line).toContain(key);
  });

  it.each([
    { isTTY: true, args: [], want: "text" },
    { isTTY: false, args: [], want: "json" },
    { isTTY: false, args: ["--logging-format", "text"], want: "text" },
  ])("the log is $want for flags $args if standard error is a terminal ($isTTY)", ({ isTTY, args, want }) => {
    const command = new Command().addOption(loggingFormatOption(isTTY)).parse(args, { from: "user" });
    expect(command.opts()).toEqual({ loggingFormat: want });
  });
});
