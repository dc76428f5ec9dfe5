/** Each minute: dead containers, dead sandboxes and old logs. Each ten seconds: logs that have grown too large. */
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { collectGarbage } from "../../../shared/kubelet/turns/collect-garbage.ts";
import { rotateLogs } from "../../../shared/kubelet/turns/rotate-logs.ts";

export function createContainerGc(ports: NodePorts): () => Promise<void> {
  return async () => {
    if (ports.condition.runtimeError === undefined) await collectGarbage(ports);
  };
}

export function createLogRotation(ports: NodePorts): () => Promise<void> {
  return async () => {
    if (ports.condition.runtimeError === undefined) await rotateLogs(ports);
  };
}
