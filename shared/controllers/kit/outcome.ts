/** The Store's outcome for a key whose sync succeeded. */
import type { Outcome, Snapshot } from "@deltaloop/store/ports";
import type { Succeeded } from "./run.ts";

/** After this time the key is requeued to verify a `gone` flag (A14). */
const GONE_CHECK_MS = 61_000;

/** A pod marked as gone is trusted for a minute: by then its DELETED event has arrived, or the pod must be read. */
export function outcomeOf(result: Succeeded, { dependents, orphans }: Snapshot): Outcome {
  if (result.kind === "again") return { kind: "requeueAfter", delayMs: Math.max(0, result.afterMs) };
  return [...dependents, ...orphans].some(({ gone }) => gone) ? { kind: "requeueAfter", delayMs: GONE_CHECK_MS } : { kind: "ok" };
}
