/**
 * Sorts records by time while they are read. One clock wrote them, so few are far out of order.
 *
 * TW1 at most `WINDOW_LINES` records, and at most `WINDOW_BYTES` of text before the newest one, are buffered.
 * TW2 records of equal time keep their order.
 */
import type { CaptureRecord } from "./capture.ts";

/** The number of lines by which a line may be late. */
export const WINDOW_LINES = 1_000;
const WINDOW_BYTES = 4 * 2 ** 20;

interface Buffered {
  readonly record: CaptureRecord;
  /** Size of its line. */
  readonly bytes: number;
}

export class TimeWindow {
  readonly #buffered: Buffered[] = [];
  #bytes = 0;
  #goneMs = -Infinity;

  /** Adds a record. @returns the records that are due; undefined: the record belongs before one that was already returned */
  next(record: CaptureRecord, bytes: number): readonly Buffered[] | undefined {
    if (record.atMs < this.#goneMs) return undefined;
    let place = this.#buffered.length;
    while (place > 0 && (this.#buffered[place - 1]?.record.atMs ?? 0) > record.atMs) place--;
    this.#buffered.splice(place, 0, { record, bytes });
    this.#bytes += bytes;
    let count = 0;
    for (
      let left = this.#bytes;
      this.#buffered.length - count > WINDOW_LINES || (left > WINDOW_BYTES && count < this.#buffered.length - 1);
      count++
    )
      left -= this.#buffered[count]?.bytes ?? 0;
    return this.#gone(count);
  }

  rest(): readonly Buffered[] {
    return this.#gone(this.#buffered.length);
  }

  #gone(count: number): readonly Buffered[] {
    if (count === 0) return NOTHING;
    const gone = this.#buffered.splice(0, count);
    for (const { bytes } of gone) this.#bytes -= bytes;
    this.#goneMs = gone.at(-1)?.record.atMs ?? this.#goneMs;
    return gone;
  }
}

const NOTHING: readonly Buffered[] = [];
