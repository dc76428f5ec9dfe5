/** Durations and lists as text. */

/** `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function spanOf(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

const LISTED_MAX = 5;

/** The first few items, and the number of the others. */
export function listOf(items: readonly string[]): string {
  const more = items.length - LISTED_MAX;
  return items.slice(0, LISTED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
