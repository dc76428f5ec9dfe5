/** A capture to be worked on, or what is wrong with it in one line. */
import { statSync } from "node:fs";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError, openCapture } from "@deltaloop/replay/capture";
import type { Capture, Census } from "@deltaloop/replay/capture";
import { consoleLog, printable } from "@deltaloop/base/output";
import { withProgress } from "../output/terminal.ts";
import { UsageError } from "@deltaloop/base";
import { beginWithSmallYoungHeap } from "../nodejs/young-heap.ts";

/** On disk, gzip or not; below, nobody notices. */
const LARGE_BYTES = 4 * 2 ** 20;
const THIRD_MIB = 8;

/**
 * Of a long capture little is held, but V8 cleans up late where there is room: on this condition it takes 160 MiB where it took 250, and a third
 * more of the CPU. Does not return where the process begins anew for that.
 */
export function sparingMemory(file: string): void {
  const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  if (size >= LARGE_BYTES) beginWithSmallYoungHeap(THIRD_MIB, "--optimize-for-size");
}

/**
 * To be read as often as is needed, without being held; what it lacks is told on standard error.
 *
 * @throws {UsageError} when it cannot be read, is none, or holds nothing
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

/** @throws {UsageError} for what is wrong with the file */
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
