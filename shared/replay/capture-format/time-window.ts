/**
 * Puts records in the order of their times while they are read: whoever took them down had one clock, so few stand far from their place.
 *
 * TW1 what is held is at most `WINDOW_LINES` records, and at most `WINDOW_BYTES` of text behind the newest one.
 * TW2 records of one time stay in the order in which they came.
 */
import type { CaptureRecord } from "./capture.ts";

/** A line may stand so many lines behind one of a later time. */
export const WINDOW_LINES = 1_000;
const WINDOW_BYTES = 4 * 2 ** 20;

interface Held {
  readonly record: CaptureRecord;
  /** Of its line. */
  readonly bytes: number;
}

export class TimeWindow {
  readonly #held: Held[] = [];
  #bytes = 0;
  #goneMs = -Infinity;

  /** Takes one more. @returns those whose turn has come; undefined: the record belongs before one that has gone already */
  next(record: CaptureRecord, bytes: number): readonly Held[] | undefined {
    if (record.atMs < this.#goneMs) return undefined;
    let place = this.#held.length;
    while (place > 0 && (this.#held[place - 1]?.record.atMs ?? 0) > record.atMs) place--;
    this.#held.splice(place, 0, { record, bytes });
    this.#bytes += bytes;
    let count = 0;
    for (
      let left = this.#bytes;
      this.#held.length - count > WINDOW_LINES || (left > WINDOW_BYTES && count < this.#held.length - 1);
      count++
    )
      left -= this.#held[count]?.bytes ?? 0;
    return this.#gone(count);
  }

  rest(): readonly Held[] {
    return this.#gone(this.#held.length);
  }

  #gone(count: number): readonly Held[] {
    if (count === 0) return NOTHING;
    const gone = this.#held.splice(0, count);
    for (const { bytes } of gone) this.#bytes -= bytes;
    this.#goneMs = gone.at(-1)?.record.atMs ?? this.#goneMs;
    return gone;
  }
}

const NOTHING: readonly Held[] = [];
