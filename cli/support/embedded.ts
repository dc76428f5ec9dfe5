/**
 * The whole system in one process, on embedded defaults: an API server in memory, scripted nodes, an SQS emulator over HTTP,
 * Redis as a child process (or the Store in memory), the watcher and the functions. For the demo and the benchmarks.
 */
import { randomBytes } from "node:crypto";
import { createKubeHttp } from "../../shared/adapters/kube-http/kube-http.ts";
import { createMemoryStore } from "../../shared/adapters/memory/store/store.ts";
import { redisClient } from "../../shared/adapters/redis/client.ts";
import { createRedisStore } from "../../shared/adapters/redis/redis-store.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import { createSqsDeltaQueue } from "../../shared/adapters/sqs/delta-queue.ts";
import { createSqsDoorbells } from "../../shared/adapters/sqs/doorbells.ts";
import { createSqsMessageSource } from "../../shared/adapters/sqs/message-source.ts";
import { createSystemClock } from "../../shared/adapters/system/clock.ts";
import { createSystemRandom } from "../../shared/adapters/system/random.ts";
import { createDigester } from "../../shared/api/digest.ts";
import { createSigner } from "../../shared/api/signer.ts";
import { CONTROLLERS } from "../../shared/api/resources.ts";
import type { ApplierPorts } from "../../shared/cache/applier.ts";
import { cacheIdentity } from "../../shared/cache/identity.ts";
import { acquireLease } from "../../shared/cache/lease.ts";
import { runWatcher } from "../../shared/cache/watcher.ts";
import type { TraceLine } from "../../shared/controller/run.ts";
import { createWriteGateway } from "../../shared/controller/write-gateway.ts";
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
import { createQueues } from "../../shared/local/queues.ts";
import type { Log } from "../../shared/ports/log.ts";
import type { Store } from "../../shared/ports/store.ts";
import { readClusterIdentity } from "./cluster-id.ts";
import { functionHandlers } from "./functions.ts";
import { startLocalRedis } from "./local-redis.ts";

export interface EmbeddedOptions {
  readonly log: Log;
  /** Scripted nodes; 0 leaves pods pending. */
  readonly nodes: number;
  /** How fast they are; default as people expect it of nodes. */
  readonly pace?: Pick<ScriptedNodesOptions, "readyAfterMs" | "deleteAfterMs">;
  /** Puts something between the functions and the Store, to count what they ask of it. */
  readonly observe?: (store: Store) => Store;
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
  /** Resolves once keys of every controller are handed out. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

const DEPLOYMENT = "demo";
const READY_POLL_MS = 20;
const HOLES = { limitMs: 2000, relistMs: 60_000 };

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
  const digester = createDigester(randomBytes(32).toString("hex"));
  const identity = cacheIdentity(digester);
  const signer = createSigner([randomBytes(32).toString("hex")], cid);
  const storeOptions = { deployment: DEPLOYMENT, cluster: cid, identity, holeLimitMs: HOLES.limitMs };
  const connection = redis && redisClient({ url: redis.url, cluster: false });
  const store = connection ? createRedisStore(connection, { ...storeOptions, signer }) : createMemoryStore({ ...storeOptions, clock });
  const doorbells = createSqsDoorbells(client, {
    queueUrls: {
      deployment: queues.doorbells.deployment.url,
      replicaset: queues.doorbells.replicaset.url,
      replicationcontroller: queues.doorbells.replicationcontroller.url,
    },
    cid,
  });

  const ends = new AbortController();
  const fleet = { count: options.nodes, clock, random, bindPods: true, ...options.pace };
  const nodes =
    options.nodes > 0 ? runScriptedNodes(createInProcessKube(server, { component: "scripted-nodes" }), fleet, ends.signal) : undefined;
  const watcherKube = kube("watcher");
  const lease = { namespace: "kube-system", name: `deltaloop-watcher-${DEPLOYMENT}`, identity: "demo" };
  const watching = runWatcher(
    {
      kube: watcherKube,
      store,
      queue: createSqsDeltaQueue(client, { queueUrl: queues.deltas.url }),
      doorbells,
      clock,
      random,
      digester,
      signer,
      log,
      lead: (signal) => acquireLease({ reader: watcherKube, writer: watcherKube, clock, random, log }, lease, signal),
    },
    { cluster: cid, clusterUid, identity, holeRelistMs: HOLES.relistMs },
    ends.signal,
  );
  const wiring = (name: string): FunctionWiring => {
    const api = kube(name.replace("sync-", ""));
    const cluster = {
      store: options.observe?.(store) ?? store,
      signer,
      doorbells,
      reader: api,
      gateway: (controller: Parameters<typeof createWriteGateway>[1]) => createWriteGateway(api, controller, "act"),
    };
    return {
      clock,
      random,
      log,
      digester,
      clusters: [cid],
      cluster: (asked) => (asked === cid ? cluster : undefined),
      ...(options.trace && { trace: options.trace }),
    };
  };
  const source = (queueUrl: string) => createSqsMessageSource(client, { queueUrl });
  const host = startFunctionHost({
    sources: {
      deltas: source(queues.deltas.url),
      deadDeltas: source(queues.deltas.deadLetterUrl),
      doorbells: {
        deployment: source(queues.doorbells.deployment.url),
        replicaset: source(queues.doorbells.replicaset.url),
        replicationcontroller: source(queues.doorbells.replicationcontroller.url),
      },
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
    async ready() {
      for (;;) {
        const gates = await Promise.all(CONTROLLERS.map((controller) => store.gate(controller)));
        if (gates.every(({ open }) => open)) return;
        await clock.after(READY_POLL_MS);
      }
    },
    async stop() {
      await host.stop();
      ends.abort(new Error("the demo ends"));
      await Promise.allSettled([watching, nodes]);
      connection?.disconnect();
      client.destroy();
      await http.close();
      server.close();
      await redis?.stop();
      await Promise.race([sqs.stop(), clock.after(1000)]); // long polls may still hang on it
    },
  };
}
