/** Each second the pods that are due; each two what no event says. */
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { housekeep } from "../../../shared/kubelet/turns/housekeeping.ts";
import { wakeDue } from "../../../shared/kubelet/turns/workers.ts";

export function createHousekeeping(ports: NodePorts): () => Promise<void> {
  return async () => {
    if (ports.condition.runtimeError === undefined) await housekeep(ports);
  };
}

export function createSyncTick(ports: NodePorts): () => Promise<void> {
  return async () => await wakeDue(ports);
}
