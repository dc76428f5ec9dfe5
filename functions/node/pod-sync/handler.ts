/**
 * Runs one sync iteration of one pod worker for each message. A failed iteration needs no redelivery, because the remaining work is
 * already scheduled.
 */
import type { NodeHandler, NodePorts } from "@deltaloop/node-agent/kubelet";
import { syncPod, LostSyncError } from "@deltaloop/node-agent/kubelet";

/** Requeue delay while the runtime is unreachable; equals the interval of the runtime health check. */
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
      ports.log.info("sync iteration ended early", { pod: uid, why: error.message });
    }
  };
}
