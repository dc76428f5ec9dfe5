import { type JsonObject, metaOf, textAt } from "@deltaloop/base";

/** `5s`, `2m30s`, `3h`, `2d4h`: ages as kubectl shows them. Source: k8s.io/apimachinery/pkg/util/duration/duration.go. */
export function humanDuration(ms: number): string {
  const seconds = Math.trunc(ms / 1000);
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return pair(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return pair(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (hours < 24 * 8) return pair(days, "d", hours % 24, "h");
  if (hours < 24 * 365 * 2) return `${days}d`;
  const years = Math.trunc(days / 365);
  return hours < 24 * 365 * 8 ? pair(years, "y", days % 365, "d") : `${years}y`;
}

export function age(object: JsonObject, nowMs: number): string {
  return since(textAt(metaOf(object), "creationTimestamp"), nowMs);
}

/** How long ago `time` was, as kubectl shows it. */
export function since(time: string | undefined, nowMs: number): string {
  return time === undefined || time === "" ? "<unknown>" : humanDuration(nowMs - Date.parse(time));
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
