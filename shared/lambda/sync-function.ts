import type { SQSRecord } from "aws-lambda";

import type { Controller } from "../api/resources.ts";
import type { SyncHandler } from "../controller/session.ts";
import { runKey } from "../controller/worker.ts";
import { settleRecords } from "./batch.ts";
import type { RecordOutcome } from "./batch.ts";
import { decodeDoorbell } from "./doorbell-message.ts";
import { AFFECTED_KEYS } from "../registry/registry.ts";
import type { SqsHandler } from "./sqs-handler.ts";
import type { FunctionWiring } from "./wiring.ts";

const ACK: RecordOutcome = { kind: "ack" };

/**
 * The function of one controller: each record is a doorbell, each doorbell one look at its key. A doorbell that cannot be
 * read is named in the log and acknowledged: its key stays dirty and is rung again. Only a Store out of reach leaves a record
 * in the queue (informer §12.3).
 */
export function createSyncFunction(
  wiring: FunctionWiring,
  controller: Controller,
  sync: SyncHandler,
  options: { readonly maxRetries?: number } = {},
): SqsHandler {
  const { clock, random, log, digester, trace, metrics } = wiring;
  return async (event, context) => {
    const remainingMs = context.getRemainingTimeInMillis();
    const invocationEndsMs = clock.now() + remainingMs;
    const handle = async ({ messageId, body, attributes }: SQSRecord): Promise<RecordOutcome> => {
      const decoded = decodeDoorbell(body);
      if (decoded.kind === "undecodable") {
        log.error("doorbell cannot be read, acknowledged", { messageId, why: decoded.why });
        return ACK;
      }
      const { c, ctl, e, k, u, o } = decoded.message;
      const cluster = wiring.cluster(c);
      if (cluster === undefined || ctl !== controller) {
        log.error("doorbell is for someone else, acknowledged", { messageId, cluster: c, controller: ctl, key: k });
        return ACK;
      }
      const { store, doorbells, reader } = cluster;
      const ports = {
        store,
        doorbells,
        reader,
        gateway: cluster.gateway(controller),
        digester,
        registry: AFFECTED_KEYS,
        clock,
        random,
        log,
        ...(metrics && { metrics }),
        ...(trace && { trace }),
      };
      const bell = {
        controller,
        key: k,
        epoch: e,
        delayMs: 0,
        ...(u !== undefined && { uid: u }),
        ...(o !== undefined && { owner: o }),
      };
      await runKey(ports, controller, bell, sync, { ...options, invocationEndsMs, rungMs: Number(attributes.SentTimestamp) });
      return ACK;
    };
    return await settleRecords(event, handle, { ...wiring, ends: { clock, remainingMs } });
  };
}
