/** Sends one pod's cached status to the API server for each message. The status manager retries failures every 10 s. */
import type { NodeHandler, FlushStatusPorts } from "@deltaloop/node-agent/kubelet";
import { flushStatus } from "@deltaloop/node-agent/kubelet";
import { describeError } from "@deltaloop/kube/client";

export function createPodStatus(ports: FlushStatusPorts): NodeHandler {
  return async ({ uid }) => {
    try {
      await flushStatus(ports, uid);
    } catch (error) {
      ports.log.warn("failed to send pod status; retrying within 10 s", { pod: uid, error: describeError(error) });
    }
  };
}
