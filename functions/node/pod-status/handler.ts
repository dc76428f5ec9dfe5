/** One message = one pod's cached status brought to the API server. What fails is sent again by the tick of ten seconds. */
import type { NodeHandler, FlushStatusPorts } from "@deltaloop/node-agent/kubelet";
import { flushStatus } from "@deltaloop/node-agent/kubelet";
import { describeError } from "@deltaloop/kube/client";

export function createPodStatus(ports: FlushStatusPorts): NodeHandler {
  return async ({ uid }) => {
    try {
      await flushStatus(ports, uid);
    } catch (error) {
      ports.log.warn("status was not sent, it is tried again within 10 s", { pod: uid, error: describeError(error) });
    }
  };
}
