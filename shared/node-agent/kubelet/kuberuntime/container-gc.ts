/**
 * Selects dead containers, sandboxes and log directories to remove (node-agent §16.1–16.3).
 *
 * GC1 an exited container is never removed before its exit code is in the cached status (§18.8).
 * GC2 until all sources are ready, no container, sandbox or log directory is removed for the reason that its pod is unknown.
 */
import type { Container, PodSandbox } from "../../ports/cri-types.ts";
import { LABELS } from "../types/labels.ts";
import { restartCountOf, type ObservedContainer } from "../types/observed-pod.ts";

/** Number of dead instances kept per container, for their logs. Source: kuberuntime_gc.go MaxPerPodContainer. */
const INSTANCES_KEPT = 1;

export interface PodQueries {
  /** Whether the pod has ended and was removed, or was never known (content removable, §4.8). */
  readonly contentRemovable: (uid: string) => boolean;
  readonly allSourcesReady: boolean;
}

/** Returns whether the cached status has this container's exit code. */
export type StatusStored = (containerId: string) => boolean;

/**
 * Returns the ids of the containers to remove, oldest first. The caller must stop a container in state CONTAINER_UNKNOWN first, because
 * it may still be running. Source: pkg/kubelet/kuberuntime/kuberuntime_gc.go evictContainers. Differs from upstream: GC1. As in
 * upstream's defaults, MinAge is 0 and MaxContainers is unlimited.
 */
export function containersToRemove(
  containers: readonly Container[],
  { contentRemovable, allSourcesReady, statusStored }: PodQueries & { readonly statusStored: StatusStored },
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
 * Returns the ids of the sandboxes to remove, oldest first: those that are not ready and have no containers. Keeps the newest sandbox of
 * a pod that still exists. Source: kuberuntime_gc.go evictSandboxes. Differs from upstream: GC2 also applies to sandboxes.
 */
export function sandboxesToRemove(
  sandboxes: readonly PodSandbox[],
  containers: readonly Container[],
  { contentRemovable, allSourcesReady }: PodQueries,
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

/** An instance of a container. */
export type Instance = Pick<ObservedContainer, "id" | "name" | "state" | "restartCount" | "createdAtMs">;

/** Returns the instance that corresponds to a listed container. */
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
 * Returns the ids of dead instances to remove, oldest first. With `diedId`, they are all dead instances of that container except the
 * newest. With `all`, for a pod that was evicted, or deleted and terminated, they are all dead instances. Source:
 * pkg/kubelet/pod_container_deletor.go getContainersToDeleteInPod. Differs from upstream: GC1.
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
 * Returns the pod log directories that can be removed, `<namespace>_<pod>_<uid>`. Source: kuberuntime_gc.go evictPodLogsDirectories.
 * Differs from upstream: keeps directories with other names.
 */
export function logDirectoriesToRemove(
  directories: readonly string[],
  { contentRemovable, allSourcesReady }: PodQueries,
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
