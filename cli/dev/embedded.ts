/**
 * The whole system in one process, on embedded defaults: an API server in memory, scripted nodes, an SQS emulator over HTTP,
 * Redis as a child process (or the Store in memory), watchers and the functions. For the demo and the benchmarks.
 */
import { randomBytes } from "node:crypto";
import { createKubeHttp } from "../../shared/adapters/kube-http/kube-http.ts";
import { createMemoryStore } from "../../shared/adapters/memory/store/store.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import type { SqsCalls } from "../../shared/adapters/sqs/calls.ts";
import { createSqsDeltaQueue } from "../../shared/adapters/sqs/delta-queue.ts";
import { createSqsDoorbells } from "../../shared/adapters/sqs/doorbells.ts";
import { createSqsMessageSource } from "../../shared/adapters/sqs/message-source.ts";
import { createSystemClock } from "../../shared/adapters/system/clock.ts";
import { createSystemRandom } from "../../shared/adapters/system/random.ts";
import { CONTROLLERS, tableOf } from "../../shared/api/resources.ts";
import type { ApplierPorts } from "../../shared/cache/applier.ts";
import { acquireLease } from "../../shared/cache/leader-election.ts";
import { AFFECTED_KEYS } from "../../shared/registry/registry.ts";
import { UPKEEP_TIMES } from "../../shared/cache/upkeep.ts";
import { runWatcher } from "../../shared/cache/watcher.ts";
import type { WatcherPorts } from "../../shared/cache/watcher.ts";
import type { TraceLine } from "../../shared/controller/run.ts";
import { connect, redisStore } from "../../shared/lambda/connect.ts";
import { serving } from "../../shared/lambda/wiring.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { createApiServer } from "../../shared/local/api-server/api-server.ts";
import type { ApiServer } from "../../shared/local/api-server/api-server.ts";
import { serveHttp } from "../../shared/local/api-server/http.ts";
import type { Invocation } from "../../shared/local/event-source-mapping.ts";
import { startFauxqs } from "../../shared/local/fauxqs.ts";
import { startFunctionHost } from "../../shared/local/function-host.ts";
import { createInProcessKube } from "../../shared/local/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/local/scripted-nodes/scripted-nodes.ts";
import type { ScriptedNodesOptions } from "../../shared/local/scripted-nodes/scripted-nodes.ts";
import { createQueues, queueUrls } from "../../shared/local/queues.ts";
import type { Log } from "../../shared/ports/log.ts";
import type { Metrics } from "../../shared/ports/metrics.ts";
import type { Store } from "../../shared/ports/store.ts";
import { HOLE_RELIST_MS } from "../../shared/ports/times.ts";
import { readClusterIdentity } from "../cluster/cluster-id.ts";
import { functionHandlers } from "../functions/functions.ts";
import { runMemoryNodes } from "./memory-nodes.ts";
import { shutGate } from "../health/gates.ts";
import { startLocalRedis } from "./local-redis.ts";

export interface EmbeddedOptions {
  readonly log: Log;
  /** `watcher-1` and so on; one of them leads. Default 1. */
  readonly watchers?: number;
  /** Hears which one leads from now on. */
  readonly onLead?: (watcher: string) => void;
  /** Scripted nodes; 0 leaves pods pending. */
  readonly nodes: number;
  /** The node agent on each of them instead, with a runtime in memory: pods come to be as they do on a node. */
  readonly realAgents?: boolean;
  /** Of the watchers, as their option of that name. */
  readonly batchingWindowMs?: number;
  /** How fast they are; default as people expect it of nodes. */
  readonly pace?: Pick<ScriptedNodesOptions, "readyAfterMs" | "deleteAfterMs">;
  /** Puts something between the functions and the Store, to count what they ask of it. */
  readonly observe?: (store: Store) => Store;
  /** The same between all parts and the queues. */
  readonly observeSqs?: (calls: SqsCalls) => SqsCalls;
  /** Where a function counts; absent: nowhere. */
  readonly metrics?: (functionName: string) => Metrics;
  readonly onInvocation?: (invocation: Invocation) => void;
  readonly onChanges?: ApplierPorts["onChanges"];
  readonly trace?: (line: TraceLine) => void;
}

export interface Embedded {
  readonly server: ApiServer;
  /** Plain HTTP on loopback. */
  readonly url: string;
  /** `redis-server` or `memory`. */
  readonly storeName: string;
  readonly store: Store;
  /** Of the redis-server; absent where the Store is in memory. */
  readonly redisUrl?: string;
  /** Resolves once keys of every controller are handed out. */
  ready(): Promise<void>;
  /** Ends the watcher that leads, as SIGTERM would; answers which it was. Another one takes over. */
  endLeader(): string;
  stop(): Promise<void>;
}

const DEPLOYMENT = "demo";
const READY_POLL_MS = 20;

export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { log } = options;
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const sqs = await startFauxqs(); // first, while nothing else runs: the package comes without it
  const server = createApiServer({ clock, random });
  const [http, redis] = await Promise.all([serveHttp(server), startLocalRedis()]);
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

  const ends = new AbortController();
  const fleet = { count: options.nodes, clock, random, bindPods: true, ...options.pace };
  const component = options.realAgents === true ? "node-agents" : "scripted-nodes";
  const runNodes = options.realAgents === true ? runMemoryNodes : runScriptedNodes;
  const nodes = options.nodes > 0 ? runNodes(createInProcessKube(server, { component }), { ...fleet, log }, ends.signal) : undefined;
  const watcherKube = kube("watcher");
  let leader = { name: "nobody", ends: new AbortController() };
  const watch = (identity: string): Promise<void> => {
    const own = { name: identity, ends: new AbortController() };
    const lease = { namespace: "kube-system", name: `deltaloop-watcher-${DEPLOYMENT}`, identity };
    const lead: WatcherPorts["lead"] = async (signal) => {
      const leadership = await acquireLease({ reader: watcherKube, writer: watcherKube, clock, random, log }, lease, signal);
      if (leadership) {
        leader = own;
        options.onLead?.(identity);
      }
      return leadership;
    };
    const queue = createSqsDeltaQueue(outside.sqs, { queueUrl: queues.deltas.url });
    return runWatcher(
      { ...outside, kube: watcherKube, queue, log, lead },
      {
        cluster: cid,
        clusterUid,
        identity: outside.identity,
        holeRelistMs: HOLE_RELIST_MS,
        ...(options.batchingWindowMs !== undefined && { batchingWindowMs: options.batchingWindowMs }),
        upkeep: { ...UPKEEP_TIMES, reader: watcherKube, registry: AFFECTED_KEYS },
      },
      AbortSignal.any([ends.signal, own.ends.signal]),
    );
  };
  const watching = Array.from({ length: options.watchers ?? 1 }, (_, index) => watch(`watcher-${index + 1}`));
  const observed = { ...outside, store: options.observe?.(store) ?? store };
  const wiring = (name: string): FunctionWiring => {
    const metrics = options.metrics?.(name);
    const calls = createKubeHttp({ server: http.url, component: name.replace("sync-", ""), ...(metrics && { metrics }) });
    return {
      clock,
      random,
      log,
      digester: outside.digester,
      ...serving(cid, calls, "act", observed),
      ...(metrics && { metrics }),
      ...(options.trace && { trace: options.trace }),
    };
  };
  const polled = options.observeSqs?.(sqs.calls) ?? sqs.calls;
  const source = (queueUrl: string) => createSqsMessageSource(polled, { queueUrl });
  const host = startFunctionHost({
    sources: {
      deltas: source(queues.deltas.url),
      deadDeltas: source(queues.deltas.deadLetterUrl),
      doorbells: tableOf(CONTROLLERS, (controller) => source(queues.doorbells[controller].url)),
    },
    handlers: functionHandlers(wiring, options.onChanges),
    clock,
    log,
    ...(options.onInvocation && { onInvocation: options.onInvocation }),
  });

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
      leader.ends.abort(new Error("it is ended"));
      return leader.name;
    },
    async stop() {
      await host.stop();
      ends.abort(new Error("the demo ends"));
      await Promise.allSettled([...watching, nodes]);
      await outside.close();
      await http.close();
      server.close();
      await redis?.stop();
      await Promise.race([sqs.stop(), clock.after(1000)]); // long polls may still hang on it
    },
  };
}
