/** `deltaloop capture send FILE`: writes the newest files of a rotated capture as one, for `deltaloop capture fetch`. */
import { createReadStream, statSync } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { pipeline as piped } from "node:stream/promises";
import { constants, createGunzip, createGzip } from "node:zlib";
import type { Command } from "commander";
import { duration, UsageError } from "@deltaloop/base";
import { consoleLog } from "@deltaloop/base/output";
import { linesOf } from "@deltaloop/replay/capture";
import { createSystemClock } from "@deltaloop/base/system";
import { numberedFiles } from "./capture-file.ts";

interface SendFlags {
  readonly last: number;
  readonly earlier?: true;
}

interface RingFile {
  readonly path: string;
  /** Prefix of the digest key: each run of `capture` has its own. */
  readonly run: unknown;
}

const HOUR_MS = 3_600_000;

export function registerSend(capture: Command): void {
  capture
    .command("send", { hidden: true })
    .description("Writes the newest files of a rotated capture to standard output, as one gzip stream.")
    .argument("<file>", "value of --output")
    .option("--last <duration>", "from files written in this time", duration("--last"), HOUR_MS)
    .option("--earlier", "send the run before the newest one")
    .action(runSend);
}

async function runSend(file: string, { last, earlier }: SendFlags): Promise<void> {
  const sinceMs = createSystemClock().now() - last;
  // The running capture may delete the oldest file at any time.
  const paths = numberedFiles(file).filter((path) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) >= sinceMs);
  const files = await Promise.all(paths.map(async (path) => ({ path, run: await runOf(path) })));
  const sent = oneRun(files, earlier === true);
  if (sent.length === 0)
    throw new UsageError(`${file}: no ${earlier ? "earlier run of capture" : "file"} was written within --last; use a longer duration`);
  if (!earlier && sent.length < files.length)
    consoleLog("", "info").warn(
      "capture restarted within --last, and digests of its two runs cannot be compared; fetch the earlier run with --earlier",
    );
  await piped(Readable.from(textOf(sent)), createGzip(), process.stdout);
}

/** Returns the files of one run of `capture`. Digests of two runs are not comparable: each value would seem to have changed between them. */
function oneRun(files: readonly RingFile[], earlier: boolean): readonly RingFile[] {
  const newest = files.at(-1)?.run;
  if (!earlier) return files.filter(({ run }) => run === newest);
  const before = files.findLast(({ run }) => run !== newest)?.run;
  return before === undefined ? [] : files.filter(({ run }) => run === before);
}

async function runOf(path: string): Promise<unknown> {
  for await (const text of wholeLines(path)) {
    const [meta = ""] = text.split("\n", 1);
    return (JSON.parse(meta) as { readonly digest?: unknown }).digest; // the recorder wrote this line
  }
  return undefined;
}

async function* textOf(files: readonly RingFile[]): AsyncGenerator<string> {
  for (const { path } of files) yield* wholeLines(path);
}

/** Yields the complete lines. The last line may be incomplete, because the file is growing or its writer was killed. */
async function* wholeLines(path: string): AsyncGenerator<string> {
  for await (const lines of linesOf(unpacked(path), path))
    yield lines.flatMap(({ text, isOpen }) => (isOpen ? [] : [`${text}\n`])).join("");
}

function unpacked(path: string): AsyncIterable<Buffer> {
  const bytes = createReadStream(path);
  return path.endsWith(".gz") ? pipeline(bytes, createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }), () => undefined) : bytes;
}
