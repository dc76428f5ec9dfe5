import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { Pause } from "../node-ports/operations.ts";
import type { NodePod } from "../types/pod.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { EndOptions } from "./kill-pod.ts";

/**
 * Creates the pod's cgroup (node-agent §5.1 step 7). Stops containers that run outside the cgroup, because the runtime cannot move them
 * into it. @throws {Pause} after stopping them. Source: pkg/kubelet/kubelet.go SyncPod.
 */
export async function ensurePodCgroup(
  ports: Pick<NodePorts, "containerManager" | "podEvent">,
  pod: NodePod,
  observed: ObservedPod,
  end: (observed: ObservedPod, options: EndOptions) => Promise<void>,
): Promise<void> {
  const { containerManager } = ports;
  const { exists, isBounded } = await containerManager.stateOf(pod);
  const isRunning = observed.containers.some(({ state }) => state === "CONTAINER_RUNNING");
  // A previous agent may have created the cgroup without limits, and limits of running containers may have changed since.
  if (exists && (isBounded || isRunning)) return;
  if (isRunning) {
    await end(observed, { name: "kill:cgroup" });
    throw new Pause("the pod ran outside of its cgroup");
  }
  await containerManager.updateQos();
  try {
    await containerManager.create(pod);
  } catch (error) {
    const message = `unable to ensure pod container exists: ${messageOf(error)}`;
    ports.podEvent(pod, { type: "Warning", reason: "FailedCreatePodContainer", message });
    throw error;
  }
}
