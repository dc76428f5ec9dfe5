/** Each second: what happened to containers; each five: whether the runtime is well. */
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { checkRuntime, relistPods } from "../../../shared/kubelet/turns/relist.ts";

export function createPleg(ports: NodePorts): () => Promise<void> {
  return async () => await relistPods(ports);
}

export function createRuntimeCheck(ports: NodePorts): () => Promise<void> {
  return async () => await checkRuntime(ports);
}
