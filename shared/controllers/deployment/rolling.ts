/** One step of a rolling update (deployment §11). A sync either grows the new ReplicaSet or shrinks old ReplicaSets, never both. */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import type { Decision } from "../kit/reason.ts";
import { maxSurge, scaledValue, unavailableOf, whyPods } from "./max-surge-max-unavailable.ts";
import type { DeploymentReason } from "./reasons.ts";
import type { ReplicaSetSplit } from "./replica-sets.ts";
import { activeReplicaSets, allReplicaSets, availableOf, byCreation, replicasOf, totalAvailable, totalReplicas } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type NotedWrite } from "./writes.ts";

/**
 * Grows the new ReplicaSet as far as the surge allows, or shrinks it to `spec.replicas`.
 *
 *     R 10, surge 2: old 2, new 11 → 10        old 10, new 2 → stays        old 5, new 0 → 7
 *
 * Source: rolling.go reconcileNewReplicaSet.
 */
export function reconcileNewReplicaSet(
  d: CachedDeployment,
  newRS: CachedReplicaSet,
  oldRSs: readonly CachedReplicaSet[],
): Decision<NotedWrite<PatchReplicaSet> | undefined, DeploymentReason> {
  const size = replicasOf(newRS);
  const replicas = replicasOf(d);
  const about = newRS.metadata.name;
  const seen = { replicas, maxSurge: maxSurge(d), total: totalReplicas(oldRSs) + size, size };
  if (size === replicas) return { decided: undefined, why: [{ rule: "has its size", about, facts: { ...seen, to: size } }] };
  if (size > replicas)
    return { decided: scaleReplicaSet(d, newRS, replicas), why: [{ rule: "is too large", about, facts: { ...seen, to: replicas } }] };
  const { decided: to, why } = newRSNewReplicas(d, size, oldRSs);
  return { decided: scaleReplicaSet(d, newRS, to), why: saidOf(about, why) };
}

/**
 * Sets `about` in reasons about sizes of the ReplicaSet. Reasons about resolved percentages have none, because they concern the Deployment.
 */
export function saidOf(about: string, why: readonly DeploymentReason[]): readonly DeploymentReason[] {
  return why.map((reason) => (reason.rule === "in pods" ? reason : { ...reason, about }));
}

/**
 * The size of the new ReplicaSet (deployment §11.2). `current` is its present size, 0 if it is to be created; `others` are all
 * other ReplicaSets.
 *
 *     R 10, surge 2, old 5, new 0: cap 12, total 5 → 0 + min(12 − 5, 10 − 0) = 7
 *     R 10, surge 2, old 10, new 2: total 12 ≥ cap 12 → stays 2
 *     R 6, surge 10, old 5, new 2: cap 16, total 7 → 2 + min(9, 4) = 6
 *     Recreate → R, whatever other ReplicaSets exist
 *
 * @throws {Error} for another strategy, or a maxSurge that cannot be resolved.
 * Source: deployment/util NewRSNewReplicas.
 */
export function newRSNewReplicas(
  d: CachedDeployment,
  current: number,
  others: readonly CachedReplicaSet[],
): Decision<number, DeploymentReason> {
  const type = d.spec.strategy?.type;
  const replicas = replicasOf(d);
  const total = totalReplicas(others) + current;
  const seen = { replicas, maxSurge: 0, total, size: current };
  if (type === "Recreate") return { decided: replicas, why: [{ rule: "has all at once", facts: { ...seen, to: replicas } }] };
  if (type !== "RollingUpdate") throw new Error(`deployment type ${type ?? ""} isn't supported`);
  const surge = scaledValue(d.spec.strategy?.rollingUpdate?.maxSurge, replicas, Math.ceil);
  if (typeof surge === "string") throw new Error(surge);
  const cap = replicas + surge;
  const to = total >= cap ? current : current + Math.min(cap - total, replicas - current);
  const rule = total >= cap ? "surge is used up" : "surge leaves room";
  return { decided: to, why: [...whyPods(d, "maxSurge", surge), { rule, facts: { ...seen, maxSurge: surge, to } }] };
}

/**
 * The number of old replicas that may be removed without violating the minimum, even if unavailable new replicas never become
 * available. 0 or less: no old ReplicaSet may shrink.
 *
 *     R 10, unavailable 2, surge 3; old 8, new 5 of which 1 available:
 *       total 13 − minAvailable 8 − unavailable new ones 4 = 1
 *
 * Source: rolling.go reconcileOldReplicaSets.
 */
export function shrinkBudget(d: CachedDeployment, split: ReplicaSetSplit): Decision<number, DeploymentReason> {
  const oldRSs = activeReplicaSets(split.oldRSs);
  if (oldRSs.length === 0) return { decided: 0, why: [{ rule: "nothing old", facts: {} }] };
  const { decided: maxUnavailable, why } = unavailableOf(d);
  const seen = { total: totalReplicas(allReplicaSets(split)), replicas: replicasOf(d), maxUnavailable };
  const minAvailable = seen.replicas - seen.maxUnavailable;
  const newUnavailable = split.newRS === undefined ? 0 : replicasOf(split.newRS) - availableOf(split.newRS);
  const budget = seen.total - minAvailable - newUnavailable;
  return { decided: budget, why: [...why, { rule: "old may go", facts: { ...seen, newUnavailable, budget } }] };
}

/** Size writes in order, and whether they stopped early because of stale counts. */
export interface UnhealthyCleanup {
  readonly steps: readonly NotedWrite<PatchReplicaSet>[];
  /**
   * An old ReplicaSet reports more available pods than its size: it was scaled down and its controller has not followed yet. The counts
   * are stale, so this sync scales down no further. Upstream's error "when cleaning up unhealthy replicas, got invalid
   * request to scale down …", which its caller swallows (quirk Q1).
   */
  readonly guard: boolean;
  readonly why: readonly DeploymentReason[];
}

/**
 * Removes unavailable replicas of old ReplicaSets first: they serve no traffic, and a rollout must not wait for them.
 *
 *     budget 3, old 10 of which 8 available: cut min(3, 10 − 8) = 2 → 8
 *     old 2 of which 3 available: cut −1 → `guard`, no further scale-down
 *
 * Source: rolling.go cleanupUnhealthyReplicas.
 */
export function cleanupUnhealthyReplicas(d: CachedDeployment, oldRSs: readonly CachedReplicaSet[], budget: number): UnhealthyCleanup {
  const steps: NotedWrite<PatchReplicaSet>[] = [];
  const why: DeploymentReason[] = [];
  let removed = 0;
  for (const rs of oldRSs.toSorted(byCreation)) {
    if (removed >= budget) break;
    const seen = { size: replicasOf(rs), available: availableOf(rs) };
    const about = rs.metadata.name;
    if (seen.size === 0 || seen.size === seen.available) continue;
    const cut = Math.min(budget - removed, seen.size - seen.available);
    if (cut < 0) return { steps, guard: true, why: [...why, { rule: "counts lie", about, facts: seen }] };
    const to = seen.size - cut;
    const step = scaleReplicaSet(d, rs, to);
    if (step !== undefined) steps.push(step);
    why.push({ rule: "unavailable ones go", about, facts: { ...seen, budget: budget - removed, to } });
    removed += cut;
  }
  return { steps, guard: false, why };
}

/**
 * Then removes available replicas of old ReplicaSets, down to the minimum. `split` has the sizes after the removal of unhealthy ones.
 *
 *     R 10, unavailable 2; old 10 of which 10 available, new 0: available 10 − minAvailable 8 = 2 → old 8
 *     R 10, unavailable 2; old 10 of which 8 available: 8 − 8 = 0 → nothing
 *
 * Source: rolling.go scaleDownOldReplicaSetsForRollingUpdate.
 */
export function scaleDownOldReplicaSets(
  d: CachedDeployment,
  split: ReplicaSetSplit,
): Decision<readonly NotedWrite<PatchReplicaSet>[], DeploymentReason> {
  const { decided: maxUnavailable, why: whyUnavailable } = unavailableOf(d);
  const seen = { available: totalAvailable(allReplicaSets(split)), replicas: replicasOf(d), maxUnavailable };
  const excess = seen.available - (seen.replicas - seen.maxUnavailable);
  const steps: NotedWrite<PatchReplicaSet>[] = [];
  const rule = excess > 0 ? "above the minimum" : "at the minimum";
  const why: DeploymentReason[] = [...whyUnavailable, { rule, facts: { ...seen, excess } }];
  let cut = 0;
  for (const rs of split.oldRSs.toSorted(byCreation)) {
    if (cut >= excess) break;
    const size = replicasOf(rs);
    if (size === 0) continue;
    const part = Math.min(size, excess - cut);
    const to = size - part;
    const step = scaleReplicaSet(d, rs, to);
    if (step !== undefined) steps.push(step);
    why.push({ rule: "available ones go", about: rs.metadata.name, facts: { size, to, excess: excess - cut } });
    cut += part;
  }
  return { decided: steps, why };
}
