/** The owner's status after a sync (replicaset §10). */
import type { CachedPod, CachedReplicaSet, ReplicaSetStatus, Condition, Labels } from "@deltaloop/kube/objects";
import { getCondition, removeCondition, setReplicaSetCondition, isAvailable, isReady, formatTime } from "@deltaloop/kube/objects";
import type { WriteOf } from "../kit/performed.ts";
import type { Owner } from "../kit/writes.ts";
import { wantedReplicas } from "./manage-replicas.ts";
import type { ReplicaReason } from "./reasons.ts";

export interface StatusInput {
  /** Pods claimed before this sync created or deleted any. */
  readonly claimed: readonly CachedPod[];
  /** Absent if the kind has no field for terminating replicas. */
  readonly terminating?: readonly CachedPod[];
  /** The error of manageReplicas, if it failed. */
  readonly manageError?: Error;
  /** Whether manageReplicas waits for a live list (§18), in which case it has neither failed nor succeeded. */
  readonly isWaiting?: boolean;
  readonly nowMs: number;
}

/** Source: pkg/controller/replicaset/replica_set_utils.go calculateStatus. */
export function calculateStatus(
  rs: CachedReplicaSet,
  { claimed, terminating, manageError, isWaiting = false, nowMs }: StatusInput,
): ReplicaSetStatus {
  const templateLabels = rs.spec.template?.labels ?? {};
  return {
    replicas: claimed.length,
    fullyLabeledReplicas: claimed.filter((pod) => hasLabels(pod, templateLabels)).length,
    readyReplicas: claimed.filter(isReady).length,
    availableReplicas: claimed.filter((pod) => isAvailable(pod, rs.spec.minReadySeconds ?? 0, nowMs)).length,
    ...(terminating && { terminatingReplicas: terminating.length }),
    observedGeneration: rs.metadata.generation ?? 0,
    conditions: isWaiting ? (rs.status.conditions ?? []) : conditionsAfter(rs, claimed.length, manageError, nowMs),
  };
}

/** Reasons of a status: its counts, whether they changed, and whether an earlier failure has ended. */
export function whyStatus(rs: CachedReplicaSet, status: ReplicaSetStatus, differs: boolean): readonly ReplicaReason[] {
  const before = getCondition(rs.status.conditions ?? [], "ReplicaFailure");
  const isOver = before !== undefined && getCondition(status.conditions ?? [], "ReplicaFailure") === undefined;
  const counts: ReplicaReason = {
    rule: "counts",
    facts: {
      pods: status.replicas ?? 0,
      fullyLabeled: status.fullyLabeledReplicas ?? 0,
      ready: status.readyReplicas ?? 0,
      available: status.availableReplicas ?? 0,
      terminating: status.terminatingReplicas,
      minReadySeconds: rs.spec.minReadySeconds ?? 0,
      generation: status.observedGeneration ?? 0,
      differs,
    },
  };
  return isOver ? [counts, { rule: "fails no more", facts: { reason: before.reason, since: before.lastTransitionTime } }] : [counts];
}

function hasLabels(pod: CachedPod, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => pod.labels?.[key] === value);
}

/**
 * Sets or removes `ReplicaFailure` according to the error. While the condition lasts, its message and time stay unchanged. Other conditions
 * stay unchanged.
 */
function conditionsAfter(rs: CachedReplicaSet, claimed: number, error: Error | undefined, nowMs: number): readonly Condition[] {
  const conditions = rs.status.conditions ?? [];
  if (error === undefined) return removeCondition(conditions, "ReplicaFailure");
  if (getCondition(conditions, "ReplicaFailure") !== undefined) return conditions;
  const reason = claimed < wantedReplicas(rs) ? "FailedCreate" : claimed > wantedReplicas(rs) ? "FailedDelete" : "";
  return setReplicaSetCondition(conditions, {
    type: "ReplicaFailure",
    status: "True",
    reason,
    message: error.message,
    lastTransitionTime: formatTime(nowMs),
  });
}

/**
 * The write that stores `status`, or undefined if it is stored already. Absent counters equal 0, except `terminatingReplicas`. A new
 * generation is written even if no count changes.
 *
 * Source: replica_set_utils.go updateReplicaSetStatus.
 */
export function statusWrite(rs: CachedReplicaSet, owner: Owner, status: ReplicaSetStatus): WriteOf<"UpdateStatus"> | undefined {
  const stored = rs.status;
  const isStored =
    (stored.replicas ?? 0) === status.replicas &&
    (stored.fullyLabeledReplicas ?? 0) === status.fullyLabeledReplicas &&
    (stored.readyReplicas ?? 0) === status.readyReplicas &&
    (stored.availableReplicas ?? 0) === status.availableReplicas &&
    stored.terminatingReplicas === status.terminatingReplicas &&
    (stored.observedGeneration ?? 0) === status.observedGeneration &&
    sameConditions(stored.conditions ?? [], status.conditions ?? []);
  if (isStored) return undefined;
  // The field does not exist before Kubernetes 1.35.
  const absent = owner.resource === "replicasets" && status.terminatingReplicas === undefined ? (["terminatingReplicas"] as const) : [];
  return { kind: "UpdateStatus", owner, resourceVersion: rs.metadata.resourceVersion, status, absent };
}

/** Unchanged conditions are the same objects, so a shallow comparison suffices. */
function sameConditions(a: readonly Condition[], b: readonly Condition[]): boolean {
  return a.length === b.length && a.every((condition, i) => condition === b[i]);
}
