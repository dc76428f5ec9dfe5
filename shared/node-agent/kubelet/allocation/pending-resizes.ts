/**
 * Grants pending resizes (node-agent §6.11), after each change on the node and every 30 s. PodSources serializes these decisions with
 * admissions. Source: pkg/kubelet/allocation/allocation_manager.go retryPendingResizes. Differs from upstream: upstream keeps a queue and
 * retries every three minutes.
 */
import { messageOf } from "@deltaloop/kube/objects";
import type { PodAllocation } from "../../ports/node-store.ts";
import { inResizeOrder, resizeRefusal } from "./admit-resize.ts";
import { isResizeRequested } from "./allocation.ts";
import { isPendingChanged, resizeMessage, withGranted, withoutPending, withPending, type Refusal } from "./resize-conditions.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { isTerminalPhase, type NodePod } from "../types/pod.ts";
import { activePodsOf, admissionInput, type ActivePodsPorts } from "./admission-input.ts";
import { updateAllocation } from "./allocation-manager.ts";
import { enqueuePod } from "../pod-workers/update-worker.ts";

type DecidePorts = ActivePodsPorts & Pick<NodePorts, "files" | "clock" | "log" | "podEvent" | "options" | "resources">;
export type RetryResizesPorts = DecidePorts & Pick<NodePorts, "operations" | "send">;

export async function retryPendingResizes(ports: RetryResizesPorts): Promise<void> {
  if (!ports.condition.sourcesReady) return;
  const { store, pods, log } = ports;
  const allocations = await store.rows("allocations");
  const resizing = pods.desired().filter((pod) => {
    const allocation = allocations.get(pod.metadata.uid);
    return allocation?.pending !== undefined || isResizeRequested(pod, allocation);
  });
  if (resizing.length === 0) return;
  const records = await store.rows("workers");
  const living = resizing.filter(
    ({ metadata, status }) => records.get(metadata.uid)?.terminatingAtMs === undefined && !isTerminalPhase(status?.phase),
  );
  for (const pod of inResizeOrder(living, allocations)) {
    const { uid, namespace, name } = pod.metadata;
    try {
      if (await decide(ports, pod)) await enqueuePod(ports, uid, "resize decided");
    } catch (error) {
      log.warn("failed to decide on a resize; will retry", { pod: `${namespace}/${name}`, error: messageOf(error) });
    }
  }
}

/** Decides on the resize of one pod. @returns whether the pod's status changes */
async function decide(ports: DecidePorts, pod: NodePod): Promise<boolean> {
  const { uid, generation = 0 } = pod.metadata;
  const before = await ports.store.read("allocations", uid);
  if (before === undefined) return false;
  const isReverted = !isResizeRequested(pod, before);
  const refusal = isReverted ? undefined : await refusalOf(ports, pod);
  const nowMs = ports.clock.now();
  const change = (row: PodAllocation | undefined): PodAllocation | undefined => {
    if (row === undefined) return undefined;
    if (refusal !== undefined) return withPending(row, pod, refusal, nowMs);
    return isReverted ? withoutPending(row) : withGranted(row, pod, nowMs);
  };
  const after = await updateAllocation(ports, uid, change);
  if (after === undefined || after === before) return false;
  if (refusal !== undefined && isPendingChanged(before, after)) emitPending(ports, pod, refusal);
  if (refusal === undefined && !isReverted)
    ports.podEvent(pod, { type: "Normal", reason: "ResizeStarted", message: resizeMessage("Pod resize started", pod, generation) });
  return true;
}

async function refusalOf(ports: ActivePodsPorts & Pick<NodePorts, "options" | "resources">, pod: NodePod): Promise<Refusal | undefined> {
  const input = admissionInput(ports, pod, await activePodsOf(ports));
  if (input === undefined) return { cause: "InvalidNodeInfo", reason: "Deferred", message: "Kubelet cannot get node info." };
  return resizeRefusal(input);
}

function emitPending(ports: Pick<NodePorts, "podEvent">, pod: NodePod, { cause, reason, message }: Refusal): void {
  const text = resizeMessage(`Pod resize ${cause}`, pod, pod.metadata.generation ?? 0, message);
  ports.podEvent(pod, { type: "Warning", reason: `Resize${reason}`, message: text });
}
