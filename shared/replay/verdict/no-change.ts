/** A workload that no request changed, or none since its last rollout. */
import type { Finding } from "../findings/finding.ts";
import type { ClusterState } from "../incident/cluster-state.ts";
import type { SeenOwner } from "../incident/seen.ts";
import { completeRollout } from "../incident/spec-changes.ts";
import type { SpecChange } from "../incident/spec-changes.ts";
import type { View } from "../incident/view.ts";

export interface NoChange {
  /** Begin of the time without a change: the creation, the end of the last rollout, or the begin of what was read. */
  readonly sinceMs: number;
  readonly isCreation: boolean;
  /** The revision whose rollout was complete at `sinceMs`. */
  readonly completeRevision?: number;
}

/** Time before a cause within which changes of other workloads and deletions of pods are reported. */
const BEFORE_MS = 2 * 60_000;
const SECOND_MS = 1_000;

export interface Changes {
  readonly changes: readonly SpecChange[];
  /** Earlier changes are omitted. */
  readonly fromMs: number;
}

/** Returns undefined if the workload changed, or if that is unknown. */
export function noChangeIn(view: View, cause: Finding | undefined, { changes, fromMs }: Changes): NoChange | undefined {
  const { state, owner, nowMs } = view;
  if (owner?.template === undefined || state.sinceMs === undefined || cause?.level !== "cause" || cause.kind === "deleted")
    return undefined;
  if (changes.length > 0) return nothingSinceRollout(owner, state, changes);
  const { createdMs = 0 } = owner;
  const sinceMs = Math.max(state.sinceMs, fromMs, createdMs);
  if (sinceMs >= nowMs || (state.changedMsOf(owner.uid) ?? -Infinity) >= sinceMs) return undefined;
  return { sinceMs, isCreation: sinceMs === createdMs };
}

function nothingSinceRollout(owner: SeenOwner, state: ClusterState, changes: readonly SpecChange[]): NoChange | undefined {
  const { revision, atMs: sinceMs = -Infinity } = completeRollout(owner) ?? {};
  if (revision === undefined || sinceMs < (state.sinceMs ?? Infinity)) return undefined;
  const isBefore = ({ atMs, completedRevision }: SpecChange): boolean => completedRevision !== undefined || (atMs ?? Infinity) < sinceMs;
  // Times of objects are whole seconds.
  const isUnchanged = changes.every(isBefore) && (state.changedMsOf(owner.uid) ?? -Infinity) < sinceMs + SECOND_MS;
  return isUnchanged ? { sinceMs, isCreation: false, completeRevision: revision } : undefined;
}

/** The time shortly before a cause. */
export function beforeCause({ since = -Infinity }: Finding): { readonly fromMs: number; readonly untilMs: number } {
  // Times of objects are whole seconds.
  const untilMs = since + (since % SECOND_MS === 0 ? SECOND_MS - 1 : 0);
  return { fromMs: untilMs - BEFORE_MS, untilMs };
}
