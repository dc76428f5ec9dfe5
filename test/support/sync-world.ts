/**
 * A small world for syncs: the memory Store, a virtual clock, and the in-memory API server, whose answers a test may script. Nothing
 * moves by itself: `stream()` brings what happened in the API server into the cache, `sync()` runs one key.
 */
import { createVirtualClock } from "../../shared/adapters/memory/clock.ts";
import type { VirtualClock } from "../../shared/adapters/memory/clock.ts";
import { createSeededRandom } from "../../shared/adapters/memory/random.ts";
import { createMemoryStore } from "../../shared/adapters/memory/store/store.ts";
import type { Cached } from "../../shared/api/cached.ts";
import { createDigester } from "../../shared/api/digest.ts";
import { CACHED_RESOURCES, objectKey } from "../../shared/api/resources.ts";
import type { CachedResource, Controller } from "../../shared/api/resources.ts";
import { strip } from "../../shared/api/strip.ts";
import { prepareChanges } from "../../shared/cache/prepare.ts";
import type { SyncResult, TraceLine } from "../../shared/controller/run.ts";
import { createSession } from "../../shared/controller/session.ts";
import type { SyncHandler } from "../../shared/controller/session.ts";
import { runKey } from "../../shared/controller/worker.ts";
import type { WorkerPorts } from "../../shared/controller/worker.ts";
import { createWriteGateway } from "../../shared/controller/write-gateway.ts";
import { syncDeployment } from "../../shared/deployment/sync.ts";
import type { Snapshot, Store, Taken } from "../../shared/ports/store.ts";
import { syncReplicaSet } from "../../shared/replicaset/sync.ts";
import { syncReplicationController } from "../../shared/replication/sync.ts";
import { AFFECTED_KEYS } from "../../shared/registry/registry.ts";
import { HOLE_LIMIT_MS } from "../../shared/ports/times.ts";
import type { Change } from "../simulation/mirror.ts";
import { ScriptedApi } from "./scripted-api.ts";
import type { LiveObject } from "./scripted-api.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
const EPOCH = "epoch-1";
const FENCE = "1";
const HANDLERS: { readonly [C in Controller]: SyncHandler } = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};

export interface WorldOptions {
  readonly mode?: "act" | "shadow";
  readonly controller?: Controller;
  /** Default: 10:00 on 1 March 2026. */
  readonly nowMs?: number;
}

export class World {
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
  /** What each verb of the Store was called, in order. */
  readonly storeCalls: string[] = [];
  /** How long an invocation may take; undefined: for ever. */
  invocationMs: number | undefined;
  readonly #sequences = new Map<CachedResource, number>();
  #streamed = 0;
  #takes = 0;
  #watermark = "0";
  readonly #forged: Pick<Change, "resource" | "type" | "object">[] = [];

  private constructor({ mode = "act", controller = "replicaset" }: WorldOptions, clock: VirtualClock, api: ScriptedApi) {
    this.clock = clock;
    this.api = api;
    this.controller = controller;
    const identity = { projection: 1, digestPrefix: this.digester.prefix, hashLayout: "v1.36" };
    this.store = createMemoryStore({ deployment: "test", cluster: "c1", identity, holeLimitMs: HOLE_LIMIT_MS, clock: this.clock });
    const log = (message: string, fields: object = {}): void => void this.logged.push(`${message} ${JSON.stringify(fields)}`);
    this.ports = {
      store: counted(this.store, this.storeCalls),
      reader: this.api,
      gateway: createWriteGateway(this.api, controller, mode),
      doorbells: { ring: async () => {} },
      digester: this.digester,
      registry: AFFECTED_KEYS,
      clock: this.clock,
      log: { debug: () => {}, info: (message) => void this.infos.push(message), warn: log, error: log },
      random: createSeededRandom(1),
      trace: (line) => void this.traced.push(line),
    };
  }

  static async create(options: WorldOptions = {}): Promise<World> {
    const clock = createVirtualClock(options.nowMs ?? NOW_MS);
    const world = new World(options, clock, await ScriptedApi.create({ clock }));
    await world.#open();
    return world;
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

  /** What the stream will tell as the newest although the API server never said it: somebody else wrote into the queue, or into Redis. */
  forge(resource: CachedResource, object: LiveObject): void {
    const resourceVersion = String(Number(this.api.server.resourceVersion) + 1_000);
    this.#forged.push({ resource, type: "MODIFIED", object: { ...object, metadata: { ...object.metadata, resourceVersion } } });
  }

  /** Everything that has happened in the API server since the last time, one message each, and a heartbeat; `hears` leaves out some. */
  async stream(hears: (change: Change) => boolean = () => true): Promise<void> {
    const changes = this.api.changes(this.#streamed);
    this.#streamed += changes.length;
    for (const { resource, type, object } of [...changes.filter(hears), ...this.#forged.splice(0)]) {
      const cached: Cached = strip(resource, object, this.digester);
      const { namespace = "", name, uid, resourceVersion: rv } = object.metadata;
      const { items, counts } = await prepareChanges(
        this.store,
        AFFECTED_KEYS,
        resource,
        [{ type: type === "DELETED" ? "delete" : "put", key: objectKey(namespace, name), uid, rv, object: cached }],
        { live: () => Promise.reject(new Error("what is cached can be believed")) },
      );
      await this.store.applyPack({ ...this.#pack(resource), kind: "D" }, items, { counts, commit: { watermark: rv } });
    }
    this.#watermark = this.api.server.resourceVersion;
    await this.heartbeat();
  }

  /** Every lane says that it is there, and nothing new. */
  async heartbeat(): Promise<void> {
    const commit = { watermark: this.#watermark };
    for (const resource of CACHED_RESOURCES) await this.store.applyPack({ ...this.#pack(resource), kind: "W" }, [], { counts: [], commit });
  }

  /** Queues the key and runs it until it ends; time passes only as far as the run waits. */
  async sync(key = "shop/web"): Promise<void> {
    await this.store.add(EPOCH, this.controller, key, 0);
    await this.ring(key);
  }

  /** As a doorbell does: runs the key if it is queued. */
  async ring(key = "shop/web"): Promise<void> {
    let ended = false;
    const options = this.invocationMs === undefined ? {} : { invocationEndsMs: this.clock.now() + this.invocationMs };
    const run = runKey(
      this.ports,
      this.controller,
      { controller: this.controller, key, epoch: EPOCH, delayMs: 0 },
      HANDLERS[this.controller],
      options,
    ).finally(() => (ended = true));
    for (let turns = 0; !ended; turns++) await this.clock.advance(turns < 100 ? 0 : 100);
    await run;
  }

  /** Runs the handler alone on what the cache holds. @throws what it throws */
  async handle(key = "shop/web"): Promise<SyncResult> {
    const { taken, snapshot } = await this.#take(key);
    const session = createSession(this.ports, { ...taken, snapshot, mayWrite: () => true });
    try {
      return await HANDLERS[this.controller](session);
    } finally {
      await session.sendEvents();
      await this.store.done(taken, { kind: "ok" });
    }
  }

  /** What a run would see now. */
  async snapshot(key = "shop/web"): Promise<Snapshot> {
    const { taken, snapshot } = await this.#take(key);
    await this.store.done(taken, { kind: "ok" });
    return snapshot;
  }

  async #take(key: string): Promise<{ readonly taken: Taken; readonly snapshot: Snapshot }> {
    const taken = { epoch: EPOCH, controller: this.controller, key, token: `test-${++this.#takes}` };
    await this.store.add(EPOCH, this.controller, key, 0);
    let take = await this.store.take(taken, {});
    if (take.kind === "moved")
      take = await this.store.take(taken, { ...(take.uid && { uid: take.uid }), ...(take.owner && { owner: take.owner }) });
    if (take.kind !== "ok") throw new Error(`${key} is ${take.kind}`);
    return { taken, snapshot: take.snapshot };
  }

  /** When the key is queued for, from now; undefined if it is not. */
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
}

function counted(store: Store, calls: string[]): Store {
  return new Proxy(store, {
    get(target, property: keyof Store) {
      const verb = target[property] as (...given: unknown[]) => unknown; // every member of a Store is a verb
      return (...given: unknown[]) => {
        calls.push(property);
        return verb.apply(target, given);
      };
    },
  });
}
