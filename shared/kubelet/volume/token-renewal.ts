/** When a service account token in a volume is replaced (node-agent §10). */

/** No token is used for longer, however long it lives. */
const AGE_MAX_MS = 24 * 60 * 60 * 1_000;
/** So that the tokens of pods that were started together are not renewed together. */
const JITTER_MAX_MS = 10_000;

/**
 * When 80 % of its life, or 24 hours, have passed, less up to 10 s:
 *
 *     life 1 h,  random 0   → 48 min after it was issued
 *     life 1 h,  random 0.5 → 47 min 55 s
 *     life 48 h, random 0   → 24 h
 *
 * @param random in [0, 1)
 *
 * Source: pkg/kubelet/token/token_manager.go requiresRefresh.
 * Differs from upstream: the jitter is drawn once per token and not at every look, and is not cut to whole seconds.
 */
export function tokenRenewalAtMs(issuedAtMs: number, expiresAtMs: number, random: number): number {
  const ofLifeMs = expiresAtMs - (expiresAtMs - issuedAtMs) / 5;
  return Math.min(ofLifeMs, issuedAtMs + AGE_MAX_MS) - random * JITTER_MAX_MS;
}
