/**
 * Formats whole milliseconds as Go does:
 *
 *     0 → 0s        350 → 350ms        1200 → 1.2s        80 000 → 1m20s        3 600 000 → 1h0m0s
 *
 * Source: Go's time.Duration String.
 */
export function goDuration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  const [minutes, hours] = [Math.floor(ms / 60_000), Math.floor(ms / 3_600_000)];
  const seconds = `${(ms - minutes * 60_000) / 1000}s`;
  return hours > 0 ? `${hours}h${minutes % 60}m${seconds}` : minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
