/** One step of a rolling update (deployment §11). A sync either grows the new ReplicaSet or shrinks old ones, never both. */
import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import { maxUnavailable, scaledValue } from "./fenceposts.ts";
import type { ReplicaSetSplit } from "./replica-sets.ts";
import { activeReplicaSets, allReplicaSets, availableOf, byCreation, replicasOf, totalAvailable, totalReplicas } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type Step } from "./writes.ts";

/**
 * Grows the new ReplicaSet as far as the surge allows, or cuts it to `spec.replicas`.
 *
 *     R 10, surge 2: old 2, new 11 → 10        old 10, new 2 → stays        old 5, new 0 → 7
 *
 * Source: rolling.go reconcileNewReplicaSet.
 */
export function reconcileNewReplicaSet(
  d: CachedDeployment,
  newRS: CachedReplicaSet,
  oldRSs: readonly CachedReplicaSet[],
): Step<PatchReplicaSet> | undefined {
  const size = replicasOf(newRS);
  if (size === replicasOf(d)) return undefined;
  if (size > replicasOf(d)) return scaleReplicaSet(d, newRS, replicasOf(d));
  return scaleReplicaSet(d, newRS, newRSNewReplicas(d, size, oldRSs));
}

/**
 * The size the new ReplicaSet should have now (deployment §11.2). `current` is its size today, 0 if it is about to be
 * created; `others` are all other ReplicaSets.
 *
 *     R 10, surge 2, old 5, new 0: cap 12, total 5 → 0 + min(12 − 5, 10 − 0) = 7
 *     R 10, surge 2, old 10, new 2: total 12 ≥ cap 12 → stays 2
 *     R 6, surge 10, old 5, new 2: cap 16, total 7 → 2 + min(9, 4) = 6
 *     Recreate → R, whatever else exists
 *
 * @throws {Error} on another strategy, or a maxSurge that cannot be resolved.
 * Source: deployment/util NewRSNewReplicas.
 */
export function newRSNewReplicas(d: CachedDeployment, current: number, others: readonly CachedReplicaSet[]): number {
  const type = d.spec.strategy?.type;
  if (type === "Recreate") return replicasOf(d);
  if (type !== "RollingUpdate") throw new Error(`deployment type ${type ?? ""} isn't supported`);
  const surge = scaledValue(d.spec.strategy?.rollingUpdate?.maxSurge, replicasOf(d), Math.ceil);
  if (typeof surge === "string") throw new Error(surge);
  const total = totalReplicas(others) + current;
  const cap = replicasOf(d) + surge;
  if (total >= cap) return current;
  return current + Math.min(cap - total, replicasOf(d) - current);
}

/**
 * How many old replicas may go without the available ones falling below the minimum, however many of the new ones never
 * become available. 0 or less: nothing may be shrunk.
 *
 *     R 10, unavailable 2, surge 3; old 8, new 5 of which 1 available:
 *       total 13 − minAvailable 8 − unavailable new ones 4 = 1
 *
 * Source: rolling.go reconcileOldReplicaSets.
 */
export function shrinkBudget(d: CachedDeployment, split: ReplicaSetSplit): number {
  const oldRSs = activeReplicaSets(split.oldRSs);
  if (oldRSs.length === 0) return 0;
  const minAvailable = replicasOf(d) - maxUnavailable(d);
  const newUnavailable = split.newRS === undefined ? 0 : replicasOf(split.newRS) - availableOf(split.newRS);
  return totalReplicas(allReplicaSets(split)) - minAvailable - newUnavailable;
}

/** Size writes in order, and whether the guard stands at their end. */
export interface UnhealthyCleanup {
  readonly steps: readonly Step<PatchReplicaSet>[];
  /**
   * An old ReplicaSet reports more available pods than its size: it was shrunk and its controller has not followed yet. The
   * counts lie, so nothing more is shrunk in this sync. Upstream's error "when cleaning up unhealthy replicas, got invalid
   * request to scale down …", which its caller swallows (quirk Q1).
   */
  readonly guard: boolean;
}

/**
 * Replicas of old ReplicaSets that are not available go first: they serve nobody, and a rollout must not wait for them.
 *
 *     budget 3, old 10 of which 8 available: cut min(3, 10 − 8) = 2 → 8
 *     old 2 of which 3 available: cut −1 → guard
 *
 * Source: rolling.go cleanupUnhealthyReplicas.
 */
export function cleanupUnhealthyReplicas(d: CachedDeployment, oldRSs: readonly CachedReplicaSet[], budget: number): UnhealthyCleanup {
  const steps: Step<PatchReplicaSet>[] = [];
  let removed = 0;
  for (const rs of oldRSs.toSorted(byCreation)) {
    if (removed >= budget) break;
    const size = replicasOf(rs);
    if (size === 0 || size === availableOf(rs)) continue;
    const cut = Math.min(budget - removed, size - availableOf(rs));
    if (cut < 0) return { steps, guard: true };
    const step = scaleReplicaSet(d, rs, size - cut);
    if (step !== undefined) steps.push(step);
    removed += cut;
  }
  return { steps, guard: false };
}

/**
 * Then available replicas of old ReplicaSets go, down to the minimum. `split` has the sizes after the unhealthy ones went.
 *
 *     R 10, unavailable 2; old 10 of which 10 available, new 0: available 10 − minAvailable 8 = 2 → old 8
 *     R 10, unavailable 2; old 10 of which 8 available: 8 − 8 = 0 → nothing
 *
 * Source: rolling.go scaleDownOldReplicaSetsForRollingUpdate.
 */
export function scaleDownOldReplicaSets(d: CachedDeployment, split: ReplicaSetSplit): readonly Step<PatchReplicaSet>[] {
  const excess = totalAvailable(allReplicaSets(split)) - (replicasOf(d) - maxUnavailable(d));
  const steps: Step<PatchReplicaSet>[] = [];
  let cut = 0;
  for (const rs of split.oldRSs.toSorted(byCreation)) {
    if (cut >= excess) break;
    const size = replicasOf(rs);
    if (size === 0) continue;
    const part = Math.min(size, excess - cut);
    const step = scaleReplicaSet(d, rs, size - part);
    if (step !== undefined) steps.push(step);
    cut += part;
  }
  return steps;
}
