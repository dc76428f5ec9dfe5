/** RFC 3339 times as the API server stores them: UTC, whole seconds. The code uses milliseconds since 1970. */

const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/**
 * The time in milliseconds, or undefined if `text` is absent or not an RFC 3339 time. Fractions are truncated to milliseconds (a Lease and
 * an Event's eventTime have microseconds).
 */
export function parseTime(text: string | undefined): number | undefined {
  if (text === undefined || !RFC_3339.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/** `2026-03-01T10:00:00Z`: truncated to the second. Source: apimachinery pkg/apis/meta/v1/time.go MarshalJSON. */
export function formatTime(ms: number): string {
  return `${new Date(Math.floor(ms / 1000) * 1000).toISOString().slice(0, 19)}Z`;
}
