/**
 * Consumes the dead-letter queue of the delta queue: the messages that apply-deltas could not apply. Marks as suspect every cache
 * that may lack the change, so that its gate closes until the watcher has listed the resource again (informer §11.6, §12.3).
 *
 * Acknowledges each message: its id and the reason are in the quarantine and the log, and the new list restores its content. If a message
 * stayed in the queue, each redelivery would close the gates again and block later dead letters of its message group.
 *
 * An unsigned message may not be from the watcher, so the handler logs it and marks no cache as suspect.
 */
import { readDeadMessage, reportForgery, withRenewedKeys } from "@deltaloop/controllers/cache";
import { deployedQueue } from "@deltaloop/controllers/clusters";
import { settleRecords } from "@deltaloop/controllers/lambda";
import type { RecordOutcome, SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";

const DEAD_LETTERS = "delta dead-letter queue";

type DeadDeltasPorts = Pick<FunctionWiring, "clock" | "log" | "metrics" | "cluster" | "clusters" | "source" | "renewKeys">;

export function createDeadDeltas(ports: DeadDeltasPorts): SqsHandler {
  return (event, context) =>
    settleRecords(event, ({ messageId, body }) => processDeadLetter(ports, messageId, body), {
      ...ports,
      ends: { clock: ports.clock, remainingMs: context.getRemainingTimeInMillis() },
    });
}

/** @throws if the Store is unreachable; SQS then redelivers the message */
async function processDeadLetter(ports: DeadDeltasPorts, messageId: string, body: string): Promise<RecordOutcome> {
  const dead = await withRenewedKeys(() => readDeadMessage(body, (cid) => ports.cluster(cid)?.signer), ports.renewKeys);
  if (dead.kind === "forged") {
    await reportForgery(ports, { id: messageId, body, where: DEAD_LETTERS }, dead);
    return { kind: "ack" };
  }
  const { cluster: cid, resources, what, why, ended } = dead;
  ports.log.error("delta message could not be applied and was quarantined; the watcher lists its resources again", {
    messageId,
    what,
    why,
    cluster: cid,
    suspect: resources.join(","),
    bytes: Buffer.byteLength(body),
  });
  const store = ports.cluster(cid)?.store;
  // Marks the caches first, because the mark stops decisions on an incomplete cache. If the quarantine fails, the redelivery marks them
  // again, which costs only another list.
  for (const resource of resources) await store?.markSuspect(resource, `message ${messageId} was quarantined: ${why}`);
  await store?.quarantine({ what: messageId, where: `${DEAD_LETTERS}: ${what}`, why, atMs: ports.clock.now() }, ended);
  return { kind: "ack" };
}

export const handler: SqsHandler = deployedQueue("dead-deltas", "deltas", createDeadDeltas);
