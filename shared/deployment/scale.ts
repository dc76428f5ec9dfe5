/** Following `spec.replicas` outside a rollout step: while paused, or when it has just changed (deployment §10). */
import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import { annotatedReplicas, DESIRED_REPLICAS } from "./annotations.ts";
import { isRollingUpdate } from "./fenceposts.ts";
import { proportionalScaling } from "./proportional-scaling.ts";
import { activeReplicaSets, allReplicaSets, availableOf, type ReplicaSetSplit, replicasOf } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type Step } from "./writes.ts";

/**
 * Whether the Deployment was resized since its ReplicaSets were: one that has replicas remembers another size than
 * `spec.replicas` (deployment §4.2). Those at 0 and those whose annotation is missing or unreadable say nothing.
 * Source: sync.go isScalingEvent.
 */
export function isScalingEvent(d: CachedDeployment, rss: readonly CachedReplicaSet[]): boolean {
  return activeReplicaSets(rss).some((rs) => {
    const desired = annotatedReplicas(rs, DESIRED_REPLICAS);
    return desired.kind === "replicas" && desired.replicas !== replicasOf(d);
  });
}

/**
 * The size writes of the scale path, in order; the first error ends them.
 *
 * 1. At most one ReplicaSet has replicas: it (or the new one, or the newest old one) gets them all. If its size already
 *    fits, nothing is written, not even outdated annotations.
 * 2. The new one is saturated: the others go to 0, youngest first. This ends a rollout that adoption left over.
 * 3. RollingUpdate: proportionally, in forced mode, so that a retry after a failure half-way recognises those it has done
 *    by their refreshed annotations. Recreate: nothing.
 *
 * Source: sync.go scale.
 */
export function scale(d: CachedDeployment, split: ReplicaSetSplit): readonly Step<PatchReplicaSet>[] {
  const all = allReplicaSets(split);
  const active = activeReplicaSets(all);
  if (active.length <= 1) {
    const target = active[0] ?? split.newRS ?? split.oldRSs.at(-1);
    return steps(target === undefined ? [] : [scaleReplicaSet(d, target, replicasOf(d))]);
  }
  if (split.newRS !== undefined && isSaturated(d, split.newRS)) {
    return steps(activeReplicaSets(split.oldRSs.toReversed()).map((rs) => scaleReplicaSet(d, rs, 0)));
  }
  if (!isRollingUpdate(d)) return [];
  return steps(proportionalScaling(d, active).map(({ rs, replicas }) => scaleReplicaSet(d, rs, replicas, "forced")));
}

/** Whether this ReplicaSet has all the pods the Deployment wants, knows so, and all are available. Source: deployment/util IsSaturated. */
export function isSaturated(d: CachedDeployment, rs: CachedReplicaSet): boolean {
  const desired = annotatedReplicas(rs, DESIRED_REPLICAS);
  const wanted = replicasOf(d);
  return desired.kind === "replicas" && desired.replicas === wanted && replicasOf(rs) === wanted && availableOf(rs) === wanted;
}

function steps(candidates: readonly (Step<PatchReplicaSet> | undefined)[]): readonly Step<PatchReplicaSet>[] {
  return candidates.filter((step) => step !== undefined);
}
