/** A rate limit with a burst. Source: Go's x/time/rate, Limiter.AllowN. */

export interface TokenRate {
  readonly perSecond: number;
  /** Tokens in a full bucket. */
  readonly burst: number;
}

export interface TokenBucket {
  readonly tokens: number;
  readonly atMs: number;
}

/**
 * Returns the bucket after one token was taken, or `undefined` if it is empty. A missing bucket counts as full.
 *
 *     5 a second, burst 10: ten at once, the eleventh 200 ms later
 */
export function takeToken(bucket: TokenBucket | undefined, { perSecond, burst }: TokenRate, nowMs: number): TokenBucket | undefined {
  const { tokens, atMs } = bucket ?? { tokens: burst, atMs: nowMs };
  const refilled = tokens + (Math.max(0, nowMs - atMs) / 1000) * perSecond;
  const left = Math.min(burst, refilled) - 1;
  // A wait of less than 1 ns counts as none.
  return burst >= 1 && (-left / perSecond) * 1e9 < 1 ? { tokens: left, atMs: nowMs } : undefined;
}
