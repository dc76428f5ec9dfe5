/** A capture to be worked on, or what is wrong with it in one line. */
import { messageOf } from "../../shared/api/errors.ts";
import { CaptureError, readCapture } from "../../shared/replay/capture.ts";
import type { CaptureRecord } from "../../shared/replay/capture.ts";
import { UsageError } from "./usage-error.ts";

/** By time. @throws {UsageError} when it cannot be read, is none, or holds nothing */
export function readRecords(file: string): readonly CaptureRecord[] {
  try {
    const records = readCapture(file);
    if (records.length === 0) throw new CaptureError(`${file}: no event of a watched resource in it`);
    return records;
  } catch (error) {
    if (error instanceof CaptureError) throw new UsageError(error.message);
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  }
}
