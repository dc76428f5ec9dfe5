/** One message = one turn of one pod's worker. The message goes also when the turn failed: what is left to do has a due time. */
import type { NodeHandler, NodePorts } from "@deltaloop/node-agent/kubelet";
import { syncPod, LostSyncError } from "@deltaloop/node-agent/kubelet";

/** While the runtime is away nothing can be done; its check runs as often. */
const RUNTIME_AWAY_MS = 5_000;

export function createPodSync(ports: NodePorts): NodeHandler {
  return async ({ uid, reason }) => {
    ports.condition.lastLoopMs = ports.clock.now();
    if (ports.condition.runtimeError !== undefined) {
      await ports.store.schedule("pods", uid, ports.clock.now() + RUNTIME_AWAY_MS);
      return;
    }
    ports.log.debug("sync", { pod: uid, why: reason });
    try {
      await syncPod(ports, uid);
    } catch (error) {
      if (!(error instanceof LostSyncError)) throw error;
      ports.log.info("turn given up", { pod: uid, why: error.message });
    }
  };
}
