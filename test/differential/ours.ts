/** Runs one sync of our controller on a cache that holds exactly the API server's objects, without intents or earlier failures. */
import { kubeOver } from "../../shared/kube/http/kube-http.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES, CONTROLLERS, objectKey, type CachedResource, type Controller } from "../../shared/kube/objects/resources.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import type { Release } from "../../shared/kube/releases.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { prepareChanges } from "../../shared/controllers/cache/prepare.ts";
import { createSession, type SyncHandler } from "../../shared/controllers/kit/sync/session.ts";
import { builtInGateway } from "../support/built-in-gateway.ts";
import { syncDeployment } from "../../shared/controllers/deployment/sync/sync.ts";
import { createInProcessClient } from "../../shared/api-server/in-process-client.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { HOLE_LIMIT_MS } from "../../shared/base/times.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { CORE_CACHE } from "../../shared/controllers/registry/registry.ts";
import { syncReplicaSet } from "../../shared/controllers/replicaset/sync.ts";
import { syncReplicationController } from "../../shared/controllers/replication/sync.ts";
import { silentLog } from "../support/silent-log.ts";
import { Door, type SharedApiServer, type Fault, type State } from "./shared-api-server.ts";
import type { Ending, Sync } from "./outcome.ts";

const EPOCH = "epoch-1";
const FENCE = "1";
const LIST_RV = "0";
const HANDLERS: { readonly [C in Controller]: SyncHandler } = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};
const digester = createDigester("0123456789abcdef0123456789abcdef");
const identity = { projection: 1, digestPrefix: digester.prefix, hashLayout: "v1.36" };

/** The time and version of the cache, and the release whose rules apply. */
interface Situation {
  readonly clock: Clock;
  readonly server: { readonly resourceVersion: string };
  readonly release: Release;
}

/** @param observed the contents of the cache */
export async function syncOurs(
  shared: SharedApiServer,
  {
    controller,
    key,
    observed,
    faults,
  }: { readonly controller: Controller; readonly key: string; readonly observed: State; readonly faults: readonly Fault[] },
): Promise<Sync> {
  const { clock } = shared;
  const store = createMemoryStore({ deployment: "test", cluster: "c1", identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  await fill(store, observed, shared);
  const door = new Door(shared.server, faults);
  const kube = kubeOver(createInProcessClient(door, { component: "ours" }));
  const ports = {
    store: { ...store, correlateEvents: eachByItself },
    reader: kube,
    gateway: builtInGateway(kube, controller, "act" as const),
    doorbells: { ring: async () => {} },
    digester,
    registry: CORE_CACHE,
    clock,
    log: silentLog,
    random: createSeededRandom(Number(shared.server.resourceVersion)),
  };
  const taken = { epoch: EPOCH, controller, key, token: "test" };
  await store.add(EPOCH, controller, key, 0);
  let take = await store.take(taken, {});
  if (take.kind === "moved")
    take = await store.take(taken, { ...(take.uid && { uid: take.uid }), ...(take.owner && { owner: take.owner }) });
  if (take.kind !== "ok") throw new Error(`${key} is ${take.kind}`);
  const session = createSession(ports, { ...taken, snapshot: take.snapshot, release: shared.release, mayWrite: () => true });
  const ending = await endingOf(HANDLERS[controller](session));
  await session.sendEvents();
  return { writes: door.writes, events: door.events, ending };
}

/** Reports each Event separately, because the reference program records Events before upstream's correlator. */
const eachByItself: Store["correlateEvents"] = async (_, happenings) =>
  happenings.map(({ nanos }) => ({ nanos, count: 1, isCombined: false, isHeldBack: false }));

/** An object before and after a change; undefined: it did not exist, or no longer exists. */
export interface Changed {
  readonly resource: CachedResource;
  readonly old: KubeObject | undefined;
  readonly new: KubeObject | undefined;
}

/** Returns the keys that our event handlers queue for each controller when a cache with `before` receives the change. */
export async function keysOfOurs(
  shared: Situation,
  before: State,
  changed: Changed,
): Promise<{ readonly [C in Controller]: readonly string[] }> {
  const { clock, server } = shared;
  const store = createMemoryStore({ deployment: "test", cluster: "c1", identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  const sequences = await fill(store, before, shared);
  const keys = async (controller: Controller): Promise<readonly string[]> => (await store.queued(controller)).map(({ key }) => key);
  for (const controller of CONTROLLERS)
    for (const key of await keys(controller)) {
      const taken = { epoch: EPOCH, controller, key, token: "test" };
      const take = await store.take(taken, {});
      if (take.kind === "moved") await store.take(taken, { ...(take.uid && { uid: take.uid }), ...(take.owner && { owner: take.owner }) });
      await store.done(taken, { kind: "ok" });
    }
  const object = changed.new ?? changed.old;
  if (object === undefined) throw new Error("nothing has changed");
  const { namespace = "", name, uid } = object.metadata;
  // Gives each change a higher version than all versions before.
  const rv = String(Number(server.resourceVersion) + 1);
  const change = {
    type: changed.new ? ("put" as const) : ("delete" as const),
    key: objectKey(namespace, name),
    uid,
    rv,
    object: strip(changed.resource, { ...object, metadata: { ...object.metadata, resourceVersion: rv } }, digester),
  };
  const live = (): Promise<never> => Promise.reject(new Error("unexpected live read: every cached value verifies"));
  const { items, counts } = await prepareChanges(store, CORE_CACHE, changed.resource, [change], { live });
  const sequence = (sequences.get(changed.resource) ?? 0) + 1;
  const pack = { epoch: EPOCH, fence: FENCE, generation: 1, resource: changed.resource, lane: 0, sequence };
  await store.applyPack({ ...pack, kind: "D" }, items, { counts, commit: { watermark: rv } });
  return {
    deployment: await keys("deployment"),
    replicaset: await keys("replicaset"),
    replicationcontroller: await keys("replicationcontroller"),
  };
}

async function endingOf(run: ReturnType<SyncHandler>): Promise<Ending> {
  try {
    const result = await run;
    if (result.kind === "failed") throw result.error;
    return result.kind === "done" ? { kind: "done" } : { kind: "again", afterMs: result.afterMs };
  } catch (error) {
    return { kind: "error", message: error instanceof Error ? error.message : String(error) };
  }
}

async function fill(
  store: Store,
  observed: State,
  { release, server }: Omit<Situation, "clock">,
): Promise<ReadonlyMap<CachedResource, number>> {
  const sequences = new Map<CachedResource, number>();
  await store.openEpoch({ epoch: EPOCH, clusterUid: "c1", fence: FENCE, ...identity, release: release.name });
  for (const resource of CACHED_RESOURCES) {
    await store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: 1 });
    await store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
    const pack = { epoch: EPOCH, fence: FENCE, generation: 1, resource, lane: 0 };
    await store.applyManifest({ ...pack, sequence: 1 }, { listRV: LIST_RV, rows: [], sweep: [], counts: [] });
    let sequence = 1;
    // Applies objects in order of their versions, because the cache would treat an object at or below the watermark as deleted.
    for (const object of observed[resource].toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))) {
      const { namespace = "", name, uid, resourceVersion: rv } = object.metadata;
      const change = { type: "put" as const, key: objectKey(namespace, name), uid, rv, object: strip(resource, object, digester) };
      const { items, counts } = await prepareChanges(store, CORE_CACHE, resource, [change], {
        live: () => Promise.reject(new Error("unexpected live read: every cached value verifies")),
      });
      await store.applyPack({ ...pack, kind: "D", sequence: ++sequence }, items, { counts, commit: { watermark: rv } });
    }
    await store.applyPack({ ...pack, kind: "W", sequence: ++sequence }, [], { counts: [], commit: { watermark: server.resourceVersion } });
    sequences.set(resource, sequence);
  }
  return sequences;
}
