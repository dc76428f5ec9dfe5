/** Parses a time in a capture, as a user writes it. */
import { UsageError } from "@deltaloop/base";

const SINCE = /^\+?(\d+(?:\.\d+)?)s?$/;
const CLOCK = /^\d\d:\d\d:\d\d(?:\.\d+)?$/;
const DAY_MS = 86_400_000;

/**
 * Milliseconds since the epoch: `+12.3s` or `12.3` from the beginning, `10:02:11.5` of its day (UTC), or an RFC 3339 time.
 *
 * @throws {UsageError} if the text has none of these forms, or the time is outside the capture
 */
export function momentIn(option: string, text: string, startMs: number, endMs: number): number {
  const atMs = parsed(text, startMs);
  if (Number.isNaN(atMs))
    throw new UsageError(`${option} ${text} is not a time: write +12.3s after the start, 10:02:11.5 or 2026-03-01T10:02:11Z`);
  if (atMs < startMs - 1000 && endMs === Infinity)
    throw new UsageError(`${option} ${text} is before the capture, which begins at ${new Date(startMs).toISOString()}`);
  // Accepts times up to a second outside the capture, because users copy times without fractions.
  if (atMs < startMs - 1000 || atMs > endMs + 1000)
    throw new UsageError(
      `${option} ${text} is outside the capture, which covers ${new Date(startMs).toISOString()} to ${new Date(endMs).toISOString()} (+0s to +${((endMs - startMs) / 1000).toFixed(1)}s)`,
    );
  return atMs;
}

/** Formats the time for `momentIn`, to the millisecond. */
export function since(atMs: number, startMs: number): string {
  return `+${((atMs - startMs) / 1000).toFixed(3)}s`;
}

function parsed(text: string, startMs: number): number {
  const [, seconds] = SINCE.exec(text) ?? [];
  if (seconds !== undefined) return startMs + Number(seconds) * 1000;
  if (!CLOCK.test(text)) return Date.parse(text);
  const day = new Date(startMs).toISOString().slice(0, 10);
  const atMs = Date.parse(`${day}T${text}Z`);
  // A time of day after midnight.
  return atMs < startMs - 1000 ? atMs + DAY_MS : atMs;
}
