/** The status of a Deployment, summed over its ReplicaSets (deployment §13.1), and when to write it. */
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus, Condition } from "@deltaloop/kube/objects";
import { setDeploymentCondition } from "@deltaloop/kube/objects";
import { OWN_RELEASE } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";
import { type DeploymentCondition, newCondition } from "./conditions.ts";
import type { Decision } from "../kit/reason.ts";
import { unavailableOf } from "./max-surge-max-unavailable.ts";
import type { DeploymentReason } from "./reasons.ts";
import { allReplicaSets, type ReplicaSetSplit, replicasOf, sum, totalAvailable, totalReplicas } from "./replica-sets.ts";
import { COUNTERS, explicit } from "./writes.ts";

/**
 * The status as the sum over the ReplicaSets, every counter explicit. Sizes are those from the start of the sync; its own writes count in
 * the next sync (quirk Q8).
 *
 *     R 10, unavailable 2; new 3 (1 available), old 8 (8 available): replicas 11, updated 3, available 9,
 *     unavailable max(0, 11 − 9) = 2; 9 ≥ 10 − 2, so Available is True
 *
 * Source: sync.go calculateStatus.
 */
export function calculateStatus(
  d: CachedDeployment,
  split: ReplicaSetSplit,
  nowMs: number,
  { behaviour }: Pick<Release, "behaviour"> = OWN_RELEASE,
): Decision<DeploymentStatus, DeploymentReason> {
  const all = allReplicaSets(split);
  const available = totalAvailable(all);
  const terminating = behaviour.countsTerminating ? terminatingReplicas(all) : undefined;
  const { collisionCount } = d.status;
  const { condition, why } = availability(d, available, nowMs);
  const status: DeploymentStatus = {
    observedGeneration: d.metadata.generation ?? 0,
    replicas: sum(all, (rs) => rs.status.replicas ?? 0),
    updatedReplicas: split.newRS?.status.replicas ?? 0,
    readyReplicas: sum(all, (rs) => rs.status.readyReplicas ?? 0),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, totalReplicas(all) - available),
    ...(terminating === undefined ? {} : { terminatingReplicas: terminating }),
    ...(collisionCount === undefined ? {} : { collisionCount }),
    conditions: setDeploymentCondition(d.status.conditions, condition),
  };
  return { decided: status, why };
}

function availability(
  d: CachedDeployment,
  available: number,
  nowMs: number,
): { readonly condition: DeploymentCondition; readonly why: readonly DeploymentReason[] } {
  const { decided: maxUnavailable, why } = unavailableOf(d);
  const seen = { available, replicas: replicasOf(d), maxUnavailable };
  const isEnough = available >= seen.replicas - seen.maxUnavailable;
  const condition = isEnough
    ? newCondition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", nowMs)
    : newCondition("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", nowMs);
  return { condition, why: [...why, { rule: "availability", facts: { ...seen, isEnough } }] };
}

/**
 * The sum, or undefined if an observed ReplicaSet does not report the value (feature gate off). A ReplicaSet that was never observed counts
 * as 0. Source: deployment/util GetTerminatingReplicaCountForReplicaSets.
 */
function terminatingReplicas(rss: readonly CachedReplicaSet[]): number | undefined {
  const silent = rss.some((rs) => rs.status.terminatingReplicas === undefined && (rs.status.observedGeneration ?? 0) > 0);
  return silent ? undefined : sum(rss, (rs) => rs.status.terminatingReplicas ?? 0);
}

/** Whether both statuses are equal when stored: an absent plain counter equals 0, an absent pointer field does not. */
export function sameStatus(a: DeploymentStatus, b: DeploymentStatus): boolean {
  const [left, right] = [explicit(a), explicit(b)];
  const counters = COUNTERS.every((counter) => left[counter] === right[counter]);
  return counters && sameConditions(left.conditions ?? [], right.conditions ?? []);
}

function sameConditions(a: readonly Condition[], b: readonly Condition[]): boolean {
  return a.length === b.length && a.every((condition, index) => sameCondition(condition, b[index]));
}

function sameCondition(a: Condition, b: Condition | undefined): boolean {
  return b !== undefined && CONDITION_FIELDS.every((field) => (a[field] ?? "") === (b[field] ?? ""));
}

const CONDITION_FIELDS = ["type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime"] as const;
