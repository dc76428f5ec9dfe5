/** Each minute: dead containers, dead sandboxes and old logs. */
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { collectGarbage } from "../../../shared/kubelet/turns/collect-garbage.ts";

export function createContainerGc(ports: NodePorts): () => Promise<void> {
  return async () => {
    if (ports.condition.runtimeError === undefined) await collectGarbage(ports);
  };
}
