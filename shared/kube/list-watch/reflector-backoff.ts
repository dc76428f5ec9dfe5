/** One growing, jittered delay for list, connect and Retry-After (informer §2.4). */

/** Serialisable state of the back-off; initially `{ nextMs: 800 }`. */
export interface Backoff {
  readonly nextMs: number;
  /** Time of last use; after two minutes without use, the delay is reset. */
  readonly usedAtMs?: number;
}

const FIRST_MS = 800;
const CAP_MS = 30_000;
const RESET_AFTER_MS = 120_000;

export const FRESH_BACKOFF: Backoff = { nextMs: FIRST_MS };

/**
 * The next delay, d + U[0, d), and the state after it: 0.8–1.6 s, 1.6–3.2 s … 30–60 s.
 * Source: client-go tools/cache/reflector.go defaultBackoffInit, defaultBackoffMax, defaultBackoffReset.
 */
export function stepBackoff(backoff: Backoff, nowMs: number, random: number): readonly [Backoff, number] {
  const quiet = backoff.usedAtMs !== undefined && nowMs - backoff.usedAtMs > RESET_AFTER_MS;
  const base = quiet ? FIRST_MS : backoff.nextMs;
  return [{ nextMs: Math.min(base * 2, CAP_MS), usedAtMs: nowMs }, base + Math.floor(base * random)];
}
