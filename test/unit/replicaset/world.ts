/**
 * A small world for syncs: the memory Store, a virtual clock, and an API server of maps whose answers a test may script. Nothing
 * moves by itself: `stream()` brings what happened in the API server into the cache, `sync()` runs one key.
 */
import { createVirtualClock } from "../../../shared/adapters/memory/clock.ts";
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import { createMemoryStore } from "../../../shared/adapters/memory/store/store.ts";
import type { Cached } from "../../../shared/api/cached.ts";
import { createDigester } from "../../../shared/api/digest.ts";
import { CACHED_RESOURCES, objectKey } from "../../../shared/api/resources.ts";
import type { CachedResource, Controller } from "../../../shared/api/resources.ts";
import { strip } from "../../../shared/api/strip.ts";
import type { AffectedKeys } from "../../../shared/cache/affected-keys.ts";
import { prepareChanges } from "../../../shared/cache/prepare.ts";
import type { TraceLine } from "../../../shared/controller/run.ts";
import type { SyncHandler } from "../../../shared/controller/session.ts";
import { runKey } from "../../../shared/controller/worker.ts";
import type { WorkerPorts } from "../../../shared/controller/worker.ts";
import { createWriteGateway } from "../../../shared/controller/write-gateway.ts";
import type { Store } from "../../../shared/ports/store.ts";
import { replicaSetAffectedKeys } from "../../../shared/replicaset/affected-keys.ts";
import { syncReplicaSet } from "../../../shared/replicaset/sync.ts";
import { replicationControllerAffectedKeys } from "../../../shared/replication/conversion.ts";
import { syncReplicationController } from "../../../shared/replication/sync.ts";
import { FakeApi } from "./fake-api.ts";
import type { FakeObject } from "./fake-api.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
const EPOCH = "epoch-1";
const FENCE = "1";
const REGISTRY: readonly AffectedKeys[] = [replicaSetAffectedKeys, replicationControllerAffectedKeys];
const HANDLERS: Readonly<Record<string, SyncHandler>> = { replicaset: syncReplicaSet, replicationcontroller: syncReplicationController };

export interface WorldOptions {
  readonly mode?: "act" | "shadow";
  readonly controller?: Controller;
}

export class World {
  readonly clock = createVirtualClock(NOW_MS);
  readonly api = new FakeApi(this.clock);
  readonly store: Store;
  readonly logged: string[] = [];
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

  private constructor({ mode = "act", controller = "replicaset" }: WorldOptions) {
    this.controller = controller;
    const identity = { projection: 1, digestPrefix: this.digester.prefix, hashLayout: "v1.36" };
    this.store = createMemoryStore({ deployment: "test", cluster: "c1", identity, holeLimitMs: 2_000, clock: this.clock });
    const log = (message: string, fields: object = {}): void => void this.logged.push(`${message} ${JSON.stringify(fields)}`);
    this.ports = {
      store: counted(this.store, this.storeCalls),
      reader: this.api,
      gateway: createWriteGateway(this.api, controller, mode),
      doorbells: { ring: async () => {} },
      digester: this.digester,
      registry: REGISTRY,
      clock: this.clock,
      log: { debug: () => {}, info: () => {}, warn: log, error: log },
      random: createSeededRandom(1),
      trace: (line) => void this.traced.push(line),
    };
  }

  static async create(options: WorldOptions = {}): Promise<World> {
    const world = new World(options);
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

  /** Everything that has happened in the API server since the last time, one message each, and a heartbeat. */
  async stream(): Promise<void> {
    const events = this.api.log.slice(this.#streamed);
    this.#streamed = this.api.log.length;
    for (const { type, resource, object } of events) {
      const cached: Cached = strip(resource, object, this.digester);
      const { namespace, name, uid, resourceVersion: rv } = object.metadata;
      const { items, counts } = await prepareChanges(
        this.store,
        REGISTRY,
        resource,
        [{ type, key: objectKey(namespace, name), uid, rv, object: cached }],
        { live: () => Promise.reject(new Error("what is cached can be believed")) },
      );
      await this.store.applyPack({ ...this.#pack(resource), kind: "D" }, items, { counts, commit: { watermark: rv } });
    }
    for (const resource of CACHED_RESOURCES)
      await this.store.applyPack({ ...this.#pack(resource), kind: "W" }, [], { counts: [], commit: { watermark: String(this.api.rv) } });
  }

  /** Queues the key and runs it until it ends; time passes only as far as the run waits. */
  async sync(key = "shop/web"): Promise<void> {
    await this.store.add(EPOCH, this.controller, key, 0);
    await this.ring(key);
  }

  /** As a doorbell does: runs the key if it is queued. */
  async ring(key = "shop/web"): Promise<void> {
    const handler = HANDLERS[this.controller];
    if (handler === undefined) throw new Error("no handler");
    let ended = false;
    const options = this.invocationMs === undefined ? {} : { invocationEndsMs: this.clock.now() + this.invocationMs };
    const run = runKey(
      this.ports,
      this.controller,
      { controller: this.controller, key, epoch: EPOCH, delayMs: 0 },
      handler,
      options,
    ).finally(() => (ended = true));
    for (let turns = 0; !ended; turns++) await this.clock.advance(turns < 100 ? 0 : 100);
    await run;
  }

  /** When the key is queued for, from now; undefined if it is not. */
  async queuedInMs(key = "shop/web"): Promise<number | undefined> {
    const entry = (await this.store.queued(this.controller)).find((each) => each.key === key);
    return entry?.readyAtMs === undefined ? undefined : Math.max(0, entry.readyAtMs - this.clock.now());
  }

  async failures(key = "shop/web"): Promise<number> {
    return (await this.store.queued(this.controller)).find((each) => each.key === key)?.failures ?? 0;
  }

  get pods(): readonly FakeObject[] {
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
