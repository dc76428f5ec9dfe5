/**
 * User controllers from the watch to the sync, on any Store: their registry entries, views and handlers are defined in this file. The
 * built-in controllers are not registered.
 */
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../shared/base/times.ts";
import type { AffectedKeys } from "../../shared/controllers/cache/affected-keys.ts";
import { applyMessage } from "../../shared/controllers/cache/applier.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import { runWatcher } from "../../shared/controllers/cache/watcher/watcher.ts";
import type { KeySync } from "../../shared/controllers/kit/sync/key-sync.ts";
import { inSession } from "../../shared/controllers/kit/sync/in-session.ts";
import type { SyncHandler } from "../../shared/controllers/kit/sync/session.ts";
import { createSyncFunction } from "../../shared/controllers/lambda/sync-function.ts";
import { serving } from "../../shared/controllers/lambda/wiring.ts";
import { cacheOf, type ControllerEntry, type Registry } from "../../shared/controllers/registry/cache-of.ts";
import type { Kube } from "../../shared/kube/client/kube.ts";
import type { CachedObject } from "../../shared/kube/objects/cached.ts";
import { mappedSlice } from "../../shared/kube/objects/owner-id.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import { projected } from "../../shared/kube/strip/project.ts";
import { viewName, type ViewDefinition } from "../../shared/kube/strip/view-definition.ts";
import { RESOURCES, type OwnController, type Resource, type View } from "../../shared/kube/objects/resources.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { soleLeader } from "../../shared/local/assemble-system.ts";
import type { Catalog } from "../../shared/kube/objects/catalog.ts";
import type { Doorbell } from "../../shared/store/ports/doorbells.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import type { StoreOptions } from "../../shared/store/store-options.ts";
import { eventually } from "../support/eventually.ts";
import { silentLog } from "../support/silent-log.ts";
import { testSigner } from "../support/signer.ts";

const CLUSTER = "0123456789ab";
const CANARY = "a value that stays on the API server";

/**
 * A controller that caches the metadata of one resource; also returns the view of its primaries, which Stores list by namespace if
 * `isListed`.
 */
function watching(name: string, resource: Resource, isListed = false): { readonly entry: ControllerEntry; readonly view: ViewDefinition } {
  const controller = name as OwnController; // a name of the registry
  const view = viewName(resource, controller, "k3x9");
  const affectedKeys: AffectedKeys = (delta) => {
    if (delta.resource !== view) return [];
    const found = delta.new ?? delta.old;
    if (found === undefined) return [];
    const { namespace, name: object, uid } = (found as { readonly metadata: Record<"namespace" | "name" | "uid", string> }).metadata;
    return [{ controller, key: `${namespace}/${object}`, uid, urgency: "act", self: true }];
  };
  return {
    entry: { name, primary: view, ...(isListed && { slices: [{ view, by: "namespace" }] }), reads: [view], affectedKeys, contract: [] },
    view: { name: view, resource, isMetadataOnly: true, project: (object, digester) => projected(view, object, digester) },
  };
}

/** Records each ConfigMap that names its Namespace, and the Namespace itself. Each is recorded only once. */
const KEEPER = "keeper" as OwnController; // a name of the registry
const KEPT = viewName("configmaps", KEEPER, "k3x9");
const HOMES = viewName("namespaces", KEEPER, "k3x9");
const keyOf = ({ metadata: { namespace, name } }: CachedObject): string => `${namespace}/${name}`;
const KEEPING: { readonly entry: ControllerEntry; readonly views: readonly ViewDefinition[] } = {
  entry: {
    name: KEEPER,
    primary: HOMES,
    slices: [{ view: KEPT, by: "key" }],
    reads: [HOMES, KEPT],
    contract: [],
    affectedKeys(delta, lookups) {
      const object = (delta.new ?? delta.old) as CachedObject; // both views have these fields
      const home = object.metadata.labels?.["home"];
      const key = delta.resource === HOMES ? keyOf(object) : delta.resource === KEPT && home !== undefined ? `/${home}` : undefined;
      const primary =
        key === undefined ? undefined : delta.resource === HOMES ? object : (lookups.get(HOMES, key) as CachedObject | undefined);
      return key === undefined || primary === undefined
        ? []
        : [{ controller: KEEPER, key, uid: primary.metadata.uid, urgency: "act", self: delta.resource === HOMES }];
    },
  },
  views: [
    { name: HOMES, resource: "namespaces", isMetadataOnly: true, project: (object, digester) => projected(HOMES, object, digester) },
    {
      name: KEPT,
      resource: "configmaps",
      isMetadataOnly: true,
      project: (object, digester) => projected(KEPT, object, digester),
      slice: ({ metadata: { labels } }) => mappedSlice("key", `/${labels?.["home"] ?? ""}`),
    },
  ],
};

const NOTES = watching("web-1", "configmaps");
const OTHERS = watching("web", "configmaps", true);
const TEAMS = watching("team-guard", "namespaces");
const ALL = [NOTES, OTHERS, TEAMS];
const REGISTRY: Registry = {
  controllers: [...ALL.map(({ entry }) => entry), KEEPING.entry],
  resources: RESOURCES,
  views: [...ALL.map(({ view }) => view), ...KEEPING.views],
};

export type MakeStore = (options: StoreOptions & { readonly catalog: Catalog }) => Store;

function scene(make: MakeStore, kube: (component: string) => Kube) {
  const clock: Clock = createSystemClock();
  const random = createSeededRandom(1);
  const digester = createDigester("a key for tests");
  const cache = cacheOf(REGISTRY);
  const signer = testSigner(CLUSTER);
  const store = make({
    deployment: "own",
    cluster: CLUSTER,
    identity: cacheIdentity(digester),
    holeLimitMs: HOLE_LIMIT_MS,
    catalog: cache.catalog,
  });
  const ends = new AbortController();
  const synced: string[] = [];
  const bodies: string[] = [];
  const watches: string[] = [];
  let last: Promise<unknown> = Promise.resolve();

  const handlerOf =
    (name: string): SyncHandler =>
    ({ key, snapshot: { primary } }) => {
      const { labels } = (primary?.object as { readonly metadata?: { readonly labels?: unknown } } | undefined)?.metadata ?? {};
      synced.push(`${name} ${key}: ${primary === undefined ? "gone" : JSON.stringify(labels ?? {})}`);
      return Promise.resolve({ kind: "done" });
    };
  const keep: KeySync = {
    async run(ports, run) {
      const { primary, slices, records } = run.snapshot;
      const rows = slices?.get(KEPT) ?? [];
      const wanted = new Map(rows.map(({ key, uid, rv }) => [key, { uid, sent: "s", content: rv, revertsMs: [1, 2] }]));
      const old = [...(records?.keys() ?? [])].filter((id) => !wanted.has(id));
      synced.push(`keeper ${run.key}: ${JSON.stringify([...(records ?? [])].map(([id, { content }]) => [id, content]).toSorted())}`);
      const isSettled = old.length === 0 && [...wanted].every(([id, record]) => isDeepStrictEqual(records?.get(id), record));
      if (primary === undefined || isSettled) return { result: { kind: "done" } };
      await ports.store.writeThrough(run, {
        ...{ resource: HOMES, items: [], counts: [], lower: [], plan: [], gone: [], ownStatus: false },
        ownerUid: primary.uid,
        records: [...[...wanted].map(([id, record]) => ({ id, record })), ...old.map((id) => ({ id }))],
      });
      return { result: { kind: "again", afterMs: 0 } };
    },
  };
  const doorbells = {
    ring: (bells: readonly Doorbell[]) => {
      for (const bell of bells) last = last.then(() => sync(bell));
      return Promise.resolve();
    },
  };
  const wiring = { clock, random, log: silentLog, digester, ...serving(CLUSTER, kube("sync"), "act", { store, signer, doorbells }) };
  const sync = async ({ controller, key, uid, owner, epoch }: Doorbell): Promise<void> => {
    const handle = createSyncFunction(wiring, REGISTRY, controller, {
      [controller]: controller === KEEPER ? keep : inSession(handlerOf(controller)),
    });
    const body = JSON.stringify({ v: 1, c: CLUSTER, ctl: controller, e: epoch, k: key, u: uid, o: owner });
    const record = { messageId: "m", body, attributes: { SentTimestamp: String(clock.now()), ApproximateReceiveCount: "1" } };
    await handle({ Records: [record] } as never, { getRemainingTimeInMillis: () => 60_000 } as never);
  };
  const reader = kube("applier");
  const applier = {
    cluster: () => ({ signer, store, doorbells, reader }),
    clusters: [CLUSTER],
    registry: cache,
    digester,
    clock,
    log: silentLog,
  };
  const apply = async (id: string, body: string): Promise<void> => {
    for (;;) {
      const verdict = await applyMessage(applier, { id, body });
      if (verdict.kind === "ack" || ends.signal.aborted) return;
      await clock.after(100, ends.signal).catch(() => undefined);
    }
  };
  const queue = {
    send: (entries: readonly { readonly id: string; readonly body: string }[]) => {
      for (const { id, body } of entries) {
        bodies.push(body);
        last = last.then(() => apply(id, body));
      }
      return Promise.resolve({ failed: [] });
    },
  };
  const watch = kube("watcher");
  const counted: Kube = {
    ...watch,
    watch: (resource, query, signal) => {
      watches.push(`${resource}${query.metadataOnly ? ", metadata only" : ""}`);
      return watch.watch(resource, query, signal);
    },
  };
  const running = runWatcher(
    {
      ...{ kube: counted, store, queue, doorbells, clock, random, digester, signer, log: silentLog, registry: cache },
      lead: () => Promise.resolve(soleLeader()),
    },
    { cluster: CLUSTER, clusterUid: "uid", identity: cacheIdentity(digester), holeRelistMs: HOLE_RELIST_MS },
    ends.signal,
  );
  return {
    store,
    ring: (bell: Doorbell) => doorbells.ring([bell]),
    synced,
    bodies,
    watches,
    async stop() {
      ends.abort();
      await running;
      await last;
      await store.close();
    },
  };
}

interface Api {
  /** The API client of one component. */
  readonly kube: (component: string) => Kube;
  stop(): Promise<unknown>;
}

function embedded(): Promise<Api> {
  const server = createApiServer({ clock: createSystemClock(), random: createSeededRandom(2) });
  return Promise.resolve({ kube: (component) => createInProcessKube(server, { component }), stop: () => Promise.resolve() });
}

/** Changes of a ConfigMap reach two controllers, and those of a Namespace a third one. `connect` starts an API server. */
export function ownViewsConformance(where: string, make: MakeStore, connect = embedded): void {
  describe(`user controllers, ${where}`, () => {
    let s: ReturnType<typeof scene>;
    let user: Kube;
    let api: Api;
    beforeAll(async () => {
      api = await connect();
      user = api.kube("user");
      s = scene(make, api.kube);
    });
    afterAll(async () => {
      await s.stop();
      await api.stop();
    });

    const reached = (line: string): Promise<unknown> => eventually(line, () => s.synced.includes(line));
    const note = (labels: Readonly<Record<string, string>>) => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { namespace: "default", name: "note", labels },
      data: { key: CANARY },
    });

    it("are notified of a created, changed and deleted object of their views", async () => {
      const to = { resource: "configmaps", namespace: "default" } as const;
      const created = await user.create({ ...to, body: note({ at: "first" }), fieldManager: "user" });
      await reached('web-1 default/note: {"at":"first"}');
      await reached('web default/note: {"at":"first"}');
      await user.patch({
        ...to,
        name: "note",
        type: "application/merge-patch+json",
        body: { metadata: { labels: { at: "second" } } },
        fieldManager: "user",
      });
      await reached('web-1 default/note: {"at":"second"}');
      await user.delete({ ...to, name: "note", preconditions: { uid: created.metadata.uid } });
      await reached("web-1 default/note: gone");
      await reached("web default/note: gone");
      expect(await s.store.quarantined()).toEqual([]);
    });

    it("are notified of a cluster-scoped object under a key without a namespace", async () => {
      await eventually("the Namespace", () => s.synced.some((line) => line.startsWith("team-guard /kube-system: {")));
    });

    it("have their own gate, rows and lane, while each resource has only one watch", async () => {
      for (const { entry, view } of ALL) {
        expect(await s.store.gate(entry.name as OwnController)).toEqual({ open: true });
        expect((await s.store.readLane(view.name, 0)).forged).toEqual([]);
      }
      expect((await s.store.readLane(TEAMS.view.name, 0)).rows.map(({ key }) => key)).toContain("/kube-system");
      expect([...s.watches].sort()).toEqual(["configmaps, metadata only", "namespaces, metadata only"]);
    });

    it("have last-write records that are read with the slices of a key, and deleted with their primary", async () => {
      const to = { resource: "configmaps", namespace: "default" } as const;
      const home = await user.create({
        ...{ resource: "namespaces", namespace: "", fieldManager: "user" },
        body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "home" } },
      });
      const make = async (name: string) =>
        await user.create({
          ...to,
          fieldManager: "user",
          body: { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "default", name, labels: { home: "home" } } },
        });
      const [a, b] = [await make("a"), await make("b")];
      const settled = (objects: readonly KubeObject[]) =>
        reached(
          `keeper /home: ${JSON.stringify(objects.map(({ metadata: { name, resourceVersion } }) => [`default/${name}`, resourceVersion]))}`,
        );
      await settled([a, b]);
      await user.delete({ ...to, name: "a", preconditions: { uid: a.metadata.uid } });
      await settled([b]);
      const {
        record: { epoch },
      } = (await s.store.lineage()).current ?? expect.fail("no epoch");
      const run = { epoch, controller: KEEPER, key: "/home", token: "another run" };
      const written = await s.store.writeThrough(run, {
        ...{ resource: HOMES, items: [], counts: [], lower: [], plan: [], gone: [], ownStatus: false },
        ownerUid: "the uid of an earlier primary",
        records: [{ id: "default/late", record: { uid: "u", sent: "s", content: "c", revertsMs: [] } }],
      });
      expect(written.kind).toBe("ok");
      s.synced.splice(0);
      await s.store.add(epoch, KEEPER, "/home", 0).then((bell) => (bell ? s.ring(bell) : undefined));
      await settled([b]);
      expect(home.metadata.uid).not.toBe("");
    });

    it("have primaries that a look-up by namespace refuses, unless a slice is by namespace or cluster", async () => {
      const lookUp = (resource: View) => s.store.readIndex({ primaries: [{ resource, namespace: "default" }] });
      await expect(lookUp(HOMES)).rejects.toThrow(
        `the primaries of keeper (Namespace, view ${HOMES}) are not listed by namespace: it has no slice by namespace or cluster`,
      );
      await expect(lookUp(KEPT)).rejects.toThrow(`${KEPT} is not the primary resource of any controller`);
      await eventually("the listed ConfigMap", async () => {
        const { primaries } = await s.store.readIndex({ primaries: [{ resource: OTHERS.view.name, namespace: "default" }] });
        return primaries[0]?.rows.some(({ key }) => key === "default/b") === true;
      });
    });

    it("receive no message with the values of a ConfigMap", () => {
      expect(s.bodies.join("\n")).toContain(NOTES.view.name);
      expect(s.bodies.join("\n")).not.toContain(CANARY);
    });
  });
}
