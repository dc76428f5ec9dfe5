/** Whether a rollout progresses, is stuck, paused or complete (deployment §13.3–§13.5). */
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus, Condition } from "@deltaloop/kube/objects";
import { getCondition, removeCondition, setDeploymentCondition, parseTime } from "@deltaloop/kube/objects";
import type { Release } from "@deltaloop/kube/releases";
import type { Decision } from "../kit/reason.ts";
import { type DeploymentCondition, newCondition } from "./conditions.ts";
import { cleanupDeployment } from "./history.ts";
import type { DeploymentReason } from "./reasons.ts";
import { allReplicaSets, type ReplicaSetSplit, replicasOf } from "./replica-sets.ts";
import { calculateStatus, sameStatus } from "./status.ts";

/** Means "no deadline", like an absent value. Source: deployment/util HasProgressDeadline. */
const NO_DEADLINE = 2_147_483_647;
const SECOND_MS = 1000;

export function hasProgressDeadline(d: CachedDeployment): boolean {
  return d.spec.progressDeadlineSeconds !== undefined && d.spec.progressDeadlineSeconds !== NO_DEADLINE;
}

/**
 * The status at the end of a rollout sync: counters, and the conditions for progress and failures. For a complete Deployment (all replicas
 * updated, reason NewReplicaSetAvailable) progress is evaluated again only once a rollout starts.
 * Source: progress.go syncRolloutStatus.
 */
export function rolloutStatus(
  d: CachedDeployment,
  split: ReplicaSetSplit,
  nowMs: number,
  release?: Release,
): Decision<DeploymentStatus, DeploymentReason> {
  const { decided: sums, why } = calculateStatus(d, split, nowMs, release);
  const { verdict, conditions: judged } = progress(d, split.newRS, sums, nowMs);
  const failure = replicaFailure(split);
  const conditions = failure === undefined ? removeCondition(judged, "ReplicaFailure") : setDeploymentCondition(judged, failure);
  const status = { ...sums, conditions };
  return { decided: status, why: [...why, whyProgress(d, status, verdict)] };
}

type Verdict = Extract<DeploymentReason, { rule: "progress" }>["facts"]["verdict"];

/** The conditions with Progressing: removed without a deadline, unchanged for a complete Deployment. */
function progress(
  d: CachedDeployment,
  newRS: CachedReplicaSet | undefined,
  sums: DeploymentStatus,
  nowMs: number,
): { readonly verdict: Verdict; readonly conditions: readonly Condition[] } {
  const current = getCondition(d.status.conditions, "Progressing");
  const settled = sums.replicas === sums.updatedReplicas && current?.reason === "NewReplicaSetAvailable";
  if (!hasProgressDeadline(d)) return { verdict: "no deadline", conditions: removeCondition(sums.conditions, "Progressing") };
  if (settled) return { verdict: "settled", conditions: sums.conditions ?? [] };
  return progressConditions(d, newRS, sums, nowMs);
}

function whyProgress(d: CachedDeployment, status: DeploymentStatus, verdict: Verdict): DeploymentReason {
  return {
    rule: "progress",
    facts: {
      verdict,
      replicas: replicasOf(d),
      total: status.replicas ?? 0,
      updated: status.updatedReplicas ?? 0,
      available: status.availableReplicas ?? 0,
      deadlineSeconds: d.spec.progressDeadlineSeconds,
      since: getCondition(d.status.conditions, "Progressing")?.lastUpdateTime,
      differs: !sameStatus(d.status, status),
    },
  };
}

/** The conditions after the first case that applies: complete, progressing, timed out; otherwise unchanged. */
function progressConditions(
  d: CachedDeployment,
  newRS: CachedReplicaSet | undefined,
  status: DeploymentStatus,
  nowMs: number,
): ReturnType<typeof progress> {
  const subject = newRS === undefined ? `Deployment "${d.metadata.name}"` : `ReplicaSet "${newRS.metadata.name}"`;
  if (deploymentComplete(d, status)) {
    const condition = newCondition("Progressing", "True", "NewReplicaSetAvailable", `${subject} has successfully progressed.`, nowMs);
    return { verdict: "complete", conditions: setDeploymentCondition(status.conditions, condition) };
  }
  if (deploymentProgressing(d, status)) {
    const current = getCondition(d.status.conditions, "Progressing");
    const condition = newCondition("Progressing", "True", "ReplicaSetUpdated", `${subject} is progressing.`, nowMs);
    // Unlike other conditions, this condition is written even if status and reason are unchanged, because the deadline counts from
    // lastUpdateTime.
    const since = current?.status === "True" ? current.lastTransitionTime : undefined;
    const others = removeCondition(status.conditions, "Progressing");
    return { verdict: "moves", conditions: [...others, since === undefined ? condition : { ...condition, lastTransitionTime: since }] };
  }
  if (deploymentTimedOut(d, status, nowMs)) {
    const condition = newCondition("Progressing", "False", "ProgressDeadlineExceeded", `${subject} has timed out progressing.`, nowMs);
    return { verdict: "timed out", conditions: setDeploymentCondition(status.conditions, condition) };
  }
  return { verdict: "waits", conditions: status.conditions ?? [] };
}

/** Whether all replicas are updated and available, and no old replica is left. Source: deployment/util DeploymentComplete. */
export function deploymentComplete(d: CachedDeployment, status: DeploymentStatus): boolean {
  const wanted = replicasOf(d);
  return (
    (status.updatedReplicas ?? 0) === wanted &&
    (status.replicas ?? 0) === wanted &&
    (status.availableReplicas ?? 0) === wanted &&
    (status.observedGeneration ?? 0) >= (d.metadata.generation ?? 0)
  );
}

/**
 * Whether there are more updated, fewer old, more ready or more available replicas than in `d.status`.
 *
 *     old 10 of which 4 updated → new 8 of which 4 updated: 4 old < 6 old, so it progresses
 *
 * Source: deployment/util DeploymentProgressing.
 */
export function deploymentProgressing(d: CachedDeployment, status: DeploymentStatus): boolean {
  const oldOnes = ({ replicas, updatedReplicas }: DeploymentStatus): number => (replicas ?? 0) - (updatedReplicas ?? 0);
  return (
    (status.updatedReplicas ?? 0) > (d.status.updatedReplicas ?? 0) ||
    oldOnes(status) < oldOnes(d.status) ||
    (status.readyReplicas ?? 0) > (d.status.readyReplicas ?? 0) ||
    (status.availableReplicas ?? 0) > (d.status.availableReplicas ?? 0)
  );
}

/**
 * Whether there was no progress for longer than the deadline. Strictly later: updated 10:00:00, deadline 60 s: not at 10:01:00.000,
 * but a millisecond after. Source: deployment/util DeploymentTimedOut.
 */
export function deploymentTimedOut(d: CachedDeployment, status: DeploymentStatus, nowMs: number): boolean {
  const condition = getCondition(status.conditions, "Progressing");
  if (!hasProgressDeadline(d) || condition === undefined || condition.reason === "NewReplicaSetAvailable") return false;
  if (condition.reason === "ProgressDeadlineExceeded") return true;
  return dueMs(d, condition) < nowMs;
}

/**
 * Returns when to check the deadline again, in milliseconds from now; undefined means never. Called only if the status did not change,
 * because a change is followed by another sync.
 *
 *     updated 18:49:00, deadline 60 s: at 18:49:30 → 30 s + 1 s = 31000; at 18:49:59.500 → just past the deadline, 501
 *
 * Differs from upstream, which re-adds the key in a loop during the last second before the deadline; we wait until it has passed.
 * With reason NewReplicaSetAvailable nothing can time out, so nothing is scheduled (S20).
 * Source: progress.go requeueStuckDeployment.
 */
export function progressRecheckMs(
  d: CachedDeployment,
  status: DeploymentStatus,
  nowMs: number,
): Decision<number | undefined, DeploymentReason> {
  const never = { decided: undefined, why: [] };
  const condition = getCondition(d.status.conditions, "Progressing");
  if (!hasProgressDeadline(d) || condition === undefined || deploymentComplete(d, status)) return never;
  if (condition.reason === "ProgressDeadlineExceeded" || condition.reason === "NewReplicaSetAvailable") return never;
  const leftMs = dueMs(d, condition) - nowMs;
  const afterMs = leftMs < SECOND_MS ? Math.max(0, leftMs + 1) : leftMs + SECOND_MS;
  const facts = { afterMs, deadlineSeconds: d.spec.progressDeadlineSeconds ?? 0, since: condition.lastUpdateTime };
  return { decided: afterMs, why: [{ rule: "looks at the deadline", facts }] };
}

/**
 * Returns the delay of the follow-up sync after a status write, in milliseconds; undefined means no follow-up. Upstream's own status write
 * returns as an update and starts another sync, which cleans up after a rollout that has just completed (quirk Q12) and schedules the
 * deadline. Here own status writes enqueue no keys (informer §13 layer 2), so the sync requeues itself. `d` is the Deployment in the
 * response to that write.
 */
export function followUpMs(
  d: CachedDeployment,
  oldRSs: readonly CachedReplicaSet[],
  nowMs: number,
): Decision<number | undefined, DeploymentReason> {
  if (deploymentComplete(d, d.status) && cleanupDeployment(d, oldRSs).decided.length > 0)
    return { decided: 0, why: [{ rule: "history at once", facts: {} }] };
  return progressRecheckMs(d, d.status, nowMs);
}

/** Without a readable lastUpdateTime the deadline has passed, as it has for Go's zero time. */
function dueMs(d: CachedDeployment, condition: Condition): number {
  return (parseTime(condition.lastUpdateTime) ?? 0) + (d.spec.progressDeadlineSeconds ?? 0) * SECOND_MS;
}

/**
 * The status that records the pause or its end; undefined if it is already recorded (deployment §13.5). After a resume the deadline counts
 * from this condition. A rollout that has timed out keeps that condition.
 * Source: sync.go checkPausedConditions.
 */
export function pausedStatus(d: CachedDeployment, nowMs: number): Decision<DeploymentStatus | undefined, DeploymentReason> {
  const nothing = { decided: undefined, why: [] };
  if (!hasProgressDeadline(d)) return nothing;
  const reason = getCondition(d.status.conditions, "Progressing")?.reason;
  if (reason === "ProgressDeadlineExceeded") return nothing;
  const paused = d.spec.paused === true;
  const why: readonly DeploymentReason[] =
    paused || reason === "DeploymentPaused" ? [{ rule: "pause noted", facts: { paused, said: reason } }] : [];
  if (paused === (reason === "DeploymentPaused")) return { decided: undefined, why };
  const condition = paused
    ? newCondition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", nowMs)
    : newCondition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", nowMs);
  const status = { ...d.status, conditions: setDeploymentCondition(d.status.conditions, condition) };
  return { decided: status, why };
}

/** The new ReplicaSet's failure to create or delete pods, otherwise the first failure found. Source: progress.go getReplicaFailures. */
function replicaFailure(split: ReplicaSetSplit): DeploymentCondition | undefined {
  const candidates = split.newRS === undefined ? allReplicaSets(split) : [split.newRS, ...allReplicaSets(split)];
  for (const rs of candidates) {
    const failure = rs.status.conditions?.find(({ type }) => type === "ReplicaFailure");
    if (failure === undefined) continue;
    const { status, reason, message, lastTransitionTime } = failure;
    return {
      type: "ReplicaFailure",
      status,
      ...(reason === undefined ? {} : { reason }),
      ...(message === undefined ? {} : { message }),
      ...(lastTransitionTime === undefined ? {} : { lastTransitionTime, lastUpdateTime: lastTransitionTime }),
    };
  }
  return undefined;
}
