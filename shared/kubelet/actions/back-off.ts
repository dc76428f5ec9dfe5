/** How long to wait after repeated failure (node-agent §1): 10 s, doubled up to 300 s, forgotten after 600 s of quiet. */
import type { BackOffEntry } from "../../ports/node-store.ts";

/** Source: pkg/kubelet/kubelet.go, client-go util/flowcontrol/backoff.go. */
const INITIAL_MS = 10_000;
const MAX_MS = 300_000;
const FORGOTTEN_AFTER_MS = 2 * MAX_MS;

/** So long after its last change, at `atMs`, that it counts no more. Source: flowcontrol.Backoff hasExpired. */
export function isBackOffExpired(entry: BackOffEntry, atMs: number): boolean {
  return atMs - entry.lastUpdateMs > FORGOTTEN_AFTER_MS;
}

/**
 * The entry after one more failure, which happened at `failedAtMs`:
 *
 *     none, or expired → 10 s;  10 s → 20 s;  160 s → 300 s;  300 s → 300 s
 *
 * Source: flowcontrol.Backoff Next.
 */
export function nextBackOff(entry: BackOffEntry | undefined, failedAtMs: number, nowMs: number): BackOffEntry {
  const startsOver = entry === undefined || isBackOffExpired(entry, failedAtMs);
  return { delayMs: startsOver ? INITIAL_MS : Math.min(entry.delayMs * 2, MAX_MS), lastUpdateMs: nowMs };
}
