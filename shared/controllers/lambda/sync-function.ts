import type { SQSRecord } from "aws-lambda";

import type { ControllerName } from "@deltaloop/kube/objects";
import { ReadYourWrites } from "../kit/read-your-writes.ts";
import type { KeySync } from "../kit/sync/key-sync.ts";
import { runKey } from "../kit/sync/worker.ts";
import type { Doorbell } from "@deltaloop/store/ports";
import type { CacheRegistry } from "../cache/cache-registry.ts";
import { cacheOf, gatewayContractOf } from "../registry/cache-of.ts";
import type { Registry } from "../registry/cache-of.ts";
import { settleRecords } from "./batch.ts";
import type { RecordOutcome } from "./batch.ts";
import { decodeDoorbell } from "./doorbell-message.ts";
import { runWithFollowUps } from "./follow-up-sync.ts";
import type { SyncRequest } from "./follow-up-sync.ts";
import type { SqsHandler } from "./sqs-handler.ts";
import type { ClusterWiring, FunctionWiring } from "./wiring.ts";

/** The controllers whose keys a function can sync. */
type KeySyncs = { readonly [C in ControllerName]?: KeySync };

/** One invocation of a controller's function. */
interface Invocation {
  readonly wiring: FunctionWiring;
  readonly registry: Registry;
  readonly cache: CacheRegistry;
  readonly controller: ControllerName;
  readonly syncs: KeySyncs;
  readonly startedMs: number;
  readonly remainingMs: number;
}

/** A doorbell for this function: the cluster and the key to sync. */
interface Rung {
  readonly cluster: ClusterWiring;
  readonly bell: Doorbell;
}

const ACK: RecordOutcome = { kind: "ack" };
/** Time after the beginning of an invocation within which follow-up syncs may start. */
const FOLLOW_UPS_MS = 1_000;

/**
 * The function of one controller. Each record is a doorbell. Each doorbell starts one sync of its key, and follow-up syncs of the keys of
 * `syncs` that this sync enqueues. An unreadable doorbell is logged and acknowledged: its key stays dirty and the sweeper rings it again.
 * Only an unreachable Store leaves a record in the queue (informer §12.3).
 *
 * @throws {TypeError} when `syncs` differ from `registry`, from which the function's permissions are generated
 */
export function createSyncFunction(wiring: FunctionWiring, registry: Registry, controller: ControllerName, syncs: KeySyncs): SqsHandler {
  assertRegistered(registry, controller, syncs);
  const cache = cacheOf(registry);
  const { clock } = wiring;
  return async (event, context) => {
    const remainingMs = context.getRemainingTimeInMillis();
    const invocation: Invocation = { wiring, registry, cache, controller, syncs, startedMs: clock.now(), remainingMs };
    return await settleRecords(event, (record) => syncRecord(invocation, record), { ...wiring, ends: { clock, remainingMs } });
  };
}

async function syncRecord(invocation: Invocation, record: SQSRecord): Promise<RecordOutcome> {
  const rung = rungBy(invocation, record);
  if (rung === undefined) return ACK;
  const { clock, log } = invocation.wiring;
  const { doorbells } = rung.cluster;
  const readYourWrites = new ReadYourWrites();
  await runWithFollowUps(
    {
      doorbells,
      clock,
      log,
      canSync: (controller) => invocation.syncs[controller] !== undefined,
      sync: (request) => syncKey(invocation, rung.cluster, readYourWrites, request),
      untilMs: invocation.startedMs + FOLLOW_UPS_MS,
    },
    rung.bell,
    Number(record.attributes.SentTimestamp),
  );
  return ACK;
}

/** Returns undefined for a doorbell that is unreadable or not of this function; it is logged. */
function rungBy({ wiring, cache, controller }: Invocation, { messageId, body }: SQSRecord): Rung | undefined {
  const { log } = wiring;
  const decoded = decodeDoorbell(body, cache.catalog);
  if (decoded.kind === "undecodable") {
    log.error("doorbell cannot be read; acknowledging it", { messageId, why: decoded.why });
    return undefined;
  }
  const { c, ctl, e, k, u, o } = decoded.message;
  const cluster = wiring.cluster(c);
  if (cluster === undefined || ctl !== controller) {
    log.error("doorbell is for another cluster or controller; acknowledging it", { messageId, cluster: c, controller: ctl, key: k });
    return undefined;
  }
  const bell = { controller, key: k, epoch: e, delayMs: 0, ...(u !== undefined && { uid: u }), ...(o !== undefined && { owner: o }) };
  return { cluster, bell };
}

async function syncKey(
  { wiring, registry, cache, controller, syncs, startedMs, remainingMs }: Invocation,
  { store, reader, gateway, proof }: ClusterWiring,
  readYourWrites: ReadYourWrites,
  { bell, doorbells, askedMs, onTaken }: SyncRequest,
): Promise<void> {
  const keySync = syncs[bell.controller];
  if (keySync === undefined) throw new TypeError(`the function of ${controller} cannot sync keys of ${bell.controller}`);
  const { clock, random, log, digester, trace, metrics } = wiring;
  const ports = {
    store,
    doorbells,
    reader,
    gateway: gateway(bell.controller, gatewayContractOf(registry, bell.controller)),
    digester,
    registry: cache,
    clock,
    random,
    log,
    readYourWrites,
    ...(proof && { proof }),
    ...(metrics && { metrics }),
    ...(trace && { trace }),
  };
  const { maxRetries } = keySync;
  await runKey(ports, bell.controller, bell, keySync, {
    ...(maxRetries !== undefined && { maxRetries }),
    invocationEndsMs: startedMs + remainingMs,
    rungMs: askedMs,
    ...(onTaken && { onTaken }),
  });
}

function assertRegistered({ controllers }: Registry, controller: ControllerName, syncs: KeySyncs): void {
  const { followUps = [] } = controllers.find(({ name }) => name === controller) ?? {};
  const [registered, given] = [[controller, ...followUps], Object.keys(syncs)].map((names) => names.toSorted().join(", "));
  if (registered !== given)
    throw new TypeError(`the function of ${controller} receives keys of ${given}; the registry lists ${registered}`);
}
