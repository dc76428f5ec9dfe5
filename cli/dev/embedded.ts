/**
 * The whole system in one process, with embedded components: an in-memory API server, scripted nodes, an SQS emulator over HTTP, Redis as a
 * child process (or the Store in memory), watchers and the functions. For the demo and the benchmarks.
 */
import { randomBytes } from "node:crypto";
import { createKubeHttp } from "@deltaloop/kube/http";
import { createMemoryStore } from "@deltaloop/store/memory";
import { sqsClient, createSqsDeltaQueue, createSqsDoorbells, createSqsMessageSource } from "@deltaloop/store/sqs";
import type { SqsCalls } from "@deltaloop/store/sqs";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { CONTROLLERS, messageOf, tableOf } from "@deltaloop/kube/objects";
import { UPKEEP_TIMES, shutGate } from "@deltaloop/controllers/cache";
import { connect, redisStore } from "@deltaloop/controllers/lambda";
import { createApiServer, serveHttp, createInProcessKube, runScriptedNodes } from "@deltaloop/api-server";
import type { ApiServer, ScriptedNodesOptions } from "@deltaloop/api-server";
import { assembleSystem, startFauxqs, createQueues, queueUrls } from "@deltaloop/local";
import type { RunningWatcher, SystemOptions } from "@deltaloop/local";
import type { Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import type { Store } from "@deltaloop/store/ports";
import { readClusterIdentity } from "@deltaloop/kube/client";
import { functionHandlers } from "../functions/functions.ts";
import { runMemoryNodes } from "./memory-nodes.ts";
import { startLocalRedis } from "@deltaloop/local/processes";
import type { LocalRedis } from "@deltaloop/local/processes";

export interface EmbeddedOptions extends Pick<SystemOptions, "watchers" | "batchingWindowMs" | "onInvocation" | "onChanges" | "trace"> {
  readonly log: Log;
  /** Receives the identity of each watcher that becomes leader. */
  readonly onLead?: (watcher: string) => void;
  /** Scripted nodes; 0 leaves pods pending. */
  readonly nodes: number;
  /** Runs a node agent with an in-memory container runtime for each node, instead of scripted nodes. */
  readonly realAgents?: boolean;
  /** The delays of the nodes. */
  readonly pace?: Pick<ScriptedNodesOptions, "readyAfterMs" | "deleteAfterMs">;
  /** Wraps the functions' Store, to count their calls. */
  readonly observe?: (store: Store) => Store;
  /** Wraps the SQS client of every component. */
  readonly observeSqs?: (calls: SqsCalls) => SqsCalls;
  /** Metrics of one function; absent for no metrics. */
  readonly metrics?: (functionName: string) => Metrics;
}

export interface Embedded {
  readonly server: ApiServer;
  /** Plain HTTP on loopback. */
  readonly url: string;
  /** `redis-server` or `memory`. */
  readonly storeName: string;
  readonly store: Store;
  /** URL of the redis-server; absent if the Store is in memory. */
  readonly redisUrl?: string;
  /** Resolves once the gates of all controllers are open. */
  ready(): Promise<void>;
  /** Ends the leading watcher, as SIGTERM would, and returns its identity. Another watcher takes over. */
  endLeader(): string;
  stop(): Promise<void>;
}

const DEPLOYMENT = "demo";
const READY_POLL_MS = 20;

/** A redis-server that is too old is replaced by the in-memory Store, like a missing redis-server. */
export async function usableRedis(log: Log): Promise<LocalRedis | undefined> {
  return await startLocalRedis().catch((error: unknown) => {
    log.warn("using the in-memory Store instead of redis-server", { error: messageOf(error) });
    return undefined;
  });
}

export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { log } = options;
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const sqs = await startFauxqs();
  const server = createApiServer({ clock, random });
  const [http, redis] = await Promise.all([serveHttp(server), usableRedis(log)]);
  const kube = (component: string) => createKubeHttp({ server: http.url, component });
  const { cid, uid: clusterUid } = await readClusterIdentity(kube("watcher"));
  const client = sqsClient({ endpoint: sqs.endpoint });
  const queues = await createQueues(client, DEPLOYMENT);
  client.destroy();
  const configuration = {
    deployment: DEPLOYMENT,
    cluster: cid,
    digestKey: randomBytes(32).toString("hex"),
    macKeys: [randomBytes(32).toString("hex")],
    queues: queueUrls(sqs.endpoint, queues),
  };
  const connected = connect(
    configuration,
    redis ? redisStore({ url: redis.url, cluster: false }) : (given) => createMemoryStore({ ...given, clock }),
  );
  const seen = options.observeSqs?.(connected.sqs);
  const outside = {
    ...connected,
    ...(seen && { sqs: seen, doorbells: createSqsDoorbells(seen, { queueUrls: configuration.queues.doorbells, cid }) }),
  };
  const { store } = outside;

  const fleet = { count: options.nodes, clock, random, bindPods: true, ...options.pace, log };
  const component = options.realAgents === true ? "node-agents" : "scripted-nodes";
  const runNodes = options.realAgents === true ? runMemoryNodes : runScriptedNodes;
  const polled = options.observeSqs?.(sqs.calls) ?? sqs.calls;
  const source = (queueUrl: string) => createSqsMessageSource(polled, { queueUrl });
  let leader: RunningWatcher | undefined;
  const system = assembleSystem(
    {
      ...outside,
      log,
      queue: createSqsDeltaQueue(outside.sqs, { queueUrl: queues.deltas.url }),
      sources: {
        deltas: source(queues.deltas.url),
        deadDeltas: source(queues.deltas.deadLetterUrl),
        doorbells: tableOf(CONTROLLERS, (controller) => source(queues.doorbells[controller].url)),
      },
      functionStore: options.observe?.(store) ?? store,
      kube(name) {
        const metrics = options.metrics?.(name);
        return createKubeHttp({ server: http.url, component: name.replace("sync-", ""), ...(metrics && { metrics }) });
      },
      functions: functionHandlers,
      ...(options.metrics && { functionMetrics: options.metrics }),
    },
    {
      ...options,
      cluster: cid,
      clusterUid,
      lease: { namespace: "kube-system", name: `deltaloop-watcher-${DEPLOYMENT}` },
      upkeep: UPKEEP_TIMES,
      nodes: (ends) => (options.nodes > 0 ? runNodes(createInProcessKube(server, { component }), fleet, ends) : Promise.resolve()),
      onLead(watcher) {
        leader = watcher;
        options.onLead?.(watcher.identity);
      },
    },
  );

  return {
    server,
    url: http.url,
    storeName: redis ? "redis-server" : "memory",
    store,
    ...(redis && { redisUrl: redis.url }),
    async ready() {
      while ((await shutGate(store)) !== undefined) await clock.after(READY_POLL_MS);
    },
    endLeader() {
      leader?.stop();
      return leader?.identity ?? "no watcher";
    },
    async stop() {
      await system.stop();
      await outside.close();
      await http.close();
      server.close();
      await redis?.stop();
      await Promise.race([sqs.stop(), clock.after(1000)]); // open long polls may delay the stop
    },
  };
}
