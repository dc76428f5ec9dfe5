/** Runs one sync of deltaloop's controllers on a recorded state, with an API server and a cache that contain this state. */
import { createVirtualClock, createSeededRandom } from "@deltaloop/base/memory";
import { createMemoryStore } from "@deltaloop/store/memory";
import type { ReleaseAt } from "@deltaloop/kube/releases";
import type { Digester } from "@deltaloop/kube/pod-template";
import { metaOf, HOLE_LIMIT_MS } from "@deltaloop/base";
import type { JsonObject, Log } from "@deltaloop/base";
import { CACHED_RESOURCES, objectKey, resourceId } from "@deltaloop/kube/objects";
import type { CachedResource, Controller, KubeObject } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import { cacheIdentity, prepareChanges } from "@deltaloop/controllers/cache";
import { createSession, createWriteGateway } from "@deltaloop/controllers/kit";
import type { SyncHandler } from "@deltaloop/controllers/kit";
import { createApiServer, createInProcessKube } from "@deltaloop/api-server";
import type { ApiServer } from "@deltaloop/api-server";
import type { VirtualClock } from "@deltaloop/base/memory";
import { KubeApiError } from "@deltaloop/kube/client";
import type { KubeReader, KubeWriter, Target } from "@deltaloop/kube/client";
import type { Snapshot, Store, Taken } from "@deltaloop/store/ports";
import { CORE_CACHE, gatewayContractOf, REGISTRY } from "@deltaloop/controllers/registry";
import { resourceOf } from "./states.ts";
import type { LiveObject } from "./states.ts";

export interface SyncPlace {
  /** The controllers' sync handlers, injected by the caller; a controller without one is not compared. */
  readonly handlers: { readonly [C in Controller]?: SyncHandler };
  readonly digester: Digester;
  /** The cluster's release at each time. Default: OWN_RELEASE. */
  readonly release?: ReleaseAt;
}

export interface Situation {
  readonly controller: Controller;
  readonly owner: LiveObject;
  readonly nowMs: number;
  /** The message with which the API server rejects pods. */
  readonly failure: string | undefined;
}

/** A write of a sync, without Events. */
export interface OwnWrite {
  readonly verb: "create" | "patch" | "delete";
  readonly resource: CachedResource;
  readonly subresource: string;
  readonly name: string;
  /** The stored object; undefined if the write was rejected, deleted the object, or changed nothing. */
  readonly stored: LiveObject | undefined;
}

const CLUSTER = "shadow000000";
const [EPOCH, FENCE] = ["shadow", "1"] as const;
const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const STEP_MS = 100;

/** Returns the writes of one sync; if the sync fails, the writes before the failure. */
export async function syncOnce(
  state: readonly LiveObject[],
  { controller, owner, nowMs, failure }: Situation,
  { handlers, digester, release }: SyncPlace,
): Promise<readonly OwnWrite[]> {
  const clock = createVirtualClock(nowMs);
  const server = createApiServer({ clock, random: createSeededRandom(1), garbageCollection: false });
  for (const namespace of new Set(state.map(({ metadata }) => metadata.namespace)))
    server.place("namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace, uid: `namespace ${namespace}` } });
  const placed = state.map((object) => {
    const resource = resourceOf(object);
    return { resource, object: server.place(resourceId(resource), object as unknown as JsonObject) as unknown as LiveObject }; // API objects are JSON
  });
  const identity = cacheIdentity(digester);
  const store = createMemoryStore({ deployment: "shadow", cluster: CLUSTER, identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  await store.openEpoch({ epoch: EPOCH, clusterUid: "shadow", fence: FENCE, ...identity });
  for (const resource of CACHED_RESOURCES) {
    const objects = placed.filter((each) => each.resource === resource).map(({ object }) => object);
    await fill(store, resource, objects, { digester, watermark: server.resourceVersion });
  }
  const writes: OwnWrite[] = [];
  const recorder = recording(server, failure, writes);
  const ports = {
    store,
    reader: recorder,
    gateway: createWriteGateway(recorder, controller, "act", gatewayContractOf(REGISTRY, controller)),
    doorbells: { ring: () => Promise.resolve() },
    digester,
    registry: CORE_CACHE,
    clock,
    log: SILENT,
  };
  const key = objectKey(owner.metadata.namespace, owner.metadata.name);
  const handler = handlers[controller];
  if (handler === undefined) throw new Error(`no sync handler for the ${controller} controller`);
  const { taken, snapshot } = await take(store, controller, key);
  const session = createSession(ports, { ...taken, snapshot, mayWrite: () => true, ...(release && { release: release(nowMs) }) });
  await ended(
    handler(session).catch(() => undefined),
    clock,
  );
  server.close();
  return writes;
}

/** Resolves when the run has ended. Advances the clock only while the run waits for it. */
async function ended(run: Promise<unknown>, clock: VirtualClock): Promise<void> {
  let isOver = false;
  const over = run.finally(() => (isOver = true));
  for (let turns = 0; !isOver; turns++) await clock.advance(turns < STEP_MS ? 0 : STEP_MS);
  await over;
}

async function fill(
  store: Store,
  resource: CachedResource,
  objects: readonly LiveObject[],
  { digester, watermark }: { readonly digester: Digester; readonly watermark: string },
): Promise<void> {
  await store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: 1 });
  await store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
  const at = { epoch: EPOCH, fence: FENCE, generation: 1, resource, lane: 0 };
  await store.applyManifest({ ...at, sequence: 1 }, { listRV: "0", rows: [], sweep: [], counts: [] });
  const changes = objects.map((object) => {
    const { namespace, name, uid, resourceVersion: rv } = object.metadata;
    return { type: "put" as const, key: objectKey(namespace, name), uid, rv, object: strip(resource, object, digester) };
  });
  const { items, counts } = await prepareChanges(store, CORE_CACHE, resource, changes, {
    live: () => Promise.reject(new Error("unexpected live read of a cached object")),
  });
  await store.applyPack({ ...at, sequence: 2, kind: "D" }, items, { counts, commit: { watermark } });
}

async function take(store: Store, controller: Controller, key: string): Promise<{ readonly taken: Taken; readonly snapshot: Snapshot }> {
  const taken = { epoch: EPOCH, controller, key, token: "shadow" };
  await store.add(EPOCH, controller, key, 0);
  let answer = await store.take(taken, {});
  if (answer.kind === "moved")
    answer = await store.take(taken, { ...(answer.uid && { uid: answer.uid }), ...(answer.owner && { owner: answer.owner }) });
  if (answer.kind !== "ok") throw new Error(`unexpected result of taking ${key}: ${answer.kind}`);
  return { taken, snapshot: answer.snapshot };
}

/** Records each write; a write that was rejected or had no effect has no stored object. */
function recording(server: ApiServer, failure: string | undefined, writes: OwnWrite[]): KubeReader & KubeWriter {
  const kube = createInProcessKube(server, { component: "shadow" });
  const note = (verb: OwnWrite["verb"], { resource, subresource = "" }: Target & { readonly subresource?: string }, name: string): Note => {
    const own = CACHED_RESOURCES.find((each) => each === resource);
    return (stored) =>
      void (own !== undefined && writes.push({ verb, resource: own, subresource, name, stored: stored as LiveObject | undefined })); // the in-memory server returns this type
  };
  return {
    ...kube,
    async create(request) {
      const noted = note("create", { ...request, name: "" }, (request.body as KubeObject).metadata.name); // create requests contain a name
      if (request.resource === "pods" && failure !== undefined) {
        noted(undefined);
        throw new KubeApiError({ code: 403, reason: "Forbidden", message: failure });
      }
      const stored = await kube.create(request);
      noted(stored);
      return stored;
    },
    async patch(request) {
      const before = server.peek(resourceId(request.resource), request.namespace, request.name);
      const stored = await kube.patch(request);
      note(
        "patch",
        request,
        request.name,
      )(stored.metadata.resourceVersion === metaOf(before ?? {})["resourceVersion"] ? undefined : stored);
      return stored;
    },
    async delete(request) {
      note("delete", request, request.name)(undefined);
      return await kube.delete(request);
    },
  };
}

type Note = (stored: KubeObject | undefined) => void;
