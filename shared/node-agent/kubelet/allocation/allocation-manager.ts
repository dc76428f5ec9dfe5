/**
 * What is granted to each pod: in the NodeStore, where turns are fenced, and in a file that outlives the agent (node-agent §6.11).
 *
 * AL1 what was granted, or set in the runtime, is on disk before anything rests on it: a grant before the call that sets it, what a
 *    container is made with before it is made.
 * AL2 the file is read before the first pod of any source is admitted.
 */
import { messageOf } from "@deltaloop/kube/objects";
import { ownAt } from "@deltaloop/base";
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { allocatedPod, asksForOther, granted, sameResources } from "./allocation.ts";
import { ALLOCATIONS_FILE, readAllocations, writtenAllocations } from "./checkpoint.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

type AllocationPorts = Pick<NodePorts, "store" | "files" | "log">;

/** A file that cannot be read is as none: each pod has what its spec asks for. */
export async function loadAllocations({ store, files, log }: AllocationPorts): Promise<void> {
  try {
    const text = await files.readCheckpoint(ALLOCATIONS_FILE);
    if (text === undefined) return;
    for (const [uid, allocation] of readAllocations(text)) await store.update("allocations", uid, (row) => row ?? allocation);
  } catch (error) {
    log.error("what was granted to pods cannot be read: each has what its spec asks for", {
      file: ALLOCATIONS_FILE,
      error: messageOf(error),
    });
  }
}

/**
 * Answering its argument, `change` changes nothing and nothing is written.
 *
 * @throws {LostSyncError} @throws {NodeFilesError}
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

/** An admitted pod has what it asks for; one that was admitted by an earlier agent keeps what it had. */
export async function allocate(ports: AllocationPorts, pod: NodePod): Promise<void> {
  const { uid, namespace, name } = pod.metadata;
  await updateAllocation(ports, uid, (row) => row ?? granted(pod)).catch((error: unknown) => {
    // The pod runs all the same: only a resize of it is forgotten by a restart.
    ports.log.warn("what a pod was granted was not written down", { pod: `${namespace}/${name}`, error: messageOf(error) });
  });
}

export type NoteActuated = (actuated: { readonly name: string; readonly resources: ContainerResources }) => Promise<void>;

/** The container has, or is about to be made with, `resources`. */
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
 * The pod that a turn works on. While nobody has decided on what its spec asks for now, its status must not say that this was seen:
 * who waits for a resize waits for the generation, and then looks for conditions.
 */
export async function allocatedPodOf({ store, pods }: Pick<NodePorts, "store" | "pods">, uid: string): Promise<NodePod | undefined> {
  const pod = pods.get(uid);
  const allocation = await store.read("allocations", uid);
  if (pod === undefined || !asksForOther(pod, allocation)) return pod;
  const allocated = allocatedPod(pod, allocation);
  if (allocation?.pending !== undefined) return allocated;
  const { generation: _, ...metadata } = pod.metadata;
  const seen = pod.status?.observedGeneration;
  return { ...allocated, metadata: { ...metadata, ...(seen !== undefined && { generation: seen }) } };
}
