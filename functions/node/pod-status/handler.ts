/** One message = one pod's cached status brought to the API server. What fails is sent again by the tick of ten seconds. */
import { settleRecords } from "../../../shared/lambda/batch.ts";
import type { SqsHandler } from "../../../shared/lambda/sqs-handler.ts";
import { parseNodeMessage } from "../../../shared/kubelet/node-message.ts";
import type { NodePorts } from "../../../shared/kubelet/node-ports.ts";
import { flushStatus, statusesToFlush } from "../../../shared/kubelet/turns/statuses.ts";
import { describeError } from "../../../shared/ports/describe-error.ts";

export function createPodStatus(ports: NodePorts): SqsHandler {
  return async (event) =>
    await settleRecords(
      event,
      async ({ body }) => {
        const { uid } = parseNodeMessage(body);
        try {
          await flushStatus(ports, uid);
        } catch (error) {
          ports.log.warn("status was not sent, it is tried again within 10 s", { pod: uid, error: describeError(error) });
        }
        return { kind: "ack" };
      },
      { log: ports.log },
    );
}

export function createPodStatusTick(ports: NodePorts): () => Promise<void> {
  return async () => {
    for (const uid of await statusesToFlush(ports)) ports.send("statuses", uid, "not sent, or altered by others");
  };
}
