/**
 * Allocated resources of pods, in the NodeStore and in a checkpoint file (node-agent §6.11).
 *
 * AL1 a grant is on disk before the call that applies it, and a container's resources are on disk before the container is created.
 * AL2 the checkpoint is read before the first pod is admitted.
 */
import { messageOf } from "@deltaloop/kube/objects";
import { ownAt } from "@deltaloop/base";
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { allocatedPod, isResizeRequested, granted, sameResources } from "./allocation.ts";
import { ALLOCATIONS_FILE, readAllocations, writtenAllocations } from "./checkpoint.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

type AllocationPorts = Pick<NodePorts, "store" | "files" | "log">;

/** Loads the checkpoint. If it is unreadable, each pod gets the resources of its spec. */
export async function loadAllocations({ store, files, log }: AllocationPorts): Promise<void> {
  try {
    const text = await files.readCheckpoint(ALLOCATIONS_FILE);
    if (text === undefined) return;
    for (const [uid, allocation] of readAllocations(text)) await store.update("allocations", uid, (row) => row ?? allocation);
  } catch (error) {
    log.error("failed to read the allocation checkpoint; using the resources in the pod specs", {
      file: ALLOCATIONS_FILE,
      error: messageOf(error),
    });
  }
}

/**
 * Updates an allocation and the checkpoint; writes nothing if `change` returns its argument. @throws {LostSyncError} @throws
 * {NodeFilesError}
 */
export async function updateAllocation(
  ports: AllocationPorts,
  uid: string,
  change: (allocation: PodAllocation | undefined) => PodAllocation | undefined,
  update: FencedUpdate = (table, key, changed) => ports.store.update(table, key, changed),
): Promise<PodAllocation | undefined> {
  let isChanged = false;
  const noted = (row: PodAllocation | undefined): PodAllocation | undefined => {
    const after = change(row);
    isChanged = after !== row;
    return after;
  };
  const after = await update("allocations", uid, noted);
  if (isChanged) await ports.files.writeCheckpoint(ALLOCATIONS_FILE, async () => writtenAllocations(await ports.store.rows("allocations")));
  return after;
}

/** Allocates the spec's resources to an admitted pod, unless the pod has an allocation. */
export async function allocate(ports: AllocationPorts, pod: NodePod): Promise<void> {
  const { uid, namespace, name } = pod.metadata;
  await updateAllocation(ports, uid, (row) => row ?? granted(pod)).catch((error: unknown) => {
    // The pod runs even without a checkpoint; only its resizes are lost on an agent restart.
    ports.log.warn("failed to write the allocation checkpoint", { pod: `${namespace}/${name}`, error: messageOf(error) });
  });
}

export type NoteActuated = (actuated: { readonly name: string; readonly resources: ContainerResources }) => Promise<void>;

/** Records the resources that the container has, or will have when it is created next. */
export async function noteActuated(
  ports: AllocationPorts,
  pod: NodePod,
  actuated: Parameters<NoteActuated>[0],
  update: FencedUpdate,
): Promise<void> {
  const { name, resources } = actuated;
  const change = (before: PodAllocation | undefined): PodAllocation => {
    const row = before ?? granted(pod);
    const container = ownAt(row.containers, name) ?? { allocated: resources };
    if (row === before && container.actuated !== undefined && sameResources(container.actuated, resources)) return row;
    return { ...row, containers: { ...row.containers, [name]: { ...container, actuated: resources } } };
  };
  await updateAllocation(ports, pod.metadata.uid, change, update);
}

/**
 * Returns the pod as a sync must see it. While a resize is undecided, the pod keeps its old observedGeneration, because clients wait for
 * the new generation before they read the resize conditions.
 */
export async function allocatedPodOf({ store, pods }: Pick<NodePorts, "store" | "pods">, uid: string): Promise<NodePod | undefined> {
  const pod = pods.get(uid);
  const allocation = await store.read("allocations", uid);
  if (pod === undefined || !isResizeRequested(pod, allocation)) return pod;
  const allocated = allocatedPod(pod, allocation);
  if (allocation?.pending !== undefined) return allocated;
  const { generation: _, ...metadata } = pod.metadata;
  const seen = pod.status?.observedGeneration;
  return { ...allocated, metadata: { ...metadata, ...(seen !== undefined && { generation: seen }) } };
}
