/** Opens a capture, or reports what is wrong with it in one line. */
import { statSync } from "node:fs";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError, openCapture } from "@deltaloop/replay/capture";
import type { Capture, Census } from "@deltaloop/replay/capture";
import { consoleLog, printable } from "@deltaloop/base/output";
import { withProgress } from "../output/terminal.ts";
import { UsageError } from "@deltaloop/base";
import { beginWithSmallYoungHeap } from "../nodejs/young-heap.ts";

/** Size on disk; smaller captures need little memory anyway. */
const LARGE_BYTES = 4 * 2 ** 20;
const THIRD_MIB = 8;

/**
 * Restarts the process with a small heap for a long capture: 160 MiB instead of 250, for a third more CPU. V8 collects late otherwise.
 * Does not return if it restarts.
 */
export function sparingMemory(file: string): void {
  const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  if (size >= LARGE_BYTES) beginWithSmallYoungHeap(THIRD_MIB, "--optimize-for-size");
}

/**
 * A capture that can be read several times and is not held in memory. Prints notes about missing parts on standard error.
 *
 * @throws {UsageError} if it cannot be read, is no capture, or is empty
 */
export async function openRecords(file: string, census?: Census): Promise<Capture> {
  const log = consoleLog("", "info");
  try {
    const opened = openCapture(file, { note: (note) => log.warn(printable(note)), ...(census && { census }) });
    const capture = await withProgress(`Reading ${file}`, opened);
    if (capture.records === 0) throw new CaptureError(`${file}: no event of a watched resource in it`);
    return capture;
  } catch (error) {
    throw refusal(file, error);
  }
}

/** @throws {UsageError} if the file is invalid */
export async function reading<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw error instanceof UsageError ? error : refusal(file, error);
  }
}

function refusal(file: string, error: unknown): UsageError {
  return new UsageError(error instanceof CaptureError ? error.message : `${file} cannot be read: ${messageOf(error)}`);
}
