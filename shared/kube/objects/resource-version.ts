/**
 * resourceVersions: decimal strings of up to 128 bits, ordered by length and then byte by byte. They are never numbers
 * (2^53 is passed in upstream's own tests). Source: KEP-5504; informer §0.
 */

/** A decimal integer without leading zeros. `0` is accepted: an empty lane's watermark. */
export function isResourceVersion(value: string): boolean {
  return /^(0|[1-9][0-9]{0,38})$/.test(value);
}

/**
 * Negative, zero or positive as `a` is older than, equal to or newer than `b`.
 * @throws {RangeError} when one of them is not a decimal integer: such a resource is refused, never guessed at.
 */
export function compareResourceVersions(a: string, b: string): number {
  if (!isResourceVersion(a)) throw new RangeError(`not a resourceVersion: "${a}"`);
  if (!isResourceVersion(b)) throw new RangeError(`not a resourceVersion: "${b}"`);
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Whether what is cached at version `cached` stands when an object comes at version `came` (A4, A5): it does unless it is older.
 *
 * `listRV`: `came` was listed at that version. Within one history such a list holds the newest version at or below it of each object,
 * so what is newer than `came` but not than the list is of a history that is no more, and does not stand.
 *
 *     cached 460, came 449, listed at 1,000,000,405: does not stand, etcd was restored
 *     cached 41, came 10, listed at 40: stands, it changed after the list
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
