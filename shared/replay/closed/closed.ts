/**
 * Closed-loop replay: repeats the user requests of a recorded cluster at the same times on an in-memory API server with
 * scripted nodes and deltaloop's controllers (design decision 9, `--closed`).
 */
import { createVirtualClock, createSeededRandom } from "@deltaloop/base/memory";
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText, metaOf } from "@deltaloop/base";
import type { Clock, JsonObject, Log } from "@deltaloop/base";
import { CACHED_RESOURCES, RESOURCES, resourceId } from "@deltaloop/kube/objects";
import type { CachedResource, KubeObject } from "@deltaloop/kube/objects";
import type { MemoryData } from "@deltaloop/store/memory";
import { createSigner } from "@deltaloop/store/ports";
import { createApiServer, createInProcessKube, runScriptedNodes } from "@deltaloop/api-server";
import type { ApiServer } from "@deltaloop/api-server";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";
import { publishedRelease } from "../engine/replay.ts";
import type { ReplayOptions } from "../engine/replay.ts";
import type { ReplayedSync } from "../engine/sync-log.ts";
import type { LiveObject } from "../shadow/states.ts";
import { SyncLog } from "../engine/sync-log.ts";
import { disagreements } from "./agreement.ts";
import { templateOf } from "./life.ts";
import type { Life } from "./life.ts";
import type { UserRequest } from "./user-requests.ts";

export interface ClosedOptions extends Pick<ReplayOptions, "functions" | "release"> {
  readonly digester: Digester;
  readonly seed: number;
  readonly log: Log;
  readonly onSync: (sync: ReplayedSync) => void;
  /** Receives each user request and the status of its response. */
  readonly onPerson: (write: UserRequest, status: number) => void;
  /** Wraps the client of a component, for tests that inject faults. `component`: `watcher`, or a function by its deployed name. */
  readonly intercept?: (component: string, kube: WatcherKube, clock: Clock) => WatcherKube;
  /** Time after the last change, in which pending delays may end. Default 30 s. */
  readonly tailMs?: number;
  /** The Store's data, for tests that change its rules. */
  readonly data?: MemoryData;
}

export interface ClosedEnd {
  /** Differences from the recorded state; empty if deltaloop's controllers reached it. */
  readonly disagreements: readonly string[];
  /** User changes to objects of controllers. They are not repeated, because such objects have different names in the replay. */
  readonly left: readonly string[];
  readonly podsCreated: number;
  readonly objects: readonly LiveObject[];
}

type WatcherKube = KubeReader & KubeWriter & KubeWatch;

const CLUSTER = "closed000000";
const NODES = 10;
/** Number of events that the server keeps; watchers in this process never lag far behind. */
const HISTORY_EVENTS = 2_000;
const TAIL_MS = 30_000;
const SETTLE_MS = 5_000;

export async function closedReplay(life: Life, options: ClosedOptions): Promise<ClosedEnd> {
  const { digester, log, seed } = options;
  const { startMs, endMs, namespaces, standing, recorded, never } = life;
  const { writes, left } = life.userRequests;
  const clock = createVirtualClock(startMs - SETTLE_MS);
  const random = createSeededRandom(seed);
  const server = createApiServer({ clock, random, historyEvents: HISTORY_EVENTS });
  for (const namespace of namespaces) placeNamespace(server, namespace);
  for (const { resource, object } of standing) server.place(resourceId(resource), object as unknown as JsonObject); // API objects are JSON
  const kube = withoutEvents(createInProcessKube(server, { component: "deltaloop" }));
  const syncs = new SyncLog(options.onSync, () => clock.now());
  const fleet = {
    count: NODES,
    clock,
    random,
    bindPods: true,
    staysUnready: (pod: object): boolean => never.has(templateOf(pod as LiveObject)),
  };
  let podsCreated = 0;
  server.onRequest(({ resource, verb, subresource, status }) => {
    if (resource === "pods" && verb === "create" && subresource === "" && status === 201) podsCreated++;
  });
  const backend = memoryBackend({
    clock,
    random,
    digester,
    deployment: "closed",
    cluster: CLUSTER,
    ...(options.data && { data: options.data }),
  });
  const signer = createSigner([`closed ${seed}`], CLUSTER);
  const system = assembleSystem(
    {
      clock,
      random,
      digester,
      signer,
      log,
      ...backend,
      ...publishedRelease(options.release, clock),
      kube: (component) => options.intercept?.(component, kube, clock) ?? kube,
      functions: options.functions,
    },
    {
      cluster: CLUSTER,
      clusterUid: "closed",
      batchingWindowMs: 0,
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "scripted-nodes" }), fleet, ends),
      trace: (line) => syncs.trace(line),
      onChanges: (resource, items) => syncs.changed(resource, items),
    },
  );
  const missed: string[] = [];
  for (const write of writes) {
    await clock.advance(Math.max(0, write.atMs - clock.now()));
    const status = await made(server, write);
    if (status === 404) missed.push(`${write.kind} ${RESOURCES[write.resource].kind} ${write.namespace}/${write.name}`);
    options.onPerson(write, status);
  }
  await clock.advance(Math.max(0, endMs - clock.now()) + (options.tailMs ?? TAIL_MS));
  const objects = await standingIn(server);
  const end = { disagreements: disagreements(recorded, objects), left: [...left, ...missed], podsCreated, objects };
  const stopped = system.stop();
  await clock.advance(TAIL_MS);
  await stopped;
  server.close();
  return end;
}

/**
 * Drops writes of Events. A replay needs none, and the in-memory server would keep them all: a day of Events is larger than all other
 * objects.
 */
function withoutEvents<K extends KubeWriter>(kube: K): K {
  const answered = (namespace: string, name: string): Promise<KubeObject> =>
    Promise.resolve({ metadata: { namespace, name, uid: name, resourceVersion: "1" } });
  return {
    ...kube,
    create: (request) => (request.resource === "events" ? answered(request.namespace, "event") : kube.create(request)),
    patch: (request) => (request.resource === "events" ? answered(request.namespace, request.name) : kube.patch(request)),
  };
}

function placeNamespace(server: ApiServer, name: string): void {
  if (server.peek("namespaces", "", name) === undefined)
    server.place("namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name, uid: `namespace ${name}` } });
}

function pathOf(resource: CachedResource, namespace: string, name?: string): string {
  const { apiVersion, group } = RESOURCES[resource];
  return `/${group === "" ? "api" : "apis"}/${apiVersion}/namespaces/${namespace}/${resource}${name === undefined ? "" : `/${name}`}`;
}

/** @returns the status of the response */
async function made(server: ApiServer, write: UserRequest): Promise<number> {
  const { resource, namespace, name } = write;
  const path = pathOf(resource, namespace, name);
  const headers = { "user-agent": "person", "content-type": "application/json" };
  if (write.kind === "create") {
    const body = exactText(write.object);
    return (await server.request({ method: "POST", path: pathOf(resource, namespace), headers, body })).status;
  }
  if (write.kind === "delete") {
    const body = JSON.stringify({ propagationPolicy: write.propagation });
    return (await server.request({ method: "DELETE", path, headers, body })).status;
  }
  const live = server.peek(resourceId(resource), namespace, name);
  if (live === undefined) return 404;
  return (await server.request({ method: "PUT", path, headers, body: exactText(changed(live, write.object)) })).status;
}

/** Applies the user's fields to the current object, whose revision, owners and status belong to controllers. */
function changed(live: JsonObject, { metadata, spec }: LiveObject): object {
  const own = metaOf(live) as { readonly annotations?: Readonly<Record<string, string>> };
  const controllers = Object.fromEntries(
    Object.entries(own.annotations ?? {}).filter(([key]) => key === "deployment.kubernetes.io/revision"),
  );
  const { labels, annotations } = metadata;
  const isPod = live["kind"] === "Pod";
  return { ...live, metadata: { ...own, labels, annotations: { ...annotations, ...controllers } }, ...(!isPod && { spec }) };
}

async function standingIn(server: ApiServer): Promise<readonly LiveObject[]> {
  const lists = await Promise.all(
    CACHED_RESOURCES.map(async (resource) => {
      const { apiVersion, group, kind } = RESOURCES[resource];
      const answer = await server.request({ method: "GET", path: `/${group === "" ? "api" : "apis"}/${apiVersion}/${resource}` });
      const items = answer.kind === "object" ? ((answer.body["items"] ?? []) as unknown as readonly LiveObject[]) : [];
      return items.map((item) => ({ ...item, kind }));
    }),
  );
  return lists.flat();
}
