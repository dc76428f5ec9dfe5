/** The probes that are due, in parallel; a change of a result wakes the pod. */
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { runProbe } from "../../../shared/kubelet/turns/probes.ts";

export function createPodProbe(ports: NodePorts): (key: string, dueMs: number) => Promise<void> {
  return async (key, dueMs) => await runProbe(ports, key, dueMs);
}
