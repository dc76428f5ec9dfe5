import type { SQSRecord } from "aws-lambda";

import type { Controller } from "../api/resources.ts";
import { ReadYourWrites } from "../controller/read-your-writes.ts";
import type { KeySync } from "../controller/session.ts";
import { runKey } from "../controller/worker.ts";
import type { WorkerOptions } from "../controller/worker.ts";
import type { Doorbell, Doorbells } from "../ports/doorbells.ts";
import { AFFECTED_KEYS, REGISTRY } from "../registry/registry.ts";
import { settleRecords } from "./batch.ts";
import type { RecordOutcome } from "./batch.ts";
import { decodeDoorbell } from "./doorbell-message.ts";
import { runWithFollowUps } from "./follow-up-sync.ts";
import type { SqsHandler } from "./sqs-handler.ts";
import type { ClusterWiring, FunctionWiring } from "./wiring.ts";

/** The controllers whose keys a function can sync. */
type KeySyncs = { readonly [C in Controller]?: KeySync };

const ACK: RecordOutcome = { kind: "ack" };
/** So long after it began an invocation goes on to keys that its runs have made due. */
const FOLLOW_UPS_MS = 1_000;

/**
 * The function of one controller: each record is a doorbell, each doorbell one look at its key, and at those keys of `syncs` that this
 * look makes due. A doorbell that cannot be read is named in the log and acknowledged: its key stays dirty and is rung again. Only a
 * Store out of reach leaves a record in the queue (informer §12.3).
 *
 * @throws {TypeError} when `syncs` are others than the registry says: the function's rights are made of that
 */
export function createSyncFunction(wiring: FunctionWiring, controller: Controller, syncs: KeySyncs): SqsHandler {
  assertRegistered(controller, syncs);
  const { clock, random, log, digester, trace, metrics } = wiring;
  return async (event, context) => {
    const remainingMs = context.getRemainingTimeInMillis();
    const startedMs = clock.now();
    const look = async (
      { store, reader, gateway }: ClusterWiring,
      readYourWrites: ReadYourWrites,
      bell: Doorbell,
      doorbells: Doorbells,
      { rungMs, onTaken }: Required<Pick<WorkerOptions, "rungMs" | "onTaken">>,
    ): Promise<void> => {
      const keys = syncs[bell.controller];
      if (keys === undefined) throw new TypeError(`the function of ${controller} cannot sync keys of ${bell.controller}`);
      const ports = {
        store,
        doorbells,
        reader,
        gateway: gateway(bell.controller),
        digester,
        registry: AFFECTED_KEYS,
        clock,
        random,
        log,
        readYourWrites,
        ...(metrics && { metrics }),
        ...(trace && { trace }),
      };
      const { sync, ...limits } = keys;
      await runKey(ports, bell.controller, bell, sync, { ...limits, invocationEndsMs: startedMs + remainingMs, rungMs, onTaken });
    };
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
      const own = {
        controller,
        key: k,
        epoch: e,
        delayMs: 0,
        ...(u !== undefined && { uid: u }),
        ...(o !== undefined && { owner: o }),
      };
      const readYourWrites = new ReadYourWrites();
      await runWithFollowUps(
        {
          doorbells: cluster.doorbells,
          clock,
          log,
          canSync: (other) => syncs[other] !== undefined,
          look: (bell, doorbells, askedMs, onTaken) => look(cluster, readYourWrites, bell, doorbells, { rungMs: askedMs, onTaken }),
          untilMs: startedMs + FOLLOW_UPS_MS,
        },
        own,
        Number(attributes.SentTimestamp),
      );
      return ACK;
    };
    return await settleRecords(event, handle, { ...wiring, ends: { clock, remainingMs } });
  };
}

function assertRegistered(controller: Controller, syncs: KeySyncs): void {
  const { followUps = [] } = REGISTRY.controllers.find(({ name }) => name === controller) ?? {};
  const [registered, given] = [[controller, ...followUps], Object.keys(syncs)].map((names) => names.toSorted().join(", "));
  if (registered !== given) throw new TypeError(`the function of ${controller} is given keys of ${given}, the registry says ${registered}`);
}
