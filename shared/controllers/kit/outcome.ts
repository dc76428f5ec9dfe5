/** What becomes of a key whose sync did not fail. */
import type { Outcome, Snapshot } from "@deltaloop/store/ports";
import type { Succeeded } from "./run.ts";

/** After that the Store has a flag `gone` looked into (A14). */
const GONE_CHECK_MS = 61_000;

/** A pod that counts as gone is believed for a minute: then its DELETED event has come, or it must be looked at. */
export function outcomeOf(result: Succeeded, { dependents, orphans }: Snapshot): Outcome {
  if (result.kind === "again") return { kind: "requeueAfter", delayMs: Math.max(0, result.afterMs) };
  return [...dependents, ...orphans].some(({ gone }) => gone) ? { kind: "requeueAfter", delayMs: GONE_CHECK_MS } : { kind: "ok" };
}
