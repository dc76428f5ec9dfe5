/**
 * Q1's dead-letter queue: what apply-deltas could not apply however often it came. The caches it may be missing from become
 * suspect, so their gates shut until the watcher has listed them anew (informer §11.6, §12.3).
 *
 * The message itself is acknowledged: its name and the reason stay in the quarantine and in the log, its content comes with the list.
 * Left in the queue it would come again, shut the gates again, and hold back the dead messages behind it in its group.
 *
 * An unsigned message says nothing about any cache: the handler logs it and marks no cache as suspect.
 */
import { readDeadMessage, reportForgery, withRenewedKeys } from "@deltaloop/controllers/cache";
import { settleRecords, deployed } from "@deltaloop/controllers/lambda";
import type { RecordOutcome, SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";

const DEAD_LETTERS = "Q1's dead-letter queue";

type DeadDeltasPorts = Pick<FunctionWiring, "clock" | "log" | "metrics" | "cluster" | "clusters" | "source" | "renewKeys">;

export function createDeadDeltas(ports: DeadDeltasPorts): SqsHandler {
  return (event, context) =>
    settleRecords(event, ({ messageId, body }) => bury(ports, messageId, body), {
      ...ports,
      ends: { clock: ports.clock, remainingMs: context.getRemainingTimeInMillis() },
    });
}

/** @throws when the Store is unreachable: the message comes back. */
async function bury(ports: DeadDeltasPorts, messageId: string, body: string): Promise<RecordOutcome> {
  const dead = await withRenewedKeys(() => readDeadMessage(body, (cid) => ports.cluster(cid)?.signer), ports.renewKeys);
  if (dead.kind === "forged") {
    await reportForgery(ports, { id: messageId, body, where: DEAD_LETTERS }, dead);
    return { kind: "ack" };
  }
  const { cluster: cid, resources, what, why, ended } = dead;
  ports.log.error("a delta message was given up, its caches are listed anew", {
    messageId,
    what,
    why,
    cluster: cid,
    suspect: resources.join(","),
    bytes: Buffer.byteLength(body),
  });
  const store = ports.cluster(cid)?.store;
  // First what keeps the cluster safe: a repeat marks once more, which costs a list and nothing else.
  for (const resource of resources) await store?.markSuspect(resource, `message ${messageId} was given up: ${why}`);
  await store?.quarantine({ what: messageId, where: `${DEAD_LETTERS}: ${what}`, why, atMs: ports.clock.now() }, ended);
  return { kind: "ack" };
}

export const handler: SqsHandler = deployed("dead-deltas", createDeadDeltas);
