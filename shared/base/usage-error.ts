import { parseGoDuration } from "./go-duration.ts";

/** A usage error. One line per problem; the program prints them and exits with code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Parses a duration in Go's format: `90s`, `1h30m`, `0`. @returns whole milliseconds, not negative @throws {UsageError} */
export function duration(option: string): (text: string) => number {
  return (text) => {
    const ms = parseGoDuration(text);
    if (ms === undefined || !Number.isSafeInteger(ms) || ms < 0)
      throw new UsageError(`${option} takes a duration such as 90s, 2m or 1h30m, not "${text}"`);
    return ms;
  };
}

/** @throws {UsageError} */
export function trueOrFalse(option: string): (text: string) => boolean {
  return (text) => {
    if (text !== "true" && text !== "false") throw new UsageError(`${option} takes true or false, not "${text}"`);
    return text === "true";
  };
}

/** Parses the URL of a Redis server. The error does not quote the URL, because it may contain a password. @throws {UsageError} */
export function redisUrl(option: string): (text: string) => string {
  return (text) => {
    const url = /^rediss?:\/\/[^/]/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || url.hostname === "")
      throw new UsageError(`${option} takes a URL such as redis://host:6379 or rediss://host:6379`);
    return text;
  };
}

/** Parses an integer within `range`. @throws {UsageError} */
export function wholeNumber(option: string, range: { readonly min: number; readonly max: number }): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < range.min || value > range.max)
      throw new UsageError(`${option} takes a whole number from ${range.min} to ${range.max}, not "${text}"`);
    return value;
  };
}

const UNITS: Readonly<Record<string, number>> = { "": 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

/** Parses a size in bytes, given as a quantity such as `64Mi`. @throws {UsageError}, also for less than `min` */
export function bytes(option: string, min: number): (text: string) => number {
  return (text) => {
    const [, digits = "", unit = ""] = /^(\d+)(Ki|Mi|Gi)?$/.exec(text) ?? [];
    const value = Number(digits) * (UNITS[unit] ?? NaN);
    if (digits === "" || !Number.isSafeInteger(value) || value < min)
      throw new UsageError(`${option} takes a size of at least ${min / 2 ** 20}Mi such as 64Mi or 1Gi, not "${text}"`);
    return value;
  };
}

/** Collects the values of a repeatable option. */
export function collected(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
