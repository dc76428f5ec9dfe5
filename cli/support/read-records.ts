/** A capture to be worked on, or what is wrong with it in one line. */
import { messageOf } from "../../shared/api/errors.ts";
import { CaptureError, readCapture } from "../../shared/replay/capture.ts";
import type { CaptureRecord } from "../../shared/replay/capture.ts";
import { consoleLog } from "./console-log.ts";
import { printable } from "./printable.ts";
import { UsageError } from "./usage-error.ts";

/** By time; what it lacks is told on standard error. @throws {UsageError} when it cannot be read, is none, or holds nothing */
export function readRecords(file: string): readonly CaptureRecord[] {
  const log = consoleLog("", "info");
  try {
    const records = readCapture(file, (note) => log.warn(printable(note)));
    if (records.length === 0) throw new CaptureError(`${file}: no event of a watched resource in it`);
    return records;
  } catch (error) {
    if (error instanceof CaptureError) throw new UsageError(error.message);
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  }
}
