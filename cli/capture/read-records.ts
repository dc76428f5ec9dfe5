/** Opens a capture, or reports the problem in one line. */
import { closeSync, createWriteStream, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError, ForeignFormatError, openCapture } from "@deltaloop/replay/capture";
import type { Capture, Census, OpenOptions } from "@deltaloop/replay/capture";
import { captureLines, importFiles, ImportReport } from "@deltaloop/replay/import";
import { consoleLog, printable } from "@deltaloop/base/output";
import { withProgress } from "../output/terminal.ts";
import { UsageError } from "@deltaloop/base";
import { beginWithSmallYoungHeap } from "../nodejs/young-heap.ts";

/** Size on disk; smaller captures need little memory. Half a megabyte of gzip data can hold half a gigabyte. */
const LARGE_BYTES = 2 ** 19;
const THIRD_MIB = 8;

/** How to read the file the first time; see `OpenOptions`. */
type ReadOptions = Pick<OpenOptions, "skims">;

/**
 * Restarts the process with a small heap for a long capture: 160 MiB instead of 250, for a third more CPU. By default V8 collects garbage
 * late. Does not return if it restarts.
 */
export function sparingMemory(file: string): void {
  const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  if (size >= LARGE_BYTES) beginWithSmallYoungHeap(THIRD_MIB, "--optimize-for-size");
}

/**
 * A capture that can be read several times and is not held in memory. Prints notes about missing parts on standard error.
 *
 * @throws {UsageError} if it cannot be read, is not a capture, or is empty
 */
export async function openRecords(file: string, census?: Census, reads: ReadOptions = {}): Promise<Capture> {
  return opened(file, census, reads).catch((error: unknown) => {
    throw refusal(file, error);
  });
}

async function opened(file: string, census: Census | undefined, reads: ReadOptions): Promise<Capture> {
  const log = consoleLog("", "info");
  const opening = openCapture(file, { note: (note) => log.warn(printable(shown(note))), ...(census && { census }), ...reads });
  const capture = await withProgress(shown(`Reading ${file}`), opening);
  if (capture.records === 0) throw new CaptureError(`${file}: found no event of a watched resource`);
  return capture;
}

/**
 * Like `openRecords`, but also accepts standard input (`-`) and any format that `deltaloop import` reads. Such a recording is imported first,
 * with a report on standard error.
 */
export async function openAnyRecords(file: string, census: Census, reads: ReadOptions = {}): Promise<Capture> {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-"));
  try {
    return (await keptRecords(file, folder, census, reads)).capture;
  } finally {
    // the open file stays readable
    rmSync(folder, { recursive: true });
  }
}

/** Like `openAnyRecords`, but returns the path of a capture that can be reopened while `folder` exists. */
export async function keptRecords(
  file: string,
  folder: string,
  census: Census,
  reads: ReadOptions = {},
): Promise<{ readonly capture: Capture; readonly path: string }> {
  const path = file === "-" ? await savedInput(folder) : file;
  try {
    return { path, capture: await opened(path, census, reads) };
  } catch (error) {
    if (!(error instanceof ForeignFormatError)) throw refusal(path, error);
    const imported = await importedFile(path, folder);
    return { path: imported, capture: await openRecords(imported, census, reads) };
  }
}

/** The copy of standard input, which can be read only once. */
let inputCopy: string | undefined;

/** Replaces the path of the copy by a name for standard input. */
function shown(text: string): string {
  return inputCopy === undefined ? text : text.replaceAll(inputCopy, "standard input");
}

/** Saves standard input, which is read several times. */
async function savedInput(folder: string): Promise<string> {
  const path = join(folder, "input");
  inputCopy = path;
  await pipeline(process.stdin, createWriteStream(path, { mode: 0o600 }));
  if (statSync(path).size === 0) throw new UsageError("standard input is empty: pipe a capture or a recording into it");
  return path;
}

/** Imports unredacted objects, which are stripped before they are printed. */
async function importedFile(file: string, folder: string): Promise<string> {
  const log = consoleLog("", "info");
  const report = new ImportReport();
  const path = join(folder, "imported.jsonl");
  const out = openSync(path, "wx", 0o600);
  try {
    const imported = await withProgress(shown(`Importing ${file}`), importFiles([file], report));
    const options = { digester: createDigester("explain".padEnd(32), ALL_RELEASES), redact: false, report };
    for (const line of captureLines(imported, options)) writeSync(out, `${line}\n`);
    log.info(`read as ${imported.format}`);
    for (const line of report.lines()) log.info(printable(line));
    return path;
  } catch (error) {
    throw refusal(file, error);
  } finally {
    closeSync(out);
  }
}

/** Runs `read` and translates errors of the file. @throws {UsageError} if the file is invalid */
export async function reading<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw refusal(file, error);
  }
}

function refusal(file: string, error: unknown): UsageError {
  if (error instanceof UsageError) return error;
  return new UsageError(shown(error instanceof CaptureError ? error.message : `${file} cannot be read: ${messageOf(error)}`));
}
