/** Gives the HTTPS server access to the agent's data and the runtime. */
import type { Cri } from "../ports/cri.ts";
import type { CachedStatus, NodeStore } from "../ports/node-store.ts";
import { isStaticPod } from "../kubelet/types/labels.ts";
import type { NodeCondition } from "../kubelet/node-ports/node-ports.ts";
import type { PodManager } from "../kubelet/pod/pod-manager.ts";
import type { NodeApiBackend } from "../server/options.ts";

export interface BackendPorts {
  readonly pods: PodManager;
  readonly store: NodeStore;
  readonly cri: Cri;
  readonly condition: NodeCondition;
}

export function createNodeBackend({ pods, store, cri, condition }: BackendPorts): NodeApiBackend {
  return {
    async pod(namespace, name, uid) {
      const pod = pods.desired().findLast(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
      if (pod === undefined) return undefined;
      const mirror = isStaticPod(pod) ? pods.mirrorOf(pod) : undefined;
      if (uid !== undefined && uid !== pod.metadata.uid && uid !== mirror?.metadata.uid) return undefined;
      const cached: CachedStatus | undefined = await store.read("statuses", pod.metadata.uid);
      return { pod, status: cached?.status ?? pod.status };
    },
    pods: () => pods.desired(),
    cri,
    lastLoopMs: () => condition.lastLoopMs,
  };
}
