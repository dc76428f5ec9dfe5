/** The watcher of one cluster: alone in its process, or one of several (watch-clusters.ts). */
import { hostname } from "node:os";

import { HOLE_RELIST_MS, UsageError } from "@deltaloop/base";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import {
  acquireLease,
  createClusterRelease,
  createForeignWriteGuard,
  runWatcher,
  sweepWhenDue,
  UPKEEP_TIMES,
  LANE_POLICY,
} from "@deltaloop/controllers/cache";
import type { ForeignWriteGuard, Heartbeats, Leadership } from "@deltaloop/controllers/cache";
import type { Configuration, LiveConfiguration } from "@deltaloop/controllers/configuration";
import { connectLive } from "@deltaloop/controllers/lambda";
import type { SharedConnections } from "@deltaloop/controllers/lambda";
import { CANARY, CORE_CACHE, NAMESPACE, watcherLease } from "@deltaloop/controllers/registry";
import { describeError, readClusterIdentity } from "@deltaloop/kube/client";
import { createClient, kubeOver } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { ACTING_RELEASES, RELEASED } from "@deltaloop/kube/releases";
import type { DeltaQueue, Store } from "@deltaloop/store/ports";
import { inspectRedis, UnfitRedisError } from "@deltaloop/store/redis";
import { createSqsDeltaQueue } from "@deltaloop/store/sqs";
import { aheadMs, readApiServer } from "../cluster/api-server.ts";
import { endOnForeignWrite } from "../cluster/end-on-foreign-write.ts";
import { unsupported } from "../cluster/kubernetes-versions.ts";
import { starting } from "../cluster/startup.ts";
import type { StartupFlags } from "../cluster/startup.ts";
import type { Role } from "./nominate.ts";

export interface WatchedCluster extends StartupFlags {
  readonly live: LiveConfiguration;
  readonly access: KubeHttpConfig;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Connections to use instead of connections of this cluster alone; the caller has inspected its Redis. */
  readonly shared?: SharedConnections;
  /** The queue and the heartbeats that the clusters of this process share. */
  readonly together?: Together;
  readonly leaseNamespace?: string | undefined;
  readonly batchingWindowMs?: number | undefined;
  /** Whether the cluster id is that of the API server, which is then verified, or from a directory. */
  readonly idOf: "apiServer" | "directory";
  /**
   * Called when another controller writes the status of objects that deltaloop syncs. If absent, everything stops until `deltaloop resume`.
   */
  readonly onForeignWrite?: (found: Error) => void;
  /** Called when this watcher's part in the cluster changes. */
  readonly onRole?: (role: Role) => void;
}

export interface Together {
  readonly queue: DeltaQueue;
  readonly heartbeats: Heartbeats;
}

export interface OpenedWatcher {
  readonly store: Store;
  readonly clock: Clock;
  isLeading(): boolean;
  /** Runs until `signal` aborts, then releases the Lease. @throws {SharedCacheError}; {UsageError} if the address has another cluster now */
  run(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const IDENTITY_RETRY_MS = 1_000;

/**
 * Connects to the cluster and checks that it can be served.
 *
 * @throws {UsageError} for a configuration that does not fit; {StartupError} if the API server does not answer in time
 */
export async function openWatcher(watched: WatchedCluster): Promise<OpenedWatcher> {
  const { live, log, metrics, leaseNamespace, batchingWindowMs, idOf, onForeignWrite, onRole } = watched;
  const configuration = live.current;
  const { deployment, cluster, queues, mode } = configuration;
  const access = { ...watched.access, ...(metrics && { metrics }) };
  const client = createClient(access);
  const kube = kubeOver(client);
  const first = starting(client, access.server, watched, log);
  const identity = await readClusterIdentity(kubeOver(first));
  if (idOf === "apiServer" && identity.cid !== cluster)
    throw new UsageError(`DELTALOOP_CLUSTER is ${cluster}, but this API server's cluster is ${identity.cid}`);
  if (!watched.shared) await requireFitRedis(configuration, log);
  const server = await readApiServer(first);
  const why = unsupported(server.gitVersion);
  if (why !== undefined && mode === "act" && configuration.kubernetes !== "any")
    throw new UsageError(`${why}. To act anyway, set DELTALOOP_KUBERNETES=any`);
  if (why !== undefined) log.warn("the API server's version is not supported", { why });
  const outside = connectLive(live, log, { shared: watched.shared });
  const { clock, random } = outside;
  const serverAheadMs = aheadMs(server, clock.now());
  const release = createClusterRelease(
    { read: async () => (await readApiServer(client)).gitVersion, clock, log },
    {
      first: server.gitVersion,
      known: mode === "act" ? ACTING_RELEASES : RELEASED,
      isAnyKnown: mode === "act" && configuration.kubernetes === "any",
    },
  );
  const holder = watcherId(random);
  const namespace = leaseNamespace ?? configuration.leaseNamespace ?? NAMESPACE;
  const lease = { namespace, name: watcherLease(deployment), identity: holder };
  const guards = mode === "act" && configuration.guard !== "off";
  const guard: ForeignWriteGuard | undefined = onForeignWrite
    ? endOnForeignWrite({ kube, clock, log }, onForeignWrite)
    : guards
      ? createForeignWriteGuard({ store: outside.store, kube, clock, log }, { namespace, name: CANARY })
      : undefined;
  let leadership: Leadership | undefined;
  let hasLed = false;
  const replaced = new AbortController();
  const onHeld = (): void => onRole?.("waiting");
  const onRecreated = (): void => void endIfReplaced();

  /**
   * Ends this watcher if its address has another cluster now. A cluster that was deleted and created again has no Lease of ours, and a
   * renewal creates it. Its versions may continue those of the former cluster, so that no watch detects it.
   */
  async function endIfReplaced(): Promise<void> {
    while (!replaced.signal.aborted && leadership?.lost.aborted !== true) {
      const found = await readClusterIdentity(kube).catch(() => undefined);
      if (found?.uid === identity.uid) return;
      if (found) replaced.abort(new UsageError(`${access.server} is another cluster now: its namespace kube-system has another UID`));
      else await clock.after(IDENTITY_RETRY_MS).catch(() => undefined);
    }
  }

  const lead = async (signal: AbortSignal): Promise<Leadership | undefined> => {
    leadership =
      mode === "act"
        ? await acquireLease(
            { reader: kube, writer: kube, clock, random, log, onHeld, onRecreated, ...(metrics && { metrics }) },
            lease,
            signal,
          )
        : await Promise.resolve(unleased(clock));
    if (leadership && hasLed) onRecreated();
    hasLed = true;
    if (leadership) onRole?.("leading");
    leadership?.lost.addEventListener("abort", () => onRole?.("seeking"), { once: true });
    guard?.begin(clock.now() + serverAheadMs);
    return leadership;
  };
  return {
    store: outside.store,
    clock,
    isLeading: () => leadership?.holds() === true,
    close: () => outside.close(),
    async run(ends) {
      const signal = AbortSignal.any([ends, replaced.signal]);
      const guarding = guard?.run(signal);
      const ports = {
        ...outside,
        ...(metrics && { metrics }),
        kube,
        queue: createSqsDeltaQueue(outside.sqs, { queueUrl: queues.deltas }),
        ...watched.together,
        log,
        lead,
        release,
        ...(guard && { guard }),
      };
      await runWatcher(
        idOf === "directory" ? sweepWhenDue(ports) : ports,
        {
          cluster,
          clusterUid: identity.uid,
          identity: outside.identity,
          holeRelistMs: HOLE_RELIST_MS,
          lanes: LANE_POLICY,
          ...(batchingWindowMs !== undefined && { batchingWindowMs }),
          upkeep: { ...UPKEEP_TIMES, reader: kube, registry: CORE_CACHE },
        },
        signal,
      );
      await guarding;
      if (!ends.aborted) replaced.signal.throwIfAborted();
    },
  };
}

/** Identifies a start of a watcher. */
export function watcherId(random: Random): string {
  return `${hostname()}-${Math.floor(random.next() * 2 ** 32).toString(16)}`;
}

/** Checks whether Redis can hold a cache. @throws {UsageError} if it cannot */
export async function requireFitRedis({ redis }: Pick<Configuration, "redis">, log: Pick<Log, "warn">): Promise<void> {
  await inspectRedis(redis).catch((error: unknown) => {
    if (error instanceof UnfitRedisError) throw new UsageError(error.message);
    log.warn("failed to read the eviction policy of Redis", { error: describeError(error) });
  });
}

/**
 * Shadow mode writes nothing to the cluster, so it takes no Lease. Its fences are derived from the time, so they grow from start to start.
 */
function unleased(clock: Clock): Leadership {
  let fence = clock.now();
  return {
    fence: () => String(fence),
    holds: () => true,
    raise: () => {
      fence = Math.max(fence + 1, clock.now());
      return Promise.resolve(String(fence));
    },
    lost: new AbortController().signal,
    release: () => Promise.resolve(),
  };
}
