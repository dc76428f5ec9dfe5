/**
 * Two builds of this repository in one process, on the same rows of a real Redis, the same messages and the same in-memory or real API
 * server: the state of an upgrade between the first new function and the last old one. Each build runs its own sources, including the
 * Store's scripts.
 */
import { join } from "node:path";
import { Redis } from "ioredis";

import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { memoryBackend, type System } from "../../shared/local/assemble-system.ts";
import type { Kube } from "../../shared/kube/client/kube.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import type { Pod } from "../../shared/kube/objects/wire.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import type * as systemModule from "../../shared/local/assemble-system.ts";
import type * as functionsModule from "../../cli/functions/functions.ts";
import type * as redisModule from "../../shared/store/redis/redis-store.ts";
import type * as signerModule from "../../shared/store/signer.ts";
import type * as digestModule from "../../shared/kube/pod-template/digest.ts";
import type * as identityModule from "../../shared/controllers/cache/identity.ts";
import type * as timesModule from "../../shared/base/times.ts";
import type * as checkpointModule from "../../shared/node-agent/kubelet/allocation/checkpoint.ts";
import type * as kubeHttpModule from "../../shared/kube/http/kube-http.ts";
import type * as labelsModule from "../../shared/node-agent/kubelet/types/labels.ts";
import type * as podModule from "../../shared/node-agent/kubelet/types/pod.ts";
import { eventually } from "./eventually.ts";
import type { Cluster } from "./e2e.ts";
import { rawClientAt, rawClientIn } from "./raw-client.ts";
import type { RawClient } from "./raw-client.ts";
import { watchGates, type Closed } from "./watch-gates.ts";

const CLUSTER = "c1";
const KEY = "the key of two builds";
const LEASE = { namespace: "kube-system", name: "deltaloop-watcher" };
const NODES = { count: 2, bindPods: true, readyAfterMs: [200, 400], deleteAfterMs: [100, 300] } as const;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
export const REPLICAS = 8;
/** Reasons of a sync that is retried: another writer came first, or the watcher's term ended meanwhile (LN4). Each build has its own texts. */
const RETRIED = [
  "the object has been modified",
  ...["the cache belongs to another epoch", "another run took over the key"],
  ...["the cache is of another epoch", "the key was taken over"],
];
const MERGE = "application/merge-patch+json";

/** The sources of a build. Their types are this checkout's: builds with the same identity have the same interfaces. */
export async function loadBuild(root: string) {
  const load = (path: string): Promise<unknown> => import(join(root, path));
  return {
    system: (await load("shared/local/assemble-system.ts")) as typeof systemModule,
    functions: (await load("cli/functions/functions.ts")) as typeof functionsModule,
    redis: (await load("shared/store/redis/redis-store.ts")) as typeof redisModule,
    signer: (await load("shared/store/signer.ts")) as typeof signerModule,
    digest: (await load("shared/kube/pod-template/digest.ts")) as typeof digestModule,
    identity: (await load("shared/controllers/cache/identity.ts")) as typeof identityModule,
    times: (await load("shared/base/times.ts")) as typeof timesModule,
    checkpoint: (await load("shared/node-agent/kubelet/allocation/checkpoint.ts")) as typeof checkpointModule,
    kubeHttp: (await load("shared/kube/http/kube-http.ts")) as typeof kubeHttpModule,
    labels: (await load("shared/node-agent/kubelet/types/labels.ts")) as typeof labelsModule,
    pod: (await load("shared/node-agent/kubelet/types/pod.ts")) as typeof podModule,
  };
}

export type Build = Awaited<ReturnType<typeof loadBuild>>;

/** One cluster and one cache, shared by components of several builds. */
export interface MixedBuilds {
  readonly store: Store;
  /** Starts all functions of a build in addition to the running ones. @returns a function that stops them */
  startFunctions(build: Build): () => Promise<void>;
  /** Starts a watcher of a build. @returns a function that stops it as SIGTERM does */
  startWatcher(build: Build): () => Promise<void>;
  create(name: string): Promise<void>;
  /** Changes the image, and calls `meanwhile` once the first pod of the new ReplicaSet exists and an old one remains. */
  roll(name: string, image: string, meanwhile: () => Promise<void>): Promise<void>;
  /** The epoch, the pods created so far, errors in the log, and messages that no build could read. */
  state(): Promise<{ readonly epoch: string | undefined; readonly created: number; readonly complaints: readonly string[] }>;
  /** @returns the spans in which all gates were closed, without the first list */
  stop(): Promise<readonly Closed[]>;
}

/** The API server that both builds use. */
interface Server {
  readonly person: RawClient;
  kube(build: Build, component: string): Kube;
  /** Pods created so far. */
  created(): Promise<number>;
  stop(): void;
}

async function serverInMemory(): Promise<Server> {
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const server = createApiServer({ clock, random });
  const person = rawClientIn(server, "kubectl");
  for (const name of ["default", LEASE.namespace])
    await person.request("POST", "/api/v1/namespaces", { metadata: { name } }).catch(() => undefined);
  let created = 0;
  server.onRequest(({ verb, resource, subresource, status }) => {
    if (verb === "create" && resource === "pods" && subresource === "" && status === 201) created++;
  });
  const nodesEnd = new AbortController();
  void runScriptedNodes(createInProcessKube(server, { component: "nodes" }), { ...NODES, clock, random }, nodesEnd.signal);
  return {
    person,
    kube: (_, component) => createInProcessKube(server, { component }),
    created: () => Promise.resolve(created),
    stop: () => {
      nodesEnd.abort();
      server.close();
    },
  };
}

/** A control plane with scheduler and nodes. Both builds have all rights. */
async function serverOf(cluster: Cluster): Promise<Server> {
  const { adminKubeconfig } = cluster.plane;
  const access = await kubeHttpConfigFrom(adminKubeconfig, { component: "e2e" });
  return {
    person: await rawClientAt(adminKubeconfig, "kubectl"),
    kube: (build, component) => build.kubeHttp.createKubeHttp({ ...access, component }),
    created: async () =>
      (await cluster.audit()).filter(
        ({ verb, objectRef, responseStatus }) =>
          verb === "create" &&
          objectRef?.namespace === "default" &&
          objectRef.resource === "pods" &&
          objectRef.subresource === undefined &&
          responseStatus?.code === 201,
      ).length,
    stop: () => undefined,
  };
}

/** `cluster`: replaces the in-memory API server. */
export async function startMixedBuilds(url: string, observer: Build, cluster?: Cluster): Promise<MixedBuilds> {
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const server = cluster ? await serverOf(cluster) : await serverInMemory();
  const { person } = server;
  const digester = observer.digest.createDigester(KEY);
  const queues = memoryBackend({ clock, random, digester, deployment: "mixed", cluster: CLUSTER });
  const idle = memoryBackend({ clock, random, digester, deployment: "mixed", cluster: CLUSTER });
  const clients: Redis[] = [];
  const systems: System[] = [];
  const complaints: string[] = [];
  const complain = (message: string, fields?: object): void => {
    const text = `${message} ${JSON.stringify(fields ?? {})}`;
    if (!RETRIED.some((reason) => text.includes(reason))) complaints.push(text);
  };
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: complain };

  const storeOf = (build: Build): Store => {
    const client = new Redis(url);
    clients.push(client);
    return build.redis.createRedisStore(client, {
      deployment: "mixed",
      cluster: CLUSTER,
      identity: build.identity.cacheIdentity(build.digest.createDigester(KEY)),
      signer: build.signer.createSigner([KEY], CLUSTER),
      holeLimitMs: build.times.HOLE_LIMIT_MS,
    });
  };
  const start = (build: Build, part: "functions" | "watcher"): (() => Promise<void>) => {
    const ports = {
      ...{ clock, random, log, digester: build.digest.createDigester(KEY), signer: build.signer.createSigner([KEY], CLUSTER) },
      ...{ store: storeOf(build), queue: queues.queue, doorbells: queues.doorbells, functions: build.functions.functionHandlers },
      sources: (part === "functions" ? queues : idle).sources,
      kube: (component: string) => server.kube(build, component),
    };
    const watchers = part === "watcher" ? 1 : 0;
    const system = build.system.assembleSystem(ports, { cluster: CLUSTER, clusterUid: "cluster-uid", lease: LEASE, watchers });
    systems.push(system);
    return () => system.stop();
  };
  const store = storeOf(observer);
  const pods = async (name: string) =>
    (await person.list<Pod & { readonly status?: { readonly phase?: string } }>("/api/v1/namespaces/default/pods")).items.filter(
      ({ metadata }) => metadata?.labels?.["app"] === name,
    );
  const imageOf = (pod: Pod): string | undefined => pod.spec?.containers[0]?.image;
  const settled = (name: string, image: string) =>
    eventually(`${name} runs ${image}`, async () => {
      const found = await pods(name);
      return found.length === REPLICAS && found.every((pod) => imageOf(pod) === image && pod.status?.phase === "Running");
    });
  let gates: ReturnType<typeof watchGates> | undefined;

  return {
    store,
    startFunctions: (build) => start(build, "functions"),
    startWatcher: (build) => start(build, "watcher"),
    async create(name) {
      const template = { metadata: { labels: { app: name } }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
      const spec = { replicas: REPLICAS, selector: { matchLabels: { app: name } }, template };
      await person.request("POST", DEPLOYMENTS, { metadata: { name }, spec });
      await settled(name, "shop:1");
      gates ??= watchGates(store);
    },
    async roll(name, image, meanwhile) {
      const patch = { spec: { template: { spec: { containers: [{ name: "main", image }] } } } };
      await person.request("PATCH", `${DEPLOYMENTS}/${name}`, patch, MERGE);
      await eventually(`${name} is in the middle of its rollout`, async () => {
        const fresh = (await pods(name)).filter((pod) => imageOf(pod) === image).length;
        return fresh > 0 && fresh < REPLICAS;
      });
      await meanwhile();
      await settled(name, image);
    },
    async state() {
      const unread = [...(await store.quarantined()), ...(await store.forgeries())].map((entry) => JSON.stringify(entry));
      return { epoch: (await store.epoch())?.epoch, created: await server.created(), complaints: [...complaints, ...unread] };
    },
    async stop() {
      const closed = (await gates?.stop()) ?? [];
      await Promise.all(systems.map((system) => system.stop()));
      server.stop();
      for (const client of clients) client.disconnect();
      return closed;
    },
  };
}
