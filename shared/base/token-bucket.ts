/** So much at once, and so much a second. Source: Go's x/time/rate, Limiter.AllowN. */

export interface TokenRate {
  readonly perSecond: number;
  /** Tokens that a full bucket has. */
  readonly burst: number;
}

export interface TokenBucket {
  readonly tokens: number;
  readonly atMs: number;
}

/**
 * What is left once one token is taken; undefined: there is none, and nothing was taken. No bucket yet: it is full.
 *
 *     5 a second, burst 10: ten at once, the eleventh 200 ms later
 */
export function takeToken(bucket: TokenBucket | undefined, { perSecond, burst }: TokenRate, nowMs: number): TokenBucket | undefined {
  const { tokens, atMs } = bucket ?? { tokens: burst, atMs: nowMs };
  const refilled = tokens + (Math.max(0, nowMs - atMs) / 1000) * perSecond;
  const left = Math.min(burst, refilled) - 1;
  // Less than 1 ns is no time to wait.
  return burst >= 1 && (-left / perSecond) * 1e9 < 1 ? { tokens: left, atMs: nowMs } : undefined;
}
