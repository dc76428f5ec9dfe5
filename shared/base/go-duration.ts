const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1, us: 1e-3, µs: 1e-3, μs: 1e-3, ns: 1e-6 };
const PART = /(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|μs|ns)/gu;
const DURATION = new RegExp(`^[+-]?(?:0|(?:${PART.source})+)$`, "u");

/**
 * Returns the milliseconds of a duration in Go's format: `1h30m`, `.5s`, `+1s`, `0`; `undefined` for anything else.
 *
 * Source: Go time.ParseDuration.
 */
export function parseGoDuration(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  const ms = [...text.matchAll(PART)].reduce((sum, [, count, unit = ""]) => sum + Number(count) * (UNITS_MS[unit] ?? 0), 0);
  return text.startsWith("-") && ms !== 0 ? -ms : ms;
}
