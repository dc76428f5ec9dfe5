/**
 * The whole system in one process: watchers with leader election, queues, and the deployed handlers behind event source mappings.
 * The demo, both replays and the tests differ only in the dependencies that they pass in.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { createMemoryDeltaQueue, createMemoryDoorbells, createMemoryStore } from "@deltaloop/store/memory";
import type { DeltaQueueFaults, MemoryDeltaQueue, DoorbellFaults, MemoryDoorbells, MemoryData } from "@deltaloop/store/memory";
import type { ApplierPorts, Leadership, LeaseOptions, UpkeepTimes, WatcherOptions, WatcherPorts } from "@deltaloop/controllers/cache";
import { cacheIdentity, acquireLease, runWatcher, SharedCacheError } from "@deltaloop/controllers/cache";
import type { WriteGateway } from "@deltaloop/controllers/kit";
import { serving } from "@deltaloop/controllers/lambda";
import type { FunctionWiring } from "@deltaloop/controllers/lambda";
import type { Clock, Random } from "@deltaloop/base";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import type { Store } from "@deltaloop/store/ports";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "@deltaloop/base";
import { cacheOf, CORE_CACHE, REGISTRY, syncFunction } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";
import type { Catalog, Controller, ControllerName } from "@deltaloop/kube/objects";
import { startFunctionHost } from "./function-host.ts";
import type { FunctionHandlers, FunctionHost, FunctionHostOptions } from "./function-host.ts";

/** Creates the handlers. The caller passes this function, since shared/ may not import functions/ (cli/functions/functions.ts does). */
export type MakeHandlers<N extends string = Controller> = (
  wiring: (functionName: string) => FunctionWiring,
  onChanges?: ApplierPorts["onChanges"],
) => FunctionHandlers<N>;

type WatcherKube = KubeReader & KubeWriter & KubeWatch;

/** The dependencies that all components share. */
export interface SystemPorts<N extends string = Controller> extends Pick<
  WatcherPorts,
  "clock" | "random" | "digester" | "signer" | "log" | "store" | "queue" | "doorbells" | "release"
> {
  readonly sources: FunctionHostOptions<N>["sources"];
  /** The client of one component: `watcher`, or a function by its deployed name. */
  readonly kube: (component: string) => WatcherKube;
  readonly functions: MakeHandlers<N>;
  /** The functions' Store, for tests that count their calls or make them fail. Default `store`. */
  readonly functionStore?: Store;
  readonly functionMetrics?: (functionName: string) => Metrics;
}

export interface SystemOptions
  extends
    Pick<WatcherOptions, "cluster" | "clusterUid" | "batchingWindowMs" | "knowsOwn">,
    Pick<FunctionHostOptions, "onInvocation" | "concurrency" | "syncTimeoutSeconds"> {
  /** The controllers, whose names are those of the sources and handlers. Default: the built-in controllers. */
  readonly registry?: Registry;
  /** Default `act`. */
  readonly mode?: WriteGateway["mode"];
  /** The Lease that watchers compete for; if absent, a watcher leads at once and must be the only one. */
  readonly lease?: Pick<LeaseOptions, "namespace" | "name">;
  /** The first fence if there is no Lease. It must exceed the fences of earlier systems with the same Store. Default 1. */
  readonly fence?: number;
  /** Watchers that start with the system. Default 1. */
  readonly watchers?: number;
  readonly holeRelistMs?: number;
  /** Settings of resync and audit; if absent, neither runs. */
  readonly upkeep?: UpkeepTimes;
  /** Runs the simulated nodes until the signal aborts. */
  readonly nodes?: (ends: AbortSignal) => Promise<unknown>;
  readonly onLead?: (watcher: RunningWatcher) => void;
  readonly onChanges?: ApplierPorts["onChanges"];
  readonly trace?: FunctionWiring["trace"];
}

export interface RunningWatcher {
  readonly identity: string;
  /** Stops this watcher as SIGTERM does: it releases the Lease. */
  stop(): void;
  readonly ended: Promise<void>;
}

export interface System<N extends string = Controller> {
  readonly host: FunctionHost;
  readonly handlers: FunctionHandlers<N>;
  /** Adds a watcher. `own` overrides dependencies, so that a test can inject faults into one watcher. */
  startWatcher(identity: string, own?: Partial<Omit<WatcherPorts, "kube">> & { readonly kube?: WatcherKube }): RunningWatcher;
  /** Stops all components. Under a virtual clock, advance the clock before you await it. */
  stop(): Promise<void>;
}

/** Delay before a restart, as with a container. */
const RESTART_MS = 3_000;

export function assembleSystem<N extends string = Controller>(ports: SystemPorts<N>, options: SystemOptions): System<N> {
  const { registry = REGISTRY } = options;
  const cache = registry === REGISTRY ? CORE_CACHE : cacheOf(registry);
  const { clock, random, log, digester, functionStore = ports.store } = ports;
  const { cluster, clusterUid, mode = "act", batchingWindowMs, knowsOwn, upkeep, trace } = options;
  const identity = cacheIdentity(digester);
  const ends = new AbortController();

  const wiring = (name: string): FunctionWiring => {
    const metrics = ports.functionMetrics?.(name);
    return {
      clock,
      random,
      log,
      digester,
      ...serving(
        cluster,
        ports.kube(name),
        mode,
        { ...ports, store: functionStore },
        options.lease && { clock, log, metrics, lease: options.lease },
      ),
      ...ownSource(ports.sources, registry, name),
      ...(metrics && { metrics }),
      ...(trace && { trace }),
    };
  };
  const handlers = ports.functions(wiring, options.onChanges);
  const { onInvocation, concurrency, syncTimeoutSeconds } = options;
  const host = startFunctionHost<N>({
    ...{ sources: ports.sources, handlers, clock, log },
    ...(onInvocation && { onInvocation }),
    ...(concurrency !== undefined && { concurrency }),
    ...(syncTimeoutSeconds !== undefined && { syncTimeoutSeconds }),
  });
  const nodes = options.nodes?.(ends.signal);
  nodes?.catch(() => undefined); // stop() waits for it

  /** Restarts a watcher that exits because it has found another cluster's epoch. */
  async function supervise(signal: AbortSignal, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      try {
        await run(signal);
      } catch (error) {
        if (!(error instanceof SharedCacheError)) throw error;
        log.error("the watcher exits and is restarted", { why: error.message });
        await clock.after(RESTART_MS, signal).catch(() => undefined);
        continue;
      }
      return;
    }
  }

  const startWatcher: System["startWatcher"] = (name, own) => {
    const kube = own?.kube ?? ports.kube("watcher");
    const outside = { ...ports, ...own };
    const stopped = new AbortController();
    const lead: WatcherPorts["lead"] = async (signal) => {
      const { lease } = options;
      const leasePorts = { reader: kube, writer: kube, clock: outside.clock, random: outside.random, log: outside.log };
      const leadership = lease ? await acquireLease(leasePorts, { ...lease, identity: name }, signal) : soleLeader(options.fence);
      if (leadership) options.onLead?.(watcher);
      return leadership;
    };
    const watcher: RunningWatcher = {
      identity: name,
      stop: () => stopped.abort(new Error(`${name} is stopped`)),
      ended: supervise(AbortSignal.any([ends.signal, stopped.signal]), (signal) =>
        runWatcher(
          { ...outside, kube, lead, registry: cache },
          {
            cluster,
            clusterUid,
            identity,
            holeRelistMs: options.holeRelistMs ?? HOLE_RELIST_MS,
            ...(batchingWindowMs !== undefined && { batchingWindowMs }),
            ...(knowsOwn !== undefined && { knowsOwn }),
            ...(upkeep && { upkeep: { ...upkeep, reader: kube, registry: cache } }),
          },
          signal,
        ),
      ),
    };
    return watcher;
  };
  const watchers = Array.from({ length: options.watchers ?? 1 }, (_, index) => startWatcher(`watcher-${index + 1}`));

  return {
    host,
    handlers,
    startWatcher,
    async stop() {
      ends.abort(new Error("the system is stopping"));
      await Promise.all([host.stop(), ...watchers.map(({ ended }) => ended), nodes?.catch(() => undefined)]);
    },
  };
}

/** The queue whose failed records a function makes visible again after seconds, as deployed functions do. */
function ownSource<N extends string>(
  { deltas, doorbells }: SystemPorts<N>["sources"],
  { controllers }: Registry,
  name: string,
): Pick<FunctionWiring, "source"> {
  const controller = controllers.find((each) => syncFunction(each.name) === name);
  if (controller) return { source: doorbells[controller.name as N] }; // the registry's controllers have these sources
  return name === "apply-deltas" ? { source: deltas } : {};
}

/** Leadership of a single watcher: it leads while it runs, with fences from `first`. */
export function soleLeader(first = 1): Leadership {
  let fence = first;
  return {
    fence: () => String(fence),
    raise: () => Promise.resolve(String(++fence)),
    lost: new AbortController().signal,
    holds: () => true,
    release: () => Promise.resolve(),
  };
}

export interface MemoryBackendOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly deployment: string;
  /** Cluster id. */
  readonly cluster: string;
  /** The controllers. Default: the built-in controllers. */
  readonly catalog?: Catalog;
  /** The Store's data, for tests that read or damage it. */
  readonly data?: MemoryData;
  readonly deltaFaults?: () => DeltaQueueFaults;
  readonly doorbellFaults?: () => DoorbellFaults;
}

export interface MemoryBackend {
  readonly store: Store;
  readonly queue: MemoryDeltaQueue;
  readonly doorbells: MemoryDoorbells;
  readonly sources: FunctionHostOptions<ControllerName>["sources"];
}

/** Creates Store and queues in memory. */
export function memoryBackend(options: MemoryBackendOptions): MemoryBackend {
  const { clock, random, digester, deployment, cluster, catalog, data, deltaFaults, doorbellFaults } = options;
  const own = catalog && { catalog };
  const store = createMemoryStore(
    { deployment, cluster, identity: cacheIdentity(digester), holeLimitMs: HOLE_LIMIT_MS, clock, ...own },
    data,
  );
  const queue = createMemoryDeltaQueue({ clock, random, ...(deltaFaults && { faults: deltaFaults }) });
  const doorbells = createMemoryDoorbells({ clock, random, cluster, ...own, ...(doorbellFaults && { faults: doorbellFaults }) });
  return { store, queue, doorbells, sources: { deltas: queue, doorbells: doorbells.sources } };
}
