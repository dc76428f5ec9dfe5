/**
 * Additional controllers from the watch to the sync, on any Store: their registry entries, views and handlers are data of this file. The
 * built-in controllers are not registered.
 */
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
import type { SyncHandler } from "../../shared/controllers/kit/sync/session.ts";
import { createSyncFunction } from "../../shared/controllers/lambda/sync-function.ts";
import { serving } from "../../shared/controllers/lambda/wiring.ts";
import { cacheOf, type ControllerEntry, type Registry } from "../../shared/controllers/registry/registry.ts";
import type { Kube } from "../../shared/kube/client/kube.ts";
import { projected } from "../../shared/kube/strip/project.ts";
import { viewName, type ViewDefinition } from "../../shared/kube/strip/view-definition.ts";
import { RESOURCES, type OwnController, type Resource } from "../../shared/kube/objects/resources.ts";
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

/** A controller that caches metadata of one resource, with the view of its primaries. */
function watching(name: string, resource: Resource): { readonly entry: ControllerEntry; readonly view: ViewDefinition } {
  const controller = name as OwnController; // a registry names it
  const view = viewName(resource, controller, "k3x9");
  const affectedKeys: AffectedKeys = (delta) => {
    if (delta.resource !== view) return [];
    const found = delta.new ?? delta.old;
    if (found === undefined) return [];
    const { namespace, name: object, uid } = (found as { readonly metadata: Record<"namespace" | "name" | "uid", string> }).metadata;
    return [{ controller, key: `${namespace}/${object}`, uid, urgency: "act", self: true }];
  };
  return {
    entry: { name, primary: view, reads: [view], affectedKeys, contract: [] },
    view: { name: view, resource, isMetadataOnly: true, project: (object, digester) => projected(view, object, digester) },
  };
}

const NOTES = watching("web-1", "configmaps");
const OTHERS = watching("web", "configmaps");
const TEAMS = watching("team-guard", "namespaces");
const ALL = [NOTES, OTHERS, TEAMS];
const REGISTRY: Registry = { controllers: ALL.map(({ entry }) => entry), resources: RESOURCES, views: ALL.map(({ view }) => view) };

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
  const doorbells = {
    ring: (bells: readonly Doorbell[]) => {
      for (const bell of bells) last = last.then(() => sync(bell));
      return Promise.resolve();
    },
  };
  const wiring = { clock, random, log: silentLog, digester, ...serving(CLUSTER, kube("sync"), "act", { store, signer, doorbells }) };
  const sync = async ({ controller, key, uid, owner, epoch }: Doorbell): Promise<void> => {
    const handle = createSyncFunction(wiring, REGISTRY, controller, { [controller]: { sync: handlerOf(controller) } });
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
  /** The client of one component. */
  readonly kube: (component: string) => Kube;
  stop(): Promise<unknown>;
}

function embedded(): Promise<Api> {
  const server = createApiServer({ clock: createSystemClock(), random: createSeededRandom(2) });
  return Promise.resolve({ kube: (component) => createInProcessKube(server, { component }), stop: () => Promise.resolve() });
}

/** The changes of a ConfigMap reach two controllers, and those of a Namespace a third. `connect` starts an API server. */
export function ownViewsConformance(where: string, make: MakeStore, connect = embedded): void {
  describe(`additional controllers, ${where}`, () => {
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

    it("receive no message with the values of a ConfigMap", () => {
      expect(s.bodies.join("\n")).toContain(NOTES.view.name);
      expect(s.bodies.join("\n")).not.toContain(CANARY);
    });
  });
}
