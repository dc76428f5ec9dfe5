/** Strategy Recreate: no new pod starts before all old pods are removed (deployment §12). */
import type { CachedDeployment, CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { ownerOfCached, podOwnerId } from "@deltaloop/kube/objects";
import type { Decision } from "../kit/reason.ts";
import type { DeploymentReason } from "./reasons.ts";
import { activeReplicaSets, type ReplicaSetSplit, replicasOf } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type NotedWrite } from "./writes.ts";

/** Scales all old ReplicaSets to 0. Source: recreate.go scaleDownOldReplicaSetsForRecreate. */
export function scaleDownOldReplicaSetsForRecreate(
  d: CachedDeployment,
  oldRSs: readonly CachedReplicaSet[],
): Decision<readonly NotedWrite<PatchReplicaSet>[], DeploymentReason> {
  const active = activeReplicaSets(oldRSs);
  return {
    decided: active.flatMap((rs) => scaleReplicaSet(d, rs, 0) ?? []),
    why: active.map((rs) => ({ rule: "goes to 0", about: rs.metadata.name, facts: { size: replicasOf(rs) } })),
  };
}

/**
 * Evidence that an old pod still runs: an old ReplicaSet reports replicas, or a pod of a ReplicaSet other than the new one has
 * not ended. Terminating pods count while they exist, except in phase `Failed` or `Succeeded`.
 * `pods` are those of all claimed ReplicaSets; orphans never count. Source: recreate.go oldPodsRunning.
 */
export function oldPodsRunning(split: ReplicaSetSplit, pods: readonly CachedPod[]): DeploymentReason | undefined {
  const rs = split.oldRSs.find(({ status }) => (status.replicas ?? 0) > 0);
  if (rs !== undefined) return { rule: "old pods live", about: rs.metadata.name, facts: { by: "status", shows: rs.status.replicas ?? 0 } };
  const pod = oldPods(split, pods).find(({ phase }) => phase !== "Failed" && phase !== "Succeeded");
  return pod && { rule: "old pods live", about: pod.name, facts: { by: "pod", shows: pod.phase ?? "Unknown" } };
}

/** Pods controlled by an old ReplicaSet. Differs from upstream, which compares kind and uid: here the namespace and name must match too. */
export function oldPods({ oldRSs }: ReplicaSetSplit, pods: readonly CachedPod[]): readonly CachedPod[] {
  const owners = new Set(oldRSs.map(({ metadata }) => podOwnerId(metadata.namespace, { kind: "ReplicaSet", ...metadata })));
  return pods.filter((pod) => owners.has(ownerOfCached("pods", pod) ?? ""));
}
