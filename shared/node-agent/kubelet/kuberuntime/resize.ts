/** Applies granted resizes to running pods (node-agent §6.11). */
import { messageOf } from "@deltaloop/kube/objects";
import type { PodAllocation } from "../../ports/node-store.ts";
import { allocatedPod } from "../allocation/allocation.ts";
import { withInProgress, withoutInProgress, resizeMessage } from "../allocation/resize-conditions.ts";
import { isResizeInProgress, type ContainerUpdate } from "./resize-actions.ts";
import { containerResources } from "./resources.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { initContainersOf, type NodePod } from "../types/pod.ts";
import { updateAllocation, type NoteActuated } from "../allocation/allocation-manager.ts";

type NoteResizePorts = Pick<NodePorts, "store" | "files" | "clock" | "log" | "podEvent">;
type ResizePorts = Pick<NodePorts, "cri" | "known" | "store" | "files" | "log" | "containerManager" | "resources">;

/** A granted resize failed. This is normal while the usage exceeds the new limit; the next sync retries. */
export class ResizeError extends Error {
  override readonly name = "ResizeError";
}

interface Resizing {
  readonly pod: NodePod;
  readonly update: FencedUpdate;
  readonly noteActuated: NoteActuated;
  readonly ensureNotTerminating: () => Promise<void>;
}

/**
 * Resizes running containers, or adjusts the pod's cgroup for containers that are about to start. @returns the failure; other containers
 * still start
 */
export async function resizePod(
  ports: ResizePorts,
  resizing: Resizing,
  { updates, isStarting }: { readonly updates: readonly ContainerUpdate[]; readonly isStarting: boolean },
): Promise<ResizeError | undefined> {
  try {
    if (updates.length > 0) await resizeContainers(ports, resizing, updates);
    else if (isStarting) await refitPod(ports, resizing.pod);
    return undefined;
  } catch (error) {
    if (error instanceof ResizeError) return error;
    throw error;
  }
}

/**
 * Applies `updates` in order until the first failure, and records each success. Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go
 * doPodResizeAction. @throws {ResizeError}
 */
async function resizeContainers(
  ports: ResizePorts,
  { pod, noteActuated, ensureNotTerminating }: Resizing,
  updates: readonly ContainerUpdate[],
): Promise<void> {
  await checkMemory(ports, updates);
  await ports.containerManager.widen(pod).catch(asResizeError);
  for (const { id, name, resources } of updates) {
    const container = [...initContainersOf(pod), ...pod.spec.containers].find((one) => one.name === name);
    if (container === undefined) throw new Error(`unknown container ${name} in an update`);
    await ensureNotTerminating();
    await ports.cri
      .updateContainerResources(id, containerResources(pod, { ...container, resources }, ports.resources))
      .catch(asResizeError)
      .finally(() => ports.known.forget(id));
    await noteActuated({ name, resources });
  }
  await ports.containerManager.settle(pod).catch(asResizeError);
}

/** Adjusts the pod's cgroup before a container restarts. @throws {ResizeError} */
async function refitPod({ containerManager }: Pick<NodePorts, "containerManager">, pod: NodePod): Promise<void> {
  await containerManager.refit(pod).catch(asResizeError);
}

function asResizeError(error: unknown): never {
  throw new ResizeError(messageOf(error), { cause: error });
}

/**
 * Rejects limits below the current usage, because the kernel would OOM-kill the container. Source: kuberuntime_manager.go
 * validateMemoryResizeAction.
 */
async function checkMemory({ cri }: Pick<NodePorts, "cri">, updates: readonly ContainerUpdate[]): Promise<void> {
  const problems: string[] = [];
  for (const { id, name, lowersMemoryLimitTo: limit } of updates) {
    if (limit === undefined) continue;
    const used = await cri.containerStats(id).then(
      ({ memory }) => memory?.usageBytes,
      () => undefined,
    );
    if (used === undefined) problems.push(`missing container "${name}" memory usage`);
    else if (used >= limit) problems.push(`attempting to set container "${name}" memory limit (${limit}) below current usage (${used})`);
  }
  if (problems.length === 0) return;
  const text = problems.length === 1 ? String(problems[0]) : `[${problems.join(", ")}]`;
  throw new ResizeError(`cannot decrease memory limits: ${text}`);
}

/** Updates the resize conditions before each status update: in progress, completed or failed. Source: pkg/kubelet/kubelet.go SyncPod. */
export async function noteResize(
  ports: NoteResizePorts,
  { pod, update }: Pick<Resizing, "pod" | "update">,
  observed: ObservedPod,
  error?: ResizeError,
): Promise<void> {
  const { uid } = pod.metadata;
  let before: PodAllocation | undefined;
  let isInProgress = false;
  // Uses the current allocation, so that the end of an old resize does not complete a newer grant.
  const change = (row: PodAllocation | undefined): PodAllocation | undefined => {
    before = row;
    if (row === undefined) return undefined;
    isInProgress = error !== undefined || isResizeInProgress(row, observed);
    if (isInProgress) return withInProgress(row, pod, { nowMs: ports.clock.now(), ...(error && { error: error.message }) });
    return row.inProgress === undefined ? row : withoutInProgress(row);
  };
  const after = await updateAllocation(ports, uid, change, update);
  if (after === before) return;
  const generation = before?.inProgress?.observedGeneration ?? pod.metadata.generation ?? 0;
  if (error !== undefined)
    ports.podEvent(pod, {
      type: "Warning",
      reason: "ResizeError",
      message: resizeMessage("Pod resize error", pod, generation, error.message),
    });
  else if (!isInProgress)
    ports.podEvent(pod, {
      type: "Normal",
      reason: "ResizeCompleted",
      message: resizeMessage("Pod resize completed", allocatedPod(pod, after), generation),
    });
}
