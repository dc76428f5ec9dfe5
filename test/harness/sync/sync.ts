/**
 * One controller's sync in virtual time: the memory Store and the in-memory API server, whose responses a test may script. Nothing runs
 * by itself: `stream()` brings the API server's changes into the cache, `sync()` runs one key.
 */
import { createVirtualClock, type VirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import type { Cached } from "../../../shared/kube/objects/cached.ts";
import { ALL_RELEASES, releaseOf } from "../../../shared/kube/releases.ts";
import type { Release } from "../../../shared/kube/releases.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES, objectKey, RESOURCES, type CachedResource, type Controller } from "../../../shared/kube/objects/resources.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { prepareChanges } from "../../../shared/controllers/cache/prepare.ts";
import type { SyncResult, TraceLine } from "../../../shared/controllers/kit/run.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import { createSession } from "../../../shared/controllers/kit/sync/session.ts";
import { runKey, type WorkerPorts } from "../../../shared/controllers/kit/sync/worker.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import type { Snapshot, Store, Taken } from "../../../shared/store/ports/store.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import type { Change } from "../../simulation/mirror.ts";
import { ScriptedApi, type Call, type Json, type LiveObject } from "../../support/scripted-api.ts";
import { HANDLERS, observedStore, withMarks } from "./observed.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
const EPOCH = "epoch-1";
const FENCE = "1";

/** An object as a test or a capture states it. */
export interface Live extends KubeObject {
  readonly spec?: Json;
  readonly status?: Json;
}

export interface SyncHarnessOptions {
  readonly mode?: "act" | "shadow";
  readonly controller?: Controller;
  /** Owners have no mark yet, so the first creates and deletes for each are decided on a live list. Default: all owners are marked. */
  readonly unmarked?: boolean;
  /** The start time in ms. Default: 10:00 on 1 March 2026. */
  readonly nowMs?: number;
}

export class SyncHarness {
  readonly clock: VirtualClock;
  readonly api: ScriptedApi;
  readonly store: Store;
  /** Warnings and errors. */
  readonly logged: string[] = [];
  readonly infos: string[] = [];
  readonly traced: TraceLine[] = [];
  readonly controller: Controller;
  readonly ports: WorkerPorts;
  readonly digester = createDigester("0123456789abcdef0123456789abcdef");
  /** The calls of the Store, in order. */
  readonly storeCalls: string[] = [];
  /** Maximum duration of an invocation in ms; undefined: unlimited. */
  invocationMs: number | undefined;
  readonly #sequences = new Map<CachedResource, number>();
  #streamed = 0;
  #takes = 0;
  #beats = 0;
  #watermark = "0";
  /** The server's uids, by the uid that a test has given. */
  readonly #uids = new Map<string, string>();
  #spoken = 0;
  readonly #forged: Pick<Change, "resource" | "type" | "object">[] = [];

  private constructor(
    { mode = "act", controller = "replicaset", unmarked = false }: SyncHarnessOptions,
    clock: VirtualClock,
    api: ScriptedApi,
  ) {
    this.clock = clock;
    this.api = api;
    this.controller = controller;
    const identity = { projection: 1, digestPrefix: this.digester.prefix, hashLayout: "v1.36" };
    const store = createMemoryStore({ deployment: "test", cluster: "c1", identity, holeLimitMs: HOLE_LIMIT_MS, clock: this.clock });
    this.store = unmarked ? store : withMarks(store);
    const log = (message: string, fields: object = {}): void => void this.logged.push(`${message} ${JSON.stringify(fields)}`);
    this.ports = {
      store: observedStore(this.store, { verb: (verb) => void this.storeCalls.push(verb) }),
      reader: this.api,
      gateway: builtInGateway(this.api, controller, mode),
      doorbells: { ring: async () => {} },
      digester: this.digester,
      registry: CORE_CACHE,
      clock: this.clock,
      log: { debug: () => {}, info: (message) => void this.infos.push(message), warn: log, error: log },
      random: createSeededRandom(1),
      trace: (line) => void this.traced.push(line),
    };
  }

  static async create(options: SyncHarnessOptions = {}): Promise<SyncHarness> {
    const clock = createVirtualClock(options.nowMs ?? NOW_MS);
    const harness = new SyncHarness(options, clock, await ScriptedApi.create({ clock }));
    await harness.#open();
    return harness;
  }

  /** Returns a harness of the Deployment controller. Creates `objects`, owners first, and caches them. */
  static async of(objects: readonly Live[], options: SyncHarnessOptions = {}): Promise<SyncHarness> {
    const harness = await SyncHarness.create({ controller: "deployment", ...options });
    for (const object of objects) await harness.put(object);
    await harness.stream();
    return harness;
  }

  async #open(): Promise<void> {
    const identity = { projection: 1, digestPrefix: this.digester.prefix, hashLayout: "v1.36" };
    await this.store.openEpoch({ epoch: EPOCH, clusterUid: "c1", fence: FENCE, ...identity });
    for (const resource of CACHED_RESOURCES) {
      await this.store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: 1 });
      await this.store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
      await this.store.applyManifest(this.#pack(resource), { listRV: "0", rows: [], sweep: [], counts: [] });
    }
  }

  #pack(resource: CachedResource): Omit<Parameters<Store["applyPack"]>[0], "kind"> {
    const sequence = (this.#sequences.get(resource) ?? 0) + 1;
    this.#sequences.set(resource, sequence);
    return { epoch: EPOCH, fence: FENCE, generation: 1, resource, lane: 0, sequence };
  }

  /**
   * Makes the stream deliver a newest version that the API server never had, as when another client writes into the queue or into Redis.
   */
  forge(resource: CachedResource, object: LiveObject): void {
    const resourceVersion = String(Number(this.api.server.resourceVersion) + 1_000);
    this.#forged.push({ resource, type: "MODIFIED", object: { ...object, metadata: { ...object.metadata, resourceVersion } } });
  }

  /** Delivers the API server's changes since the last call, one message each, and a heartbeat; `hears` filters them. */
  async stream(hears: (change: Change) => boolean = () => true): Promise<void> {
    const changes = this.api.changes(this.#streamed);
    this.#streamed += changes.length;
    for (const { resource, type, object } of [...changes.filter(hears), ...this.#forged.splice(0)]) {
      const cached: Cached = strip(resource, object, this.digester);
      const { namespace = "", name, uid, resourceVersion: rv } = object.metadata;
      const { items, counts } = await prepareChanges(
        this.store,
        CORE_CACHE,
        resource,
        [{ type: type === "DELETED" ? "delete" : "put", key: objectKey(namespace, name), uid, rv, object: cached }],
        { live: () => Promise.reject(new Error("unexpected live read: every cached value verifies")) },
      );
      await this.store.applyPack({ ...this.#pack(resource), kind: "D" }, items, { counts, commit: { watermark: rv } });
    }
    this.#watermark = this.api.server.resourceVersion;
    await this.heartbeat();
  }

  /** Delivers a heartbeat on every lane, without changes. */
  async heartbeat(): Promise<void> {
    const commit = { watermark: this.#watermark };
    for (const resource of CACHED_RESOURCES) await this.store.applyPack({ ...this.#pack(resource), kind: "W" }, [], { counts: [], commit });
  }

  /** Publishes a release as the watcher does after an upgrade. */
  async publish(release: string): Promise<void> {
    const [beat, answered] = [++this.#beats, this.#beats - 1];
    await this.store.checkpoint({ epoch: EPOCH, fence: FENCE, sent: {}, beat, answered, release });
  }

  /** Queues the key and runs it until it ends; time advances only while the run waits. */
  async sync(key = "shop/web"): Promise<void> {
    await this.store.add(EPOCH, this.controller, key, 0);
    await this.ring(key);
  }

  /** Runs the key if it is queued, as a doorbell does. */
  async ring(key = "shop/web"): Promise<void> {
    let ended = false;
    const options = this.invocationMs === undefined ? {} : { invocationEndsMs: this.clock.now() + this.invocationMs };
    const run = runKey(
      this.ports,
      this.controller,
      { controller: this.controller, key, epoch: EPOCH, delayMs: 0 },
      inSession(HANDLERS[this.controller]),
      options,
    ).finally(() => (ended = true));
    for (let turns = 0; !ended; turns++) await this.clock.advance(turns < 100 ? 0 : 100);
    await run;
  }

  /** Runs only the handler on the cached state. @throws the handler's error */
  async handle(key = "shop/web"): Promise<SyncResult> {
    const { taken, snapshot, release } = await this.#take(key);
    const session = createSession(this.ports, { ...taken, snapshot, mayWrite: () => true, ...(release && { release }) });
    try {
      return await HANDLERS[this.controller](session);
    } finally {
      await session.sendEvents();
      await this.store.done(taken, { kind: "ok" });
    }
  }

  /** The current snapshot of the key, as a run reads it. */
  async snapshot(key = "shop/web"): Promise<Snapshot> {
    const { taken, snapshot } = await this.#take(key);
    await this.store.done(taken, { kind: "ok" });
    return snapshot;
  }

  async #take(key: string): Promise<{ readonly taken: Taken; readonly snapshot: Snapshot; readonly release: Release | undefined }> {
    const taken = { epoch: EPOCH, controller: this.controller, key, token: `test-${++this.#takes}` };
    await this.store.add(EPOCH, this.controller, key, 0);
    let take = await this.store.take(taken, {});
    if (take.kind === "moved")
      take = await this.store.take(taken, { ...(take.uid && { uid: take.uid }), ...(take.owner && { owner: take.owner }) });
    if (take.kind !== "ok") throw new Error(`${key} is ${take.kind}`);
    return { taken, snapshot: take.snapshot, release: releaseOf(take.release ?? "", ALL_RELEASES) };
  }

  /** The delay until the key is due; undefined if it is not queued. */
  async queuedInMs(key = "shop/web"): Promise<number | undefined> {
    const entry = (await this.store.queued(this.controller)).find((each) => each.key === key);
    return entry?.readyAtMs === undefined ? undefined : Math.max(0, entry.readyAtMs - this.clock.now());
  }

  async failures(key = "shop/web"): Promise<number> {
    return (await this.store.queued(this.controller)).find((each) => each.key === key)?.failures ?? 0;
  }

  get pods(): readonly LiveObject[] {
    return this.api.all("pods");
  }

  /** Creates an object with its status. The server assigns another uid, see `uid`. */
  async put({ kind, metadata, spec, status }: Live): Promise<void> {
    const { uid, resourceVersion: _version, namespace: _namespace, deletionTimestamp, ownerReferences, ...rest } = metadata;
    const put = await this.api.put(resourceOf(kind), {
      metadata: {
        ...rest,
        ...(ownerReferences && { ownerReferences: ownerReferences.map((each) => ({ ...each, uid: this.uid(each.uid) })) }),
      },
      ...(spec && { spec }),
      ...(status && { status }),
      deleting: deletionTimestamp !== undefined,
    });
    this.#uids.set(uid, put.metadata.uid);
  }

  /** The server's uid for the uid that a test has given. */
  uid(given: string): string {
    return this.#uids.get(given) ?? given;
  }

  /** Returns the object with its owners' uids replaced by those that the test has given. */
  given<T extends KubeObject>(object: T): T {
    const { ownerReferences, ...metadata } = object.metadata;
    if (ownerReferences === undefined) return object;
    const names = new Map([...this.#uids].map(([given, uid]) => [uid, given]));
    return {
      ...object,
      metadata: { ...metadata, ownerReferences: ownerReferences.map((each) => ({ ...each, uid: names.get(each.uid) ?? each.uid })) },
    };
  }

  /** Changes an object as another client does. */
  async change(resource: CachedResource, name: string, change: (object: LiveObject) => Live): Promise<void> {
    await this.api.change(resource, name, (object) => {
      const { metadata, spec, status } = change(object);
      return {
        ...(metadata !== object.metadata && { metadata }),
        ...(spec !== object.spec && spec && { spec }),
        ...(status !== object.status && status && { status }),
      };
    });
  }

  live(resource: CachedResource, name: string): LiveObject {
    return this.api.find(resource, name);
  }

  names(resource: CachedResource): readonly string[] {
    return this.api.all(resource).map(({ metadata }) => metadata.name);
  }

  /** ReplicaSets with their sizes. */
  sizes(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.api.all("replicasets").map(({ metadata, spec }) => [metadata.name, spec?.["replicas"]]));
  }

  get requests(): readonly Call[] {
    return this.api.calls.filter(({ resource }) => resource !== "events");
  }

  /** Events sent, as `ScalingReplicaSet: Scaled up …`. */
  get events(): readonly string[] {
    return this.api.events.map((event) => event.replace(/^(?:Normal|Warning) (\w+) /, "$1: "));
  }

  /** Requests since the last call, as `patch replicasets web-1`, without Events. */
  spoken(): readonly string[] {
    const requests = this.requests.slice(this.#spoken);
    this.#spoken += requests.length;
    return requests.map(({ verb, resource, name, subresource }) =>
      `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`} ${name}`.trimEnd(),
    );
  }

  written(): readonly string[] {
    return this.spoken().filter((line) => !line.startsWith("get ") && !line.startsWith("list "));
  }

  /** Sets every ReplicaSet's status as if it had all its pods; `available` may return fewer. */
  async settle(available: (rs: LiveObject) => number = (rs) => Number(rs.spec?.["replicas"] ?? 0)): Promise<void> {
    for (const rs of this.api.all("replicasets")) {
      const count = available(rs);
      const status = {
        replicas: Number(rs.spec?.["replicas"] ?? 0),
        readyReplicas: count,
        availableReplicas: count,
        terminatingReplicas: 0,
        observedGeneration: rs.metadata.generation ?? 1,
      };
      await this.api.change("replicasets", rs.metadata.name, () => ({ status }));
    }
    await this.stream();
  }

  /** Caches a spec that differs from the server's: one that it would reject, or that was never written. */
  async forgeSpec(resource: CachedResource, name: string, spec: Json): Promise<void> {
    const live = this.live(resource, name);
    this.forge(resource, { ...live, spec: { ...live.spec, ...spec } });
    await this.stream();
  }
}

function resourceOf(kind: string | undefined): CachedResource {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === kind) ?? "pods";
}
