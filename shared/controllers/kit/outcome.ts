/** The Store's outcome for a key whose sync succeeded. */
import type { Outcome, Snapshot } from "@deltaloop/store/ports";
import type { Succeeded } from "./run.ts";

/** After this time the key is requeued to verify a `gone` flag (A14). */
const GONE_CHECK_MS = 61_000;

/**
 * Requeues the key if the snapshot has pods flagged `gone` (deleted, DELETED event not seen yet): without that event the flag must be
 * verified live after a minute.
 */
export function outcomeOf(result: Succeeded, { dependents, orphans }: Snapshot): Outcome {
  if (result.kind === "again") return { kind: "requeueAfter", delayMs: Math.max(0, result.afterMs) };
  return [...dependents, ...orphans].some(({ gone }) => gone) ? { kind: "requeueAfter", delayMs: GONE_CHECK_MS } : { kind: "ok" };
}
