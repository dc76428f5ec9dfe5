/** One step of a rolling update (deployment §11): grows the new ReplicaSet or shrinks old ReplicaSets. */
import type { SyncResult } from "../../kit/run.ts";
import { activeReplicaSets, type ReplicaSetSplit, splitReplicaSets } from "../replica-sets.ts";
import { cleanupUnhealthyReplicas, reconcileNewReplicaSet, scaleDownOldReplicaSets, shrinkBudget } from "../rolling.ts";
import type { PatchReplicaSet, NotedWrite } from "../writes.ts";
import { syncRevisionOrCreate, type WithNewReplicaSet } from "./sync-revision.ts";
import { finishRollout, syncRolloutStatus } from "./sync-status.ts";
import {
  because,
  beforeStatus,
  ended,
  type Known,
  listReplicaSets,
  newestOf,
  resize,
  storedReplicaSet,
  type DeploymentSync,
  type StepResult,
  withReplicaSet,
} from "./step.ts";

/** Source: rolling.go rolloutRolling. */
export async function rolloutRolling(sync: DeploymentSync, known: Known): Promise<SyncResult> {
  const revised = await syncRevisionOrCreate(sync, known);
  if (revised.kind === "ended") return revised.result;
  const { split } = revised;
  const { decided: grow, why } = reconcileNewReplicaSet(revised.known.d, split.newRS, split.oldRSs);
  because(sync, ...why);
  if (grow !== undefined) {
    const grown = await beforeStatus(sync, revised.known, resize(sync, revised.known, [grow]));
    return grown.kind === "ended" ? grown.result : syncRolloutStatus(sync, grown.known, split, grown.failure);
  }
  const old = await reconcileOldReplicaSets(sync, revised.known, split);
  if (old.kind === "ended") return old.result;
  if (old.kind === "stopped") {
    // From 1.38 on, an error skips the clean-up.
    const isLast = old.failure !== undefined && sync.session.release.behaviour.writesStatusAfterFailure;
    return (isLast ? syncRolloutStatus : finishRollout)(sync, old.known, split, old.failure);
  }
  return old.shrunk ? syncRolloutStatus(sync, old.known, split) : finishRollout(sync, old.known, split);
}

/**
 * No further scale-down in this sync: a count is stale, or another client wrote first. The next event triggers the next scale-down (quirk
 * Q1).
 */
interface Stopped {
  readonly kind: "stopped";
  readonly known: Known;
  /** An error that requeues the key but does not end the sync. */
  readonly failure?: Error;
}

/**
 * Shrinks old ReplicaSets: first unavailable replicas, then, based on a live list, surplus replicas (I3).
 *
 * Differs from upstream: an error without a following event (no response, 5xx) is swallowed here too, but requeues the key.
 * Source: rolling.go reconcileOldReplicaSets.
 */
async function reconcileOldReplicaSets(
  sync: DeploymentSync,
  known: Known,
  split: WithNewReplicaSet,
): Promise<StepResult<{ readonly shrunk: boolean }> | Stopped> {
  const first = await shrinkUnhealthy(sync, known, split);
  if (first.kind !== "goOn") return first;
  const cached = scaleDownOldReplicaSets(known.d, first.left);
  if (cached.decided.length === 0) {
    because(sync, ...cached.why);
    return first;
  }
  const list = await listReplicaSets(sync, first.known);
  if (list.kind === "ended") return list;
  const listed = list.known;
  const live = splitReplicaSets(listed.d, listed.rss);
  if (live.newRS?.metadata.uid !== split.newRS.metadata.uid) {
    because(sync, { rule: "newest by a live list is another", facts: {} });
    return { kind: "stopped", known: listed };
  }
  const second = await shrinkUnhealthy(sync, listed, live);
  if (second.kind !== "goOn") return second;
  const { decided: steps, why } = scaleDownOldReplicaSets(known.d, second.left);
  because(sync, ...why);
  const third = await shrink(sync, second.known, steps);
  return third.kind === "goOn" ? { ...third, shrunk: first.shrunk || second.shrunk || steps.length > 0 } : third;
}

/** `left`: the ReplicaSets with their new sizes. */
async function shrinkUnhealthy(
  sync: DeploymentSync,
  known: Known,
  { newRS, oldRSs }: ReplicaSetSplit,
): Promise<StepResult<{ readonly shrunk: boolean; readonly left: ReplicaSetSplit }> | Stopped> {
  const active = activeReplicaSets(oldRSs);
  const { decided: budget, why: whyBudget } = shrinkBudget(known.d, { newRS, oldRSs: active });
  because(sync, ...whyBudget);
  if (budget <= 0) return { kind: "stopped", known };
  const { steps, guard, why } = cleanupUnhealthyReplicas(known.d, active, budget);
  because(sync, ...why);
  const done = await shrink(sync, known, steps);
  if (done.kind !== "goOn") return done;
  if (guard) return { kind: "stopped", known: done.known };
  return { ...done, shrunk: steps.length > 0, left: { newRS, oldRSs: active.map((rs) => newestOf(done.known, rs)) } };
}

async function shrink(
  { session, tell }: DeploymentSync,
  from: Known,
  steps: readonly NotedWrite<PatchReplicaSet>[],
): Promise<StepResult | Stopped> {
  let known = from;
  for (const { write, note } of steps) {
    const { end, results, error } = await session.perform([write]);
    if (end !== undefined) return ended(end);
    const rs = storedReplicaSet(results[0]);
    if (rs === undefined) return { kind: "stopped", known, ...(results[0]?.kind === "failed" && error && { failure: error }) };
    known = withReplicaSet(known, rs);
    tell(note);
  }
  return { kind: "goOn", known };
}
