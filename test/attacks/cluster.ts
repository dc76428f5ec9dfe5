/**
 * A small cluster for attacks: API server, watcher, queues, Store, functions and two nodes in one process under a virtual clock. It injects
 * no faults and has no garbage collector, which would eventually delete the objects of an attack.¶A tenant sends only requests that its
 * rights in one namespace allow.
 */
import { testSigner } from "../support/signer.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { Pod } from "../../shared/kube/objects/wire.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import type { RequestRecord } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import type { KubeWriter } from "../../shared/kube/client/kube.ts";
import { createSimulatedKube } from "../simulation/kube.ts";
import { silentLog } from "../support/silent-log.ts";
import { rawClientIn } from "../support/raw-client.ts";

const START_MS = Date.UTC(2026, 2, 1, 10);
/** Time in ms after which every change has been processed. */
const REST_MS = 20_000;
const CLUSTER = "c1";
const DIGEST_KEY = "attacks";
const MERGE = "application/merge-patch+json";

/** The users victim and tenant: each has all rights in its own namespace, and may read everything. */
export const [VICTIM, MALLORY] = ["shop", "mallory"] as const;

export type Body = Readonly<Record<string, unknown>>;
type PodObject = Pod & { readonly metadata: { readonly name: string; readonly uid: string } };

export interface SmallCluster {
  post(namespace: string, resource: string, body: object): Promise<Body>;
  get(namespace: string, resource: string, name: string): Promise<Body>;
  mergePatch(namespace: string, resource: string, name: string, body: object): Promise<void>;
  remove(namespace: string, resource: string, name: string): Promise<void>;
  pods(namespace: string): Promise<readonly PodObject[]>;
  advance(ms: number): Promise<void>;
  /** Waits until every change has been processed. */
  rest(): Promise<void>;
  /** Writes that our functions have sent so far, without Events, as `sync-replicaset delete pods shop/web-1`. */
  writes(namespace?: string): readonly string[];
  /** Syncs that have begun so far, as `replicaset shop/web`. */
  syncs(): readonly string[];
  stop(): void;
}

export interface SmallClusterOptions {
  /** Creates objects before the watcher's first list. */
  readonly before?: (post: SmallCluster["post"]) => Promise<void>;
  /** Intercepts the writes of our functions. */
  readonly over?: (writer: KubeWriter, advance: (ms: number) => Promise<void>) => Partial<KubeWriter>;
}

export async function startSmallCluster({ over, before }: SmallClusterOptions = {}): Promise<SmallCluster> {
  const clock = createVirtualClock(START_MS);
  const random = createSeededRandom(7);
  const server = createApiServer({ clock, random, garbageCollection: false });
  const digester = createDigester(DIGEST_KEY);
  const kube = (component: string) => {
    const ports = createSimulatedKube({ server, clock, random, component, faults: () => ({ api: 0, watch: 0 }), pageSize: 500 });
    return { ...ports, ...over?.(ports, (ms) => clock.after(ms)) };
  };
  const written: RequestRecord[] = [];
  server.onRequest((record) => {
    const isWrite = ["create", "update", "patch", "delete"].includes(record.verb) && !["events", "leases"].includes(record.resource);
    if (record.userAgent.startsWith("sync-") && isWrite && record.status < 300) written.push(record);
  });
  const synced: string[] = [];

  const person = rawClientIn(server, "kubectl");
  for (const name of [VICTIM, MALLORY]) await person.request("POST", "/api/v1/namespaces", { metadata: { name } });
  const post: SmallCluster["post"] = (namespace, resource, body) => person.request("POST", pathOf(namespace, resource), body);
  await before?.(post);
  const nodes = { count: 2, clock, random, bindPods: true, readyAfterMs: [200, 400], deleteAfterMs: [100, 300] } as const;
  const system = assembleSystem(
    {
      ...{ clock, random, digester, signer: testSigner(CLUSTER), log: silentLog, kube, functions: functionHandlers },
      ...memoryBackend({ clock, random, digester, deployment: "attacks", cluster: CLUSTER }),
    },
    {
      cluster: CLUSTER,
      clusterUid: "cluster-uid",
      lease: { namespace: "kube-system", name: "deltaloop-watcher-attacks" },
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "nodes" }), nodes, ends),
      trace: ({ kind, controller, key }) => void (kind === "started" && synced.push(`${controller} ${key}`)),
    },
  );

  await clock.advance(REST_MS);
  return {
    post,
    get: (namespace, resource, name) => person.request("GET", `${pathOf(namespace, resource)}/${name}`),
    async mergePatch(namespace, resource, name, body) {
      await person.request("PATCH", `${pathOf(namespace, resource)}/${name}`, body, MERGE);
    },
    async remove(namespace, resource, name) {
      await person.request("DELETE", `${pathOf(namespace, resource)}/${name}`, { gracePeriodSeconds: 0 });
    },
    // The object at that path.
    pods: async (namespace) => (await person.list(pathOf(namespace, "pods"))).items as unknown as readonly PodObject[],
    advance: (ms) => clock.advance(ms),
    rest: () => clock.advance(REST_MS),
    writes: (namespace) =>
      written
        .filter((record) => namespace === undefined || record.namespace === namespace)
        .map(
          ({ userAgent, verb, resource, subresource, ...record }) =>
            `${userAgent} ${verb} ${resource}${subresource === "" ? "" : `/${subresource}`} ${record.namespace}/${record.name}`,
        ),
    syncs: () => synced,
    stop() {
      void system.stop();
      server.close();
    },
  };
}

function pathOf(namespace: string, resource: string): string {
  return `${["deployments", "replicasets"].includes(resource) ? "/apis/apps/v1" : "/api/v1"}/namespaces/${namespace}/${resource}`;
}

const LABELS = { app: "web" };
export const TEMPLATE = { metadata: { labels: LABELS }, spec: { containers: [{ name: "main", image: "web:1" }] } };

export interface Reference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller: true;
}

/** Returns a controller reference to `owner`; everyone who can read the owner knows all its fields. */
export function referenceTo(kind: "ReplicaSet" | "Deployment", owner: Body): Reference {
  const { name, uid } = owner["metadata"] as { readonly name: string; readonly uid: string }; // every object has them
  return { apiVersion: "apps/v1", kind, name, uid, controller: true };
}

export function pod(name: string, reference?: Reference): object {
  return {
    metadata: { name, labels: LABELS, ...(reference && { ownerReferences: [reference] }) },
    spec: TEMPLATE.spec,
  };
}

export function workload(name: string, replicas: number, reference?: Reference): object {
  return {
    metadata: { name, labels: LABELS, ...(reference && { ownerReferences: [reference] }) },
    spec: { replicas, selector: { matchLabels: LABELS }, template: TEMPLATE },
  };
}

export function namesOf(pods: readonly { readonly metadata: { readonly name: string; readonly uid: string } }[]): readonly string[] {
  return pods.map(({ metadata }) => `${metadata.name} ${metadata.uid}`).toSorted();
}
