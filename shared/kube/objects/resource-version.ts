/**
 * resourceVersions: decimal strings of up to 128 bits, ordered by length and then byte by byte. They are never parsed as numbers
 * (upstream's tests exceed 2^53). Source: KEP-5504; informer §0.
 */

/** Whether `value` is a decimal integer without leading zeros, or `0`, an empty lane's watermark. */
export function isResourceVersion(value: string): boolean {
  return /^(0|[1-9][0-9]{0,38})$/.test(value);
}

/**
 * Negative, zero or positive if `a` is older than, equal to or newer than `b`.
 * @throws {RangeError} when one of them is not a decimal integer.
 */
export function compareResourceVersions(a: string, b: string): number {
  if (!isResourceVersion(a)) throw new RangeError(`not a resourceVersion: "${a}"`);
  if (!isResourceVersion(b)) throw new RangeError(`not a resourceVersion: "${b}"`);
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Whether the cached version `cached` is kept when an object arrives at version `came` (A4, A5): it is kept unless it is older.
 *
 * `listRV`: `came` was listed at that version. Within one history a list holds each object's newest version up to `listRV`,
 * so a cached version between `came` and `listRV` belongs to a lost history and is replaced.
 *
 *     cached 460, came 449, listed at 1,000,000,405: replaced, etcd was restored
 *     cached 41, came 10, listed at 40: kept, it changed after the list
 */
export function isCurrent(cached: string, came: string, listRV?: string): boolean {
  const order = compareResourceVersions(cached, came);
  return order === 0 || (order > 0 && (listRV === undefined || compareResourceVersions(cached, listRV) > 0));
}

export function maxResourceVersion(a: string, b: string): string {
  return compareResourceVersions(a, b) >= 0 ? a : b;
}

export function minResourceVersion(a: string, b: string): string {
  return compareResourceVersions(a, b) <= 0 ? a : b;
}
