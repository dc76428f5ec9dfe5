/** A pod's own control group, before anything of it is made (node-agent §5.1 step 7). */
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { Pause } from "../node-ports/operations.ts";
import type { NodePod } from "../types/pod.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { EndOptions } from "./kill-pod.ts";

/**
 * What runs without its group is ended first: nothing bounds it, and a process is not moved. It starts again inside, if it may.
 *
 * @throws {Pause} while that ends
 *
 * Source: pkg/kubelet/kubelet.go SyncPod.
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
  // An agent that died may have made the group and not bounded it; of what runs, somebody may have changed the limits since.
  if (exists && (isBounded || isRunning)) return;
  if (isRunning) {
    await end(observed, { name: "kill:cgroup" });
    throw new Pause("it ran outside of its control group");
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
