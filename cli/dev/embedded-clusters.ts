/**
 * Several in-memory clusters behind one watcher process and one set of functions, all in this process: the components of `dev --clusters` on
 * a folder of kubeconfigs. For the demo.
 */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { createApiServer, createInProcessKube, runScriptedNodes, serveHttp } from "@deltaloop/api-server";
import type { ApiServer } from "@deltaloop/api-server";
import { createHeartbeats, shutGate } from "@deltaloop/controllers/cache";
import { environmentOf } from "@deltaloop/controllers/configuration";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, shareConnections } from "@deltaloop/controllers/lambda";
import type { SharedConnections } from "@deltaloop/controllers/lambda";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import { createQueues, queueUrls, startFauxqs, startFunctionHost } from "@deltaloop/local";
import type { SystemOptions } from "@deltaloop/local";
import { createOwnFolder } from "@deltaloop/local/processes";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { createMemoryStore } from "@deltaloop/store/memory";
import type { ItemChange, Store } from "@deltaloop/store/ports";
import { createSqsDeltaQueue, createSqsMessageSource, sqsClient } from "@deltaloop/store/sqs";
import type { SqsCalls } from "@deltaloop/store/sqs";
import { claimOfDoorbell, liveOf, NO_CLUSTER } from "@deltaloop/controllers/clusters";
import { accessTo, directoryConfiguration, openClusters } from "../clusters/open-clusters.ts";
import { openFunctions } from "../clusters/open-functions.ts";
import { serveClusters } from "../clusters/serve-clusters.ts";
import { RunningSyncs } from "../health/running-syncs.ts";
import { watchClusters } from "../watch/watch-clusters.ts";
import { watchListed } from "../watch/watch-listed.ts";
import { usableRedis } from "./embedded.ts";
import { embeddedKubeconfig } from "./embedded-kubeconfig.ts";

export interface EmbeddedClustersOptions {
  readonly names: readonly string[];
  /** Scripted nodes of each cluster. */
  readonly nodes: number;
  /** Returns the log for the name of one cluster, or for all clusters. */
  readonly logOf: (cluster?: string) => Log;
  readonly onInvocation: NonNullable<SystemOptions["onInvocation"]>;
  /** Wraps the SQS client of every component. */
  readonly observeSqs?: (calls: SqsCalls) => SqsCalls;
  /** Metrics of the functions. Default: none are recorded. */
  readonly metrics?: Metrics;
  readonly onSync: (cluster: string, sync: ReplayedSync) => void;
  readonly onChanges: (cluster: string, items: readonly ItemChange[]) => void;
}

export interface EmbeddedCluster {
  readonly name: string;
  /** Plain HTTP on loopback. */
  readonly url: string;
  readonly server: ApiServer;
  /** Ends all connections to the API server and refuses new ones. */
  pause(): Promise<void>;
  /** Listens again at the same address. */
  resume(): Promise<void>;
}

export interface EmbeddedClusters {
  readonly clusters: readonly EmbeddedCluster[];
  /** The folder of kubeconfigs, one for each cluster. */
  readonly folder: string;
  /** `redis-server` or `memory`. */
  readonly storeName: string;
  /** URL of the redis-server; absent if the Stores are in memory. */
  readonly redisUrl?: string;
  /** The Store of each cluster, by cluster id. */
  stores(): ReadonlyMap<string, Store>;
  /** Resolves once the gates of all clusters are open. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

const DEPLOYMENT = "demo";
const READY_POLL_MS = 50;
const SHARE = 5;
const STARTUP_MS = 60_000;
const CONCURRENCY = 20;
const ALLOW = ["loopback", "insecure"] as const;

export async function startEmbeddedClusters(options: EmbeddedClustersOptions): Promise<EmbeddedClusters> {
  const { names, logOf } = options;
  const log = logOf();
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const ends = new AbortController();
  const [sqs, redis] = await Promise.all([startFauxqs(), usableRedis(log)]);
  const client = sqsClient({ endpoint: sqs.endpoint });
  const queues = queueUrls(sqs.endpoint, await createQueues(client, DEPLOYMENT));
  client.destroy();
  const { path: folder } = createOwnFolder("demo-clusters");
  const clusters = await Promise.all(names.map(async (name) => await startCluster(name)));
  const directory = await openClusters({ clusters: folder, allow: ALLOW }, log.error);

  const configuration: Configuration = {
    ...{ deployment: DEPLOYMENT, cluster: NO_CLUSTER.cid, kube: { server: NO_CLUSTER.server }, mode: "act" },
    digestKey: randomBytes(32).toString("hex"),
    macKeys: [randomBytes(32).toString("hex")],
    redis: { url: redis?.url ?? "redis://none.invalid", cluster: false },
    ...{ queues, kubernetes: "supported", logLevel: "info", metrics: "none" },
  };
  const live = await directoryConfiguration(environmentOf({ ...configuration, leaseNamespace: "kube-system" }));
  const observed = options.observeSqs ?? ((calls) => calls);
  const connections = redis
    ? shareConnections(configuration, (error) => log.warn("redis connection failed", { error: error.message }))
    : inMemory();
  const shared = { ...connections, sqs: observed(connections.sqs) };
  const metrics = options.metrics ?? createPrometheusMetrics("functions");
  const accessAs = { allow: ALLOW };
  const handlers = serveClusters(
    {
      ...{ directory, queues, log, share: SHARE },
      open: async (cluster) =>
        await openFunctions({
          live: liveOf(live, cluster),
          accessAs: async (role, component) => await accessTo(cluster, accessAs, role, component),
          ...{ log: logOf(cluster.name), shared, metrics, running: new RunningSyncs() },
          onSync: (sync) => options.onSync(cluster.name, sync),
          onChanges: (_resource, items) => options.onChanges(cluster.name, items),
        }),
    },
    ends.signal,
  );
  const polled = observed(sqs.calls);
  const source = (queueUrl: string) => createSqsMessageSource(polled, { queueUrl });
  const host = startFunctionHost({
    sources: { deltas: source(queues.deltas), doorbells: tableOf(CONTROLLERS, (controller) => source(queues.doorbells[controller])) },
    ...{ handlers, clock, log, concurrency: CONCURRENCY, onInvocation: options.onInvocation },
    fairGroupOf: ({ body }) => claimOfDoorbell(body) ?? "",
  });
  const queue = createSqsDeltaQueue(shared.sqs, { queueUrl: queues.deltas });
  const together = { queue, heartbeats: createHeartbeats({ queue, clock, random, log }) };
  const watching = watchClusters(
    {
      ...{ directory, log, clock, random },
      serve: async (cluster, signal) =>
        await watchListed(
          cluster,
          { ...accessAs, ...{ live, shared, together, startupTimeout: STARTUP_MS }, log: () => logOf(cluster.name) },
          signal,
        ),
      forget: () => Promise.resolve(),
    },
    ends.signal,
  );

  async function startCluster(name: string): Promise<EmbeddedCluster> {
    const server = createApiServer({ clock, random });
    let http = await serveHttp(server);
    const { port, url } = http;
    await writeFile(join(folder, `${name}.yaml`), embeddedKubeconfig(url, name), { mode: 0o600 });
    const script = { count: options.nodes, clock, random, bindPods: true, log };
    runScriptedNodes(createInProcessKube(server, { component: "scripted-nodes" }), script, ends.signal).catch(() => undefined);
    ends.signal.addEventListener("abort", () => server.close(), { once: true });
    return {
      ...{ name, server, url },
      pause: async () => await http.close(),
      async resume() {
        http = await serveHttp(server, { port });
      },
    };
  }

  function stores(): ReadonlyMap<string, Store> {
    return new Map(
      directory.list().map(({ cid }) => [cid, openCache({ ...configuration, cluster: cid }, shared.makeStore).store] as const),
    );
  }

  /** Watcher and functions of a cluster share a Store. */
  function inMemory(): SharedConnections {
    const stores = new Map<string, Store>();
    return {
      makeStore(given) {
        const store = stores.get(given.cluster) ?? createMemoryStore({ ...given, clock });
        stores.set(given.cluster, store);
        return store;
      },
      sqs: sqs.calls,
      close: () => undefined,
    };
  }

  return {
    ...{ clusters, folder, storeName: redis ? "redis-server" : "memory", stores },
    ...(redis && { redisUrl: redis.url }),
    async ready() {
      for (const store of stores().values()) while ((await shutGate(store)) !== undefined) await clock.after(READY_POLL_MS);
    },
    async stop() {
      ends.abort(new Error("the clusters are stopping"));
      await host.stop();
      await watching;
      shared.close();
      await redis?.stop();
      await Promise.race([sqs.stop(), clock.after(1_000)]); // open long polls may delay the stop
    },
  };
}
