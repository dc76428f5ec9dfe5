/**
 * Sorts records by time while they are read. One clock wrote them, so few are far out of order.
 *
 * TW1 at most `WINDOW_LINES` records, and at most `WINDOW_BYTES` of text before the newest one, are buffered.
 * TW2 records of equal time keep their order.
 */
import type { CaptureRecord } from "./capture.ts";

/** A record may follow at most this many records of later times. */
export const WINDOW_LINES = 1_000;
/** Limit of delivered records that the buffer still references; they may be large. */
const GONE_KEPT = 64;
const WINDOW_BYTES = 4 * 2 ** 20;

interface Buffered {
  readonly record: CaptureRecord;
  /** Size of its line. */
  readonly bytes: number;
}

export class TimeWindow {
  #buffered: Buffered[] = [];
  /** Index of the first buffered record. Moving the others for each delivered record would cost more than parsing it. */
  #start = 0;
  #bytes = 0;
  #goneMs = -Infinity;

  /** Adds a record. @returns the records that are due; undefined: the record belongs before one that was already returned */
  next(record: CaptureRecord, bytes: number): readonly Buffered[] | undefined {
    if (record.atMs < this.#goneMs) return undefined;
    let place = this.#buffered.length;
    while (place > this.#start && (this.#buffered[place - 1]?.record.atMs ?? 0) > record.atMs) place--;
    this.#buffered.splice(place, 0, { record, bytes });
    this.#bytes += bytes;
    let end = this.#start;
    for (
      let left = this.#bytes;
      this.#buffered.length - end > WINDOW_LINES || (left > WINDOW_BYTES && end < this.#buffered.length - 1);
      end++
    )
      left -= this.#buffered[end]?.bytes ?? 0;
    return this.#gone(end);
  }

  rest(): readonly Buffered[] {
    return this.#gone(this.#buffered.length);
  }

  #gone(end: number): readonly Buffered[] {
    if (end === this.#start) return NOTHING;
    const gone = this.#buffered.slice(this.#start, end);
    for (const { bytes } of gone) this.#bytes -= bytes;
    this.#goneMs = gone.at(-1)?.record.atMs ?? this.#goneMs;
    this.#start = end;
    if (end < GONE_KEPT) return gone;
    this.#buffered = this.#buffered.slice(end);
    this.#start = 0;
    return gone;
  }
}

const NOTHING: readonly Buffered[] = [];
