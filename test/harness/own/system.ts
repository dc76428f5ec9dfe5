/**
 * User controllers on an API server, in one process: watcher, queues, Store in memory, the deployed sync functions. The developer's code
 * runs in this process as well, so that a test can count and fail every call of a sync.
 */
import { createApplyDeltas } from "../../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../../functions/dead-deltas/handler.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import type { Log } from "../../../shared/base/log.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import { shutGate } from "../../../shared/controllers/cache/gates.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { UPKEEP_TIMES } from "../../../shared/controllers/cache/watcher/upkeep.ts";
import { createSyncFunction } from "../../../shared/controllers/lambda/sync-function.ts";
import { ownControllers, registryOf } from "../../../shared/controllers/own/registry.ts";
import { ownKeySync } from "../../../shared/controllers/own/sync.ts";
import type { OwnFunctions, OwnReport } from "../../../shared/controllers/own/sync.ts";
import { syncFunction } from "../../../shared/controllers/registry/names.ts";
import { cacheOf } from "../../../shared/controllers/registry/cache-of.ts";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import type { Catalog } from "../../../shared/kube/objects/catalog.ts";
import { tableOf } from "../../../shared/kube/objects/resources.ts";
import type { ControllerName, OwnController } from "../../../shared/kube/objects/resources.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { assembleSystem, memoryBackend } from "../../../shared/local/assemble-system.ts";
import { createContext } from "../../../shared/sdk/context.ts";
import type { Controller } from "../../../shared/sdk/index.ts";
import type { MemoryData } from "../../../shared/store/memory/store/data.ts";
import type { DeltaQueue } from "../../../shared/store/ports/delta-queue.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import type { Signer } from "../../../shared/store/signer.ts";
import type { StoreOptions } from "../../../shared/store/store-options.ts";
import { eventually } from "../../support/eventually.ts";
import { silentLog } from "../../support/silent-log.ts";
import { payloadOf, testSigner } from "../../support/signer.ts";
import type { PlannedFaults } from "./call-faults.ts";

const CLUSTER = "0123456789ab";
/** Higher than the number of concurrent trials. */
const CONCURRENCY = 200;
const READY_MS_MAX = 60_000;
/** A changed object is enqueued a moment later, so the queue must be empty this many times in a row. */
const SETTLED_LOOKS = 5;
/** A key that is due later than this waits for its delay or a back-off, and counts as settled. */
const SOON_MS = 1_500;

export interface OwnSystemOptions {
  readonly controllers: readonly Controller[];
  /** The API client of one component. */
  readonly kube: (component: string) => Kube;
  /** Default: real time. */
  readonly clock?: Clock;
  readonly faults?: PlannedFaults;
  /** The Store's data, which a test can lose. */
  readonly data?: MemoryData;
  /** Default: in memory. */
  readonly makeStore?: (options: StoreOptions & { readonly catalog: Catalog; readonly signer: Signer }) => Store;
  /** Receives the content of each message of the watcher. */
  readonly onMessage?: (text: string) => void;
  /** Wraps the Store of the functions. */
  readonly functionStore?: (store: Store) => Store;
  readonly functions?: OwnFunctions;
  readonly mode?: "act" | "shadow";
  /**
   * The watcher's Lease, by which functions verify that this cluster's watcher owns the cache. Default: none; this is then the only
   * watcher.
   */
  readonly lease?: { readonly namespace: string; readonly name: string };
  /** Concurrent invocations of each function. Default 200. */
  readonly concurrency?: number;
  readonly log?: Log;
  readonly report?: (report: OwnReport) => void;
}

export interface OwnSystem {
  readonly store: Store;
  /** Enqueues all primaries of a controller. */
  resync(controller: string): Promise<void>;
  /** Resolves when no key of a controller is running or due. */
  settled(controller: string): Promise<void>;
  stop(): Promise<void>;
}

/** Resolves when the caches are complete. */
export async function startOwnSystem(options: OwnSystemOptions): Promise<OwnSystem> {
  const { controllers, kube, clock = createSystemClock(), faults, data, mode = "act", log = silentLog, report = () => undefined } = options;
  const random = createSystemRandom();
  const digester = createDigester("the digest key of the tests");
  const entries = ownControllers(controllers.map(({ definition }) => definition));
  const registry = registryOf(entries);
  const cache = cacheOf(registry);
  const memory = memoryBackend({
    ...{ clock, random, digester, deployment: "own", cluster: CLUSTER, catalog: cache.catalog },
    ...(data && { data }),
  });
  const signer = testSigner(CLUSTER);
  const identity = cacheIdentity(digester);
  const { catalog } = cache;
  const store =
    options.makeStore?.({ deployment: "own", cluster: CLUSTER, identity, holeLimitMs: HOLE_LIMIT_MS, catalog, signer }) ?? memory.store;
  const functionStore = faults?.store(store) ?? options.functionStore?.(store) ?? store;
  const functions = options.functions ?? inThisProcess(controllers);
  const handlers = new Map(entries.map((entry) => [entry.name as ControllerName, ownKeySync(entry, { functions, report })]));
  const system = assembleSystem<ControllerName>(
    {
      ...{ clock, random, digester, signer, log },
      ...{ ...memory, store, functionStore, queue: heard(memory.queue, options.onMessage) },
      kube,
      functions: (wiring, onChanges) => ({
        applyDeltas: createApplyDeltas({ ...wiring("apply-deltas"), registry: cache, ...(onChanges && { onChanges }) }),
        deadDeltas: createDeadDeltas(wiring("dead-deltas")),
        sync: tableOf(cache.catalog.controllers, (name) => {
          const keySync = handlers.get(name);
          return createSyncFunction(
            wiring(syncFunction(name)),
            registry,
            name,
            keySync ? { [name]: faults?.keySync(name, keySync) ?? keySync } : {},
          );
        }),
      }),
    },
    {
      cluster: CLUSTER,
      clusterUid: "cluster-uid",
      mode,
      registry,
      upkeep: UPKEEP_TIMES,
      concurrency: options.concurrency ?? CONCURRENCY,
      ...(options.lease && { lease: options.lease }),
    },
  );
  const stop = async (): Promise<void> => {
    faults?.stop();
    await system.stop();
    await store.close();
  };
  try {
    await eventually("the caches are complete", async () => (await shutGate(store, cache.catalog.controllers)) === undefined, READY_MS_MAX);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    store,
    stop,
    async resync(controller) {
      const { current } = await store.lineage();
      if (current === undefined) throw new Error("no epoch");
      await memory.doorbells.ring(await store.resync(current.record.epoch, nameIn(controller), 0));
    },
    async settled(controller) {
      let times = 0;
      await eventually(
        `the keys of ${controller} are settled`,
        async () => {
          const soonMs = clock.now() + SOON_MS;
          const busy = (await store.queued(nameIn(controller))).filter(
            ({ readyAtMs = Infinity, leaseUntilMs }) => leaseUntilMs !== undefined || readyAtMs < soonMs,
          );
          times = busy.length === 0 ? times + 1 : 0;
          return times >= SETTLED_LOOKS;
        },
        READY_MS_MAX,
      );
    },
  };
}

function heard(queue: DeltaQueue, onMessage: OwnSystemOptions["onMessage"]): DeltaQueue {
  if (onMessage === undefined) return queue;
  return {
    send(entries) {
      for (const { body } of entries) onMessage(payloadOf(body));
      return queue.send(entries);
    },
  };
}

/** A controller name from the system's catalog. */
function nameIn(controller: string): OwnController {
  return controller as OwnController; // the registry contains the controller
}

/** Runs `sync` in this process. */
function inThisProcess(controllers: readonly Controller[]): OwnFunctions {
  const byName = new Map(controllers.map((controller) => [controller.name, controller]));
  return {
    sync: async ({ controller, snapshot, nowMs, live }) => {
      const found = byName.get(controller);
      if (found === undefined) throw new Error(`no controller ${controller}`);
      const log = { info: () => undefined };
      return await found.sync(
        createContext(found.definition, snapshot, { now: new Date(nowMs), signal: new AbortController().signal, log, live }),
      );
    },
  };
}

/** A clock that runs `times` as fast, so that leases and back-offs are short; it starts `aheadMs` after the real time. */
export function fasterClock(times: number, aheadMs = 0): Clock {
  const real = createSystemClock();
  const startMs = real.now();
  return {
    now: () => Math.trunc(startMs + aheadMs + (real.now() - startMs) * times),
    async after(ms, signal) {
      await real.after(ms / times + 1 / times, signal);
    },
  };
}
