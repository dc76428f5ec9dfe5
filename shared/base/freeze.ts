/**
 * Freezes `value` deeply, so that a test fails where a decision changes its input. For tests only: freezing a snapshot costs more than
 * most syncs.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
