/**
 * What of the runtime nobody needs any more (node-agent §16.1–16.3): dead containers, dead sandboxes, log directories.
 *
 * GC1 an exited container whose exit code is not in the pod's cached status is never removed (§18.8).
 * GC2 until all sources are ready nothing is removed because its pod is unknown.
 */
import type { Container, PodSandbox } from "../../ports/cri-types.ts";
import { LABELS } from "../types/labels.ts";
import { restartCountOf } from "../types/observed-pod.ts";
import type { ObservedContainer } from "../types/observed-pod.ts";

/** Dead instances that stay, per pod and container name: the last one's logs can be read. Source: kuberuntime_gc.go MaxPerPodContainer. */
const INSTANCES_KEPT = 1;

export interface PodQuestions {
  /** The pod has ended and is gone, or was never known (§4.8 content removable). */
  readonly contentRemovable: (uid: string) => boolean;
  readonly allSourcesReady: boolean;
}

/** The exit code of this container is in its pod's cached status. */
export type StatusStored = (containerId: string) => boolean;

/**
 * Ids of containers to remove, oldest first. One that is CONTAINER_UNKNOWN may run: it is to be stopped before.
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_gc.go evictContainers. Differs from upstream: GC1. MinAge is 0, MaxContainers
 * none, as upstream's defaults are.
 */
export function containersToRemove(
  containers: readonly Container[],
  { contentRemovable, allSourcesReady, statusStored }: PodQuestions & { readonly statusStored: StatusStored },
): readonly string[] {
  const candidates = containers.filter(({ state }) => state !== "CONTAINER_RUNNING");
  const units = Map.groupBy(candidates, ({ labels, metadata }) => `${labels[LABELS.podUid] ?? ""}/${metadata.name}`);
  return [...units.values()].flatMap((unit) => {
    const removesAll = allSourcesReady && contentRemovable(unit[0]?.labels[LABELS.podUid] ?? "");
    const surplus = newestFirst(unit, ({ metadata }) => metadata.attempt).slice(removesAll ? 0 : INSTANCES_KEPT);
    return surplus
      .filter(({ id, state }) => state !== "CONTAINER_EXITED" || statusStored(id))
      .map(({ id }) => id)
      .toReversed();
  });
}

/**
 * Ids of sandboxes to stop and remove, oldest first: those that are not ready and hold no container, of a pod that is still
 * there all but the newest.
 *
 * Source: kuberuntime_gc.go evictSandboxes. Differs from upstream: GC2 for sandboxes, too.
 */
export function sandboxesToRemove(
  sandboxes: readonly PodSandbox[],
  containers: readonly Container[],
  { contentRemovable, allSourcesReady }: PodQuestions,
): readonly string[] {
  const inUse = new Set(containers.map(({ podSandboxId }) => podSandboxId));
  const pods = Map.groupBy(sandboxes, ({ metadata }) => metadata.uid);
  return [...pods].flatMap(([uid, ofPod]) => {
    const removesAll = allSourcesReady && contentRemovable(uid);
    return newestFirst(ofPod, ({ metadata }) => metadata.attempt)
      .slice(removesAll ? 0 : 1)
      .filter(({ id, state }) => state === "SANDBOX_NOTREADY" && !inUse.has(id))
      .map(({ id }) => id)
      .toReversed();
  });
}

/** One of a pod's container. */
export type Instance = Pick<ObservedContainer, "id" | "name" | "state" | "restartCount" | "createdAtMs">;

/** As a list says it. */
export function instanceOf({ id, metadata, state, createdAtMs, labels, annotations }: Container): Instance {
  return {
    id,
    name: labels[LABELS.containerName] ?? metadata.name,
    state,
    restartCount: restartCountOf(annotations, metadata),
    createdAtMs,
  };
}

/**
 * Ids of dead instances that a pod's own containers leave behind, oldest first: after the one with `diedId` died, those of its
 * name beyond the newest; with `all` (the pod was evicted, or is deleted and has terminated) every dead one of the pod.
 *
 * Source: pkg/kubelet/pod_container_deletor.go getContainersToDeleteInPod. Differs from upstream: GC1.
 */
export function deadInstancesOf(
  containers: readonly Instance[],
  which: "all" | { readonly diedId: string },
  statusStored: StatusStored,
): readonly string[] {
  const name = which === "all" ? undefined : containers.find(({ id }) => id === which.diedId)?.name;
  if (which !== "all" && name === undefined) return [];
  const dead = containers.filter((container) => container.state === "CONTAINER_EXITED" && (name === undefined || container.name === name));
  return newestFirst(dead, ({ restartCount }) => restartCount)
    .slice(which === "all" ? 0 : INSTANCES_KEPT)
    .filter(({ id }) => statusStored(id))
    .map(({ id }) => id)
    .toReversed();
}

/**
 * Of the directories in the pod log root, `<namespace>_<pod>_<uid>`, those whose pod's content is removable.
 *
 * Source: kuberuntime_gc.go evictPodLogsDirectories. Differs from upstream: a name of another form is not ours and stays.
 */
export function logDirectoriesToRemove(
  directories: readonly string[],
  { contentRemovable, allSourcesReady }: PodQuestions,
): readonly string[] {
  if (!allSourcesReady) return [];
  return directories.filter((directory) => {
    const [namespace, name, uid, ...more] = directory.split("_");
    return namespace !== "" && name !== "" && uid !== undefined && uid !== "" && more.length === 0 && contentRemovable(uid);
  });
}

function newestFirst<T extends { readonly createdAtMs: number }>(items: readonly T[], attemptOf: (item: T) => number): readonly T[] {
  return items.toSorted((a, b) => attemptOf(b) - attemptOf(a) || b.createdAtMs - a.createdAtMs);
}
