/** Strategy Recreate: every old pod is gone before the first new one starts (deployment §12). */
import type { CachedDeployment, CachedPod, CachedReplicaSet } from "../api/cached.ts";
import { ownerOfCached, podOwnerId } from "../api/owner-id.ts";
import { activeReplicaSets, type ReplicaSetSplit, sum } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type Step } from "./writes.ts";

/** Everything old to 0. Source: recreate.go scaleDownOldReplicaSetsForRecreate. */
export function scaleDownOldReplicaSetsForRecreate(
  d: CachedDeployment,
  oldRSs: readonly CachedReplicaSet[],
): readonly Step<PatchReplicaSet>[] {
  return activeReplicaSets(oldRSs).flatMap((rs) => scaleReplicaSet(d, rs, 0) ?? []);
}

/**
 * Whether something old still lives: an old ReplicaSet reports replicas, or a pod of a ReplicaSet other than the new one has
 * not ended. Terminating pods count as long as they exist, whatever their phase but `Failed` and `Succeeded`.
 * `pods` are those of all claimed ReplicaSets; orphans never count. Source: recreate.go oldPodsRunning.
 */
export function oldPodsRunning(split: ReplicaSetSplit, pods: readonly CachedPod[]): boolean {
  if (sum(split.oldRSs, (rs) => rs.status.replicas ?? 0) > 0) return true;
  return oldPods(split, pods).some(({ phase }) => phase !== "Failed" && phase !== "Succeeded");
}

/** Pods controlled by one of the old ReplicaSets. Differs from upstream, which compares kind and uid: a reference that matches in part is nobody's. */
export function oldPods({ oldRSs }: ReplicaSetSplit, pods: readonly CachedPod[]): readonly CachedPod[] {
  const owners = new Set(oldRSs.map(({ metadata }) => podOwnerId(metadata.namespace, { kind: "ReplicaSet", ...metadata })));
  return pods.filter((pod) => owners.has(ownerOfCached("pods", pod) ?? ""));
}
