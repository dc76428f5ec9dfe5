/**
 * One Store of any adapter, called as the watcher, the applier and the worker call it; the harness numbers messages and fills in
 * the rows read.
 */
import { CACHED_RESOURCES, type CachedResource, type Controller, type ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import type { StoreIdentity } from "../../../shared/store/store-options.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type {
  ApplyResult,
  EpochRecord,
  Forged,
  Intent,
  ItemChange,
  NamespaceCount,
  PackHeader,
  ManifestRow,
  Row,
  Snapshot,
  Store,
  Taken,
  TakeResult,
  WriteThrough,
  WriteThroughResult,
} from "../../../shared/store/ports/store.ts";
import type { Cached } from "../../../shared/kube/objects/cached.ts";
export { HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import type { ServerClock } from "./server-clock.ts";
import { expectation, keyOf, listed } from "../../support/builders.ts";

/** The adapter's fixture: an empty Store whose clock the test controls. */
export interface StoreFixture {
  readonly store: Store;
  readonly clock: ServerClock;
  /** Another Store on the same data: by another build, for another cluster, or one that ignores stops. */
  beside(options: {
    readonly identity?: StoreIdentity;
    readonly cluster?: string;
    readonly ignoresStop?: boolean;
    readonly releases?: readonly string[];
  }): Promise<Store>;
  /** Overwrites a value as another writer would, so that it no longer verifies. Empty text deletes it. */
  spoil(forged: Forged): Promise<void>;
  /** Loses everything, as after FLUSHALL. */
  flush(): Promise<void>;
  /**
   * Takes a copy of all data; the returned function restores it, as a failover to a lagging replica does. Absent: the
   * adapter cannot.
   */
  snapshot?(): Promise<() => Promise<void>>;
  /** Moves the data to another primary. Absent: any operation may do so, as when a slot of a cluster moves. */
  failOver?(): Promise<void>;
  /** Deletes the state that is kept per resource. */
  lose(resource: CachedResource): Promise<void>;
  /** The number of keys of an epoch, or their equivalent. */
  kept(epoch: string): Promise<number>;
  close(): Promise<void>;
}

export interface StoreFixtureOptions {
  readonly deployment: string;
  readonly cluster: string;
  readonly identity: StoreIdentity;
  readonly holeLimitMs: number;
}

export type StoreFactory = (options: StoreFixtureOptions) => Promise<StoreFixture>;

export const IDENTITY: StoreIdentity = { projection: 1, digestPrefix: "k1.f1", hashLayout: "v1.36" };
export const EPOCH: EpochRecord = { epoch: "e1", clusterUid: "cluster-uid", ...IDENTITY, fence: "100" };

/** A checkpoint without an earlier one. */
export const FIRST_BEAT = { beat: 1, answered: 0 } as const;

export type Lanes = { readonly [R in CachedResource]: number };
/** One lane per resource, so that sequence numbers are easy to read; tests of lanes use more. */
export const ONE_LANE: Lanes = { deployments: 1, replicasets: 1, replicationcontrollers: 1, pods: 1 };

/** Heartbeats arrive every 15 s. */
const HEARTBEAT_MS = 15_000;

export interface DeliverOptions {
  readonly kind?: PackHeader["kind"];
  /** The sequence number. Default: the lane's next one. */
  readonly sequence?: number;
  readonly lane?: number;
  readonly counts?: readonly NamespaceCount[];
  /** The watermark. Default: the greatest resourceVersion of a `D` message; absent for an `L` message. */
  readonly watermark?: string;
  /** The resourceVersion of the list, for an `L` message. */
  readonly listRV?: string;
  /** False: the message needs further calls. */
  readonly commit?: boolean;
  /** Omits puts when the Store is full (FU2). */
  readonly leaveOut?: boolean;
  /** Leaves `expected` unchanged; by default it is filled in from the Store. */
  readonly asRead?: boolean;
  readonly fence?: string;
  readonly epoch?: string;
  readonly generation?: number;
}

export class StoreHarness {
  readonly store: Store;
  readonly fixture: StoreFixture;
  readonly lanes: Lanes;
  epoch: string = EPOCH.epoch;
  fence: string = EPOCH.fence;
  /** Number of the last list that was announced, by resource. */
  readonly generations = new Map<CachedResource, number>();
  /** The last sequence number used, by resource and lane. */
  readonly #sequences = new Map<string, number>();
  #tokens = 0;

  constructor(fixture: StoreFixture, lanes: Lanes = ONE_LANE) {
    this.fixture = fixture;
    this.store = fixture.store;
    this.lanes = lanes;
  }

  now(): number {
    return this.fixture.clock.now();
  }

  /** Opens epoch and fences without listing anything: every gate is closed. */
  async open(): Promise<this> {
    await this.store.openEpoch({ ...EPOCH, epoch: this.epoch, fence: this.fence });
    for (const resource of CACHED_RESOURCES) await this.openFence(resource);
    return this;
  }

  async openFence(resource: CachedResource, fence: string = this.fence): ReturnType<Store["openFence"]> {
    const result = await this.store.openFence({ epoch: this.epoch, fence, resource, lanes: this.lanes[resource] });
    if (result.kind === "open" && fence !== this.fence) this.#restart(resource);
    return result;
  }

  /** Raises the fence of all resources, as a new leader or a leader with a gap does. */
  async raiseFence(fence: string): Promise<void> {
    for (const resource of CACHED_RESOURCES) await this.openFence(resource, fence);
    this.fence = fence;
  }

  #restart(resource: CachedResource): void {
    for (let lane = 0; lane < this.lanes[resource]; lane++) this.#sequences.delete(`${resource} ${lane}`);
  }

  /** An empty cache with all resources synced: every gate is open. */
  async synced(): Promise<this> {
    await this.open();
    for (const resource of CACHED_RESOURCES) await this.relist(resource, [], "0");
    return this;
  }

  async openGeneration(resource: CachedResource): Promise<string> {
    const result = await this.store.openGeneration({ epoch: this.epoch, fence: this.fence, resource });
    if (result.kind !== "open") throw new Error(result.kind);
    this.generations.set(resource, result.generation);
    return result.floor;
  }

  /** Sends a complete list: payloads, then a manifest per lane. */
  async relist(
    resource: CachedResource,
    objects: readonly Cached[],
    listRV: string,
    effects: (object: Cached) => ItemChange,
  ): Promise<readonly ManifestAnswer[]>;
  async relist(resource: CachedResource, objects: readonly [], listRV: string): Promise<readonly ManifestAnswer[]>;
  async relist(
    resource: CachedResource,
    objects: readonly Cached[],
    listRV: string,
    itemOf?: (object: Cached) => ItemChange,
  ): Promise<readonly ManifestAnswer[]> {
    await this.openGeneration(resource);
    const answers: ManifestAnswer[] = [];
    for (let lane = 0; lane < this.lanes[resource]; lane++) {
      const here = objects.filter((object) => laneOf(keyOf(object), this.lanes[resource]) === lane);
      if (itemOf && here.length > 0) await this.deliver(resource, here.map(itemOf), { kind: "L", lane, listRV });
      answers.push(await this.manifest(resource, here.map(listed), listRV, { lane }));
    }
    return answers;
  }

  /** Sends a heartbeat on every lane, with the lowest resourceVersion. */
  async heartbeat(): Promise<void> {
    for (const resource of CACHED_RESOURCES) {
      for (let lane = 0; lane < this.lanes[resource]; lane++) await this.deliver(resource, [], { kind: "W", lane, watermark: "0" });
    }
  }

  /** Advances the clock while the watcher keeps sending heartbeats. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= HEARTBEAT_MS) {
      await this.fixture.clock.advance(Math.min(left, HEARTBEAT_MS));
      await this.heartbeat();
    }
  }

  header(resource: CachedResource, options: DeliverOptions & { readonly lane: number }): PackHeader {
    return {
      epoch: options.epoch ?? this.epoch,
      fence: options.fence ?? this.fence,
      generation: options.generation ?? this.generations.get(resource) ?? 0,
      resource,
      lane: options.lane,
      sequence: options.sequence ?? this.nextSequence(resource, options.lane),
      kind: options.kind ?? "D",
    };
  }

  nextSequence(resource: CachedResource, lane = 0): number {
    return (this.#sequences.get(`${resource} ${lane}`) ?? 0) + 1;
  }

  #used(resource: CachedResource, { lane, sequence }: PackHeader): void {
    this.#sequences.set(`${resource} ${lane}`, Math.max(sequence, this.#sequences.get(`${resource} ${lane}`) ?? 0));
  }

  /** Delivers one message of one lane in one call, after reading the rows of its items. */
  async deliver(resource: CachedResource, items: readonly ItemChange[], options: DeliverOptions = {}): Promise<ApplyResult> {
    const lane = options.lane ?? (items[0] ? laneOf(items[0].key, this.lanes[resource]) : 0);
    const header = this.header(resource, { ...options, lane });
    const prepared = options.asRead ? items : await this.read(resource, items);
    const greatest = header.kind === "D" ? items.map((item) => item.rv).reduce(maxRv, "0") : undefined;
    const watermark = options.watermark ?? greatest;
    const commit = options.commit === false ? {} : { commit: watermark === undefined ? {} : { watermark } };
    const list = options.listRV === undefined ? {} : { listRV: options.listRV };
    const { counts = [], leaveOut = false } = options;
    const result = await this.store.applyPack(header, prepared, { counts, ...list, ...commit, leaveOut });
    if (options.commit !== false && result.kind === "applied") this.#used(resource, header);
    return result;
  }

  /** Sets up state: every item must change something. */
  async seed(resource: CachedResource, items: readonly ItemChange[], options: DeliverOptions = {}): Promise<void> {
    const answer = await this.deliver(resource, items, options);
    if (answer.kind !== "applied" || answer.outcomes.some((outcome) => outcome !== "changed"))
      throw new Error(`seed: ${JSON.stringify(answer)}`);
  }

  /** `items` with the Store's current rows as their rows read. */
  async read(resource: CachedResource, items: readonly ItemChange[]): Promise<readonly ItemChange[]> {
    const prepared: ItemChange[] = [];
    for (const item of items) {
      const row = await this.row(resource, item.key);
      const { expected: _, ...rest } = item;
      prepared.push(row ? { ...rest, expected: expectation(row) } : rest);
    }
    return prepared;
  }

  /** The last part of a manifest, with the deletes that the cached lane requires. */
  async manifest(
    resource: CachedResource,
    rows: readonly ManifestRow[],
    listRV: string,
    options: DeliverOptions & { readonly sweep?: (row: Omit<Row, "object">) => ItemChange } = {},
  ): Promise<ManifestAnswer> {
    const lane = options.lane ?? 0;
    const header = this.header(resource, { ...options, lane });
    const keys = new Set(rows.map((row) => row.key));
    const cached = (await this.store.readLane(resource, lane)).rows;
    const zombies = cached.filter((row) => !keys.has(row.key) && maxRv(row.rv, listRV) === listRV);
    const sweepOf =
      options.sweep ?? ((row) => ({ type: "delete", key: row.key, uid: row.uid, rv: listRV, effects: [], counted: false, lowers: [] }));
    const sweep = zombies.map((row) => ({ ...sweepOf(row), expected: expectation(row) }));
    const answer = await this.store.applyManifest(header, { listRV, rows, sweep, counts: options.counts ?? [] });
    if (answer.kind === "applied" || answer.kind === "needed") this.#used(resource, header);
    return answer;
  }

  async row(resource: CachedResource, key: ObjectKey): Promise<Row | undefined> {
    return (await this.store.readIndex({ rows: [{ resource, key }] })).rows[0]?.row;
  }

  async watermark(resource: CachedResource, lane = 0): Promise<string | undefined> {
    return (await this.health(resource))?.watermarks[lane];
  }

  async health(resource: CachedResource) {
    const result = await this.store.checkpoint({ epoch: this.epoch, fence: this.fence, sent: {}, ...FIRST_BEAT });
    if (result.kind !== "ok") throw new Error(`checkpoint: ${result.kind}`);
    return result.resources.find((health) => health.resource === resource);
  }

  run(controller: Controller, key: ObjectKey, token = `token-${++this.#tokens}`): Taken {
    return { epoch: this.epoch, controller, key, token };
  }

  /** Takes a key as a worker does: after "moved", repeats with the returned ids. */
  async take(run: Taken): Promise<TakeResult> {
    const first = await this.store.take(run, {});
    return first.kind === "moved" ? this.store.take(run, known(first)) : first;
  }

  /** Takes a key that must be available. */
  async taken(
    controller: Controller,
    key: ObjectKey,
    token?: string,
  ): Promise<{ readonly run: Taken; readonly snapshot: Snapshot; readonly kind: "ok" | "recover" }> {
    const run = this.run(controller, key, token);
    const result = await this.take(run);
    if (result.kind !== "ok" && result.kind !== "recover") throw new Error(`take ${key}: ${JSON.stringify(result)}`);
    return { run, snapshot: result.snapshot, kind: result.kind };
  }

  async writeThrough(
    run: Taken,
    resource: CachedResource,
    items: readonly ItemChange[],
    rest: Partial<WriteThrough> = {},
  ): Promise<WriteThroughResult> {
    return this.store.writeThrough(run, { ...writeOf(resource), items: rest.items ?? (await this.read(resource, items)), ...rest });
  }

  async intents(ownerUid: string, controller: Controller, key: ObjectKey): Promise<readonly Intent[]> {
    const { run, snapshot } = await this.taken(controller, key);
    if (snapshot.primary?.uid !== ownerUid) throw new Error(`${key} is ${snapshot.primary?.uid}`);
    await this.store.done(run, { kind: "ok" });
    return snapshot.intents;
  }

  /** Dirty keys, running or not. */
  async dirty(controller: Controller): Promise<readonly ObjectKey[]> {
    return (await this.store.queued(controller)).filter((entry) => entry.readyAtMs !== undefined).map((entry) => entry.key);
  }

  /** The delay in milliseconds until `key` is ready; `undefined` when it is not dirty. */
  async readyIn(controller: Controller, key: ObjectKey): Promise<number | undefined> {
    const entry = (await this.store.queued(controller)).find((each) => each.key === key);
    return entry?.readyAtMs === undefined ? undefined : entry.readyAtMs - this.now();
  }
}

export type ManifestAnswer = Awaited<ReturnType<Store["applyManifest"]>>;

export function writeOf(resource: CachedResource): WriteThrough {
  return { resource, items: [], counts: [], ownerUid: "", lower: [], plan: [], gone: [], ownStatus: false };
}

export function known(ids: { readonly uid?: string; readonly owner?: string }): { readonly uid?: string; readonly owner?: string } {
  return { ...(ids.uid !== undefined && { uid: ids.uid }), ...(ids.owner !== undefined && { owner: ids.owner }) };
}

/** `controller key` of each doorbell, sorted: they arrive in any order. */
export function rung(answer: { readonly kind: string; readonly bells?: readonly Doorbell[] }): readonly string[] {
  return (answer.bells ?? []).map(({ controller, key }) => `${controller} ${key}`).sort();
}

/** Outcomes of a call that must have succeeded completely. */
export function outcomes(answer: { readonly kind: string; readonly outcomes?: readonly string[] }): readonly string[] {
  if (!answer.outcomes || answer.kind === "retry") throw new Error(`answered ${JSON.stringify(answer)}`);
  return answer.outcomes;
}

/** Compares by length, then by digits, independently of the comparison under test. */
function maxRv(a: string, b: string): string {
  return BigInt(a) >= BigInt(b) ? a : b;
}
