/** Pods that are equal in deletion order, so that upstream may delete any of them. */
import { controllerRef } from "@deltaloop/kube/objects";
import type { Condition } from "@deltaloop/kube/objects";
import { canonical, same } from "./canonical-write.ts";
import type { LiveObject } from "./states.ts";

interface PodStatus {
  readonly phase?: string;
  readonly conditions?: readonly Condition[];
  readonly containerStatuses?: readonly { readonly restartCount: number }[];
}

/** Whether two canonical deletes concern pods that are equal in deletion order. */
export function areTied(
  ours: unknown,
  want: unknown,
  { state, nowMs }: { readonly state: readonly LiveObject[]; readonly nowMs: number },
): boolean {
  const pods = state.filter(({ kind }) => kind === "Pod");
  const standingOf = (write: unknown): string | undefined => {
    const found = pods.find(({ metadata }) => same(write, { delete: `pods ${metadata.name}` }));
    return found === undefined ? undefined : canonical(standing(found, state, nowMs));
  };
  const wanted = standingOf(want);
  return wanted !== undefined && standingOf(ours) === wanted;
}

/**
 * Returns the fields that determine a pod's deletion order, except its uid. Source: pkg/controller/controller_utils.go ActivePodsWithRanks,
 * logarithmicRankDiff.
 */
function standing(pod: LiveObject, state: readonly LiveObject[], nowMs: number): unknown {
  const { metadata, status } = pod;
  const { phase, conditions = [], containerStatuses = [] } = (status ?? {}) as PodStatus;
  const ready = conditions.find(({ type }) => type === "Ready");
  const bucket = (time = ""): number => Math.floor(Math.log2((nowMs - Date.parse(time)) * 1e6));
  return {
    phase,
    ready: ready?.status,
    readyFor: bucket(ready?.lastTransitionTime),
    age: bucket(metadata.creationTimestamp),
    node: relatedOnNode(pod, state),
    cost: metadata.annotations?.["controller.kubernetes.io/pod-deletion-cost"],
    restarts: containerStatuses.map(({ restartCount }) => restartCount),
  };
}

/**
 * The active pods on its node of all ReplicaSets that have its owner's controller; empty if the owner has no controller.
 * Source: pkg/controller/replicaset/replica_set.go getIndirectlyRelatedPods.
 */
function relatedOnNode({ metadata, spec }: LiveObject, state: readonly LiveObject[]): number {
  const owner = state.find((each) => each.metadata.uid === controllerRef(metadata)?.uid);
  const parent = owner && controllerRef(owner.metadata)?.uid;
  if (parent === undefined) return 0;
  const related = new Set(state.filter((each) => controllerRef(each.metadata)?.uid === parent).map((each) => each.metadata.uid));
  return state.filter(
    (each) =>
      each.kind === "Pod" &&
      isActive(each) &&
      related.has(controllerRef(each.metadata)?.uid ?? "") &&
      each.spec?.["nodeName"] === spec?.["nodeName"],
  ).length;
}

function isActive({ metadata, status }: LiveObject): boolean {
  return metadata.deletionTimestamp === undefined && !["Succeeded", "Failed"].includes((status as PodStatus | undefined)?.phase ?? "");
}
