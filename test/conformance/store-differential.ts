/**
 * Two Stores with the same random history: every result, and at intervals all readable data, must be equal. Catches errors that tests of
 * single rules cannot: rules that interact in an unexpected order. A failure prints its seed and the last calls.
 *
 * The history is deliberately not plausible: versions, uids, owners, fences, sequences, tokens and rows read are sometimes wrong, so that
 * rejections are compared as often as changes.
 */
import { ownerId, podOwnerId, primaryAsOwner, type OwnerId } from "../../shared/kube/objects/owner-id.ts";
import { isDeepStrictEqual } from "node:util";
import { describe, it } from "vitest";

import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { CACHED_RESOURCES, CONTROLLERS, controllerOf } from "../../shared/kube/objects/resources.ts";
import type { CachedResource, Controller, ObjectKey } from "../../shared/kube/objects/resources.ts";
import { laneOf } from "../../shared/store/lane.ts";
import type {
  Effect,
  Intent,
  ItemChange,
  HeartbeatLane,
  NamespaceCount,
  Outcome,
  PackHeader,
  Row,
  Store,
  Taken,
  TakeResult,
} from "../../shared/store/ports/store.ts";
import { LEASE_MS } from "../../shared/base/times.ts";
import type { Cached } from "../../shared/kube/objects/cached.ts";
import {
  cachedDeployment,
  cachedPod,
  cachedReplicaSet,
  cachedReplicationController,
  expectation,
  listed,
  put,
  remove,
} from "../support/builders.ts";
import { EPOCH, FIRST_BEAT, HOLE_LIMIT_MS, IDENTITY, known } from "../harness/store/store.ts";
import type { StoreFactory, StoreFixture } from "./store.ts";

const LANES = { deployments: 1, replicasets: 2, replicationcontrollers: 1, pods: 3 } as const;
const NAMESPACES = ["shop", "till"];
const NAMES: { readonly [R in CachedResource]: readonly string[] } = {
  deployments: ["web", "api"],
  replicasets: ["web-1", "web-2", "api-1"],
  replicationcontrollers: ["old"],
  pods: ["p1", "p2", "p3", "p4", "p5", "p6"],
};
const UIDS = ["1", "2"];
/** Initial resourceVersions: small, just below 2^53, and beyond 2^64 where their number of digits grows. */
const BASES = [0n, 2n ** 53n - 20n, 10n ** 20n - 50n];
const TRAIL = 12;

/** Compares `other` with `reference` over `seeds`, `steps` calls each. */
export function storeDifferential(
  name: string,
  reference: StoreFactory,
  other: StoreFactory,
  options: { readonly seeds: readonly number[]; readonly steps: number },
): void {
  describe(`Store on ${name}: equal to its reference in random histories`, () => {
    it.each(options.seeds)("seed %i", async (seed) => {
      const settings = { deployment: "differential", cluster: `seed-${seed}`, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS };
      const [left, right] = [await reference(settings), await other(settings)];
      try {
        await new Life(seed, left, right).live(options.steps);
      } finally {
        await left.close();
        await right.close();
      }
    });
  });
}

class Life {
  readonly #seed: number;
  readonly #left: StoreFixture;
  readonly #right: StoreFixture;
  readonly #next: () => number;
  readonly #base: bigint;
  readonly #trail: string[] = [];
  #epoch = EPOCH.epoch;
  #fence = 100;
  #version = 10n;
  #tokens = 0;
  #runs: { readonly run: Taken; readonly uid: string }[] = [];
  #staleRows = new Map<string, Row | undefined>();
  #staleCounts: readonly NamespaceCount[] = [];

  constructor(seed: number, left: StoreFixture, right: StoreFixture) {
    this.#seed = seed;
    this.#left = left;
    this.#right = right;
    const random = createSeededRandom(seed);
    this.#next = () => random.next();
    this.#base = BASES[seed % BASES.length] ?? 0n;
  }

  async live(steps: number): Promise<void> {
    await this.#begin();
    for (let step = 0; step < steps; step++) {
      await this.#step();
      if (step % 25 === 24) await this.#compareAll();
    }
    await this.#mend();
    await this.#compareAll();
    await this.#lookAtEveryKey();
    await this.#compareAll();
  }

  #chance(probability: number): boolean {
    return this.#next() < probability;
  }

  #below(count: number): number {
    return Math.floor(this.#next() * count);
  }

  #pick<T>(values: readonly T[]): T {
    return values[this.#below(values.length)] as T; // never called with an empty list
  }

  /** Calls both Stores, compares the results, and returns the reference's. */
  async #call<T>(what: string, verb: (store: Store) => Promise<T>): Promise<T | undefined> {
    this.#trail.push(what);
    const [left, right] = await Promise.all([settled(verb(this.#left.store)), settled(verb(this.#right.store))]);
    const [mine, other] = [comparable(left.value), comparable(right.value)];
    if (left.failed !== right.failed || !isDeepStrictEqual(mine, other)) {
      const said = (label: string, answer: Settled<T>, value: unknown) =>
        `${label}: ${answer.failed ? `threw ${String(answer.error)}` : JSON.stringify(value)}`;
      throw new Error(
        [
          `seed ${this.#seed}: the Stores differ`,
          ...this.#trail.slice(-TRAIL),
          said("reference", left, mine),
          said("other", right, other),
        ].join("\n"),
      );
    }
    return left.value;
  }

  async #advance(ms: number): Promise<void> {
    this.#trail.push(`advance ${ms}`);
    await this.#left.clock.advance(ms);
    await this.#right.clock.advance(ms);
  }

  async #begin(): Promise<void> {
    await this.#call("openEpoch", (store) => store.openEpoch({ ...EPOCH, epoch: this.#epoch }));
    await this.#mend();
  }

  /** A new leader takes over and lists everything, which repairs all differences. */
  async #mend(): Promise<void> {
    this.#fence++;
    for (const resource of CACHED_RESOURCES) await this.#openFence(resource, String(this.#fence));
    for (const resource of CACHED_RESOURCES) await this.#relist(resource, false);
  }

  async #step(): Promise<void> {
    const dice = this.#below(100);
    if (dice < 40) return this.#pack();
    if (dice < 43) return this.#relist(this.#pick(CACHED_RESOURCES), this.#chance(0.7));
    if (dice < 45) return this.#stash();
    if (dice < 53) return this.#pass();
    if (dice < 58) return this.#add();
    if (dice < 74) return this.#take();
    if (dice < 80) return this.#finish();
    if (dice < 85) return this.#intents();
    if (dice < 92) return this.#writeThrough();
    if (dice < 95) return this.#sweep();
    if (dice < 97) return this.#read();
    return this.#watcher();
  }

  #rv(): string {
    if (this.#chance(0.7)) this.#version++;
    const offset = this.#chance(0.7) ? 0n : BigInt(this.#below(12) - 9);
    return String(this.#base + this.#version + offset);
  }

  #keyOf(resource: CachedResource): ObjectKey {
    return `${this.#pick(NAMESPACES)}/${this.#pick(NAMES[resource])}`;
  }

  #uid(resource: CachedResource, key: ObjectKey): string {
    return `${resource}:${key}:${this.#chance(0.85) ? UIDS[0] : UIDS[1]}`;
  }

  #object(resource: CachedResource, key: ObjectKey, rv: string): Cached {
    const [namespace = "", name = ""] = key.split("/");
    const base = { namespace, name, uid: this.#uid(resource, key), resourceVersion: rv };
    const ownerKind = resource === "pods" ? this.#pick(["replicasets", "replicasets", "replicationcontrollers"] as const) : "deployments";
    const ownerKey = `${namespace}/${this.#pick(NAMES[ownerKind])}`;
    const owner = { kind: ownerKind, name: ownerKey.slice(namespace.length + 1), uid: this.#uid(ownerKind, ownerKey) };
    const owned = this.#chance(0.75) ? { owner } : {};
    if (resource === "pods")
      return cachedPod({
        ...base,
        ...owned,
        ...(this.#chance(0.2) && { deletionTimestamp: "2026-03-01T10:00:09Z" }),
        labels: { app: this.#pick(["web", "größer"]) },
      });
    if (resource === "replicasets") return cachedReplicaSet({ ...base, ...owned, replicas: this.#below(5) });
    return resource === "deployments" ? cachedDeployment(base) : cachedReplicationController(base);
  }

  #effects(): readonly Effect[] {
    return Array.from({ length: this.#below(4) }, () => {
      const controller = this.#pick(CONTROLLERS);
      const resource = resourceOf(controller);
      const key = this.#keyOf(resource);
      const extra = this.#chance(0.2) ? { self: true } : {};
      return { controller, key, uid: this.#uid(resource, key), urgency: this.#pick(["act", "status"] as const), ...extra };
    });
  }

  #lowers(): ItemChange["lowers"] {
    const ownerKey = this.#keyOf("replicasets");
    return this.#chance(0.3) ? [{ owner: primaryAsOwner("replicaset", ownerKey, this.#uid("replicasets", ownerKey)), op: this.#op() }] : [];
  }

  #op(): string {
    return this.#chance(0.5) ? `c:${this.#pick(NAMES.pods)}` : `d:${this.#uid("pods", this.#keyOf("pods"))}`;
  }

  /** Returns changes of distinct keys, prepared from rows that were read just now or, sometimes, earlier. */
  async #items(resource: CachedResource, keys: readonly ObjectKey[], deletes: number): Promise<readonly ItemChange[]> {
    const items: ItemChange[] = [];
    for (const key of new Set(keys)) {
      const rv = this.#rv();
      const object = this.#object(resource, key, rv);
      const options = {
        effects: this.#effects(),
        counted: resource !== "pods" && this.#chance(0.5),
        lowers: resource === "pods" ? this.#lowers() : [],
      };
      if (this.#chance(0.15)) {
        const item = this.#chance(deletes) ? remove(object, rv, options) : put(object, options);
        const itself = { rv, uid: item.uid, ...(item.owner !== undefined && { owner: item.owner }) };
        items.push({ ...item, unread: true, ...(this.#chance(0.5) && { expected: itself }) });
        continue;
      }
      const row = await this.#row(resource, key);
      items.push({
        ...(this.#chance(deletes) ? remove(object, rv, options) : put(object, options)),
        ...(row && { expected: expectation(row) }),
      });
    }
    return items;
  }

  async #row(resource: CachedResource, key: ObjectKey): Promise<Row | undefined> {
    const id = `${resource} ${key}`;
    if (this.#chance(0.07) && this.#staleRows.has(id)) return this.#staleRows.get(id);
    const view = await this.#call(`readIndex ${id}`, (store) => store.readIndex({ rows: [{ resource, key }] }));
    const row = view?.rows[0]?.row;
    this.#staleRows.set(id, row);
    return row;
  }

  async #counts(): Promise<readonly NamespaceCount[]> {
    if (this.#chance(0.1)) return this.#staleCounts;
    const asked = CACHED_RESOURCES.filter((resource) => controllerOf(resource) && this.#chance(0.4)).map((resource) => ({
      resource,
      namespace: this.#pick(NAMESPACES),
    }));
    const view = await this.#call("readIndex counts", (store) => store.readIndex({ counts: asked }));
    return (this.#staleCounts = view?.counts ?? []);
  }

  async #header(resource: CachedResource, lane: number, kind: PackHeader["kind"]): Promise<PackHeader> {
    const last = (await this.#openFence(resource, String(this.#fence)))?.[lane] ?? 0;
    const sequence = this.#chance(0.75) ? last + 1 : this.#chance(0.6) ? last + 2 + this.#below(3) : Math.max(1, last - this.#below(2));
    const fence = this.#chance(0.97) ? this.#fence : this.#fence + this.#pick([-1, 1]);
    return {
      epoch: this.#chance(0.99) ? this.#epoch : "e-other",
      fence: String(fence),
      generation: this.#below(3) + 1,
      resource,
      lane,
      sequence,
      kind,
    };
  }

  /** @returns the last contiguous sequence of each lane */
  async #openFence(resource: CachedResource, fence: string): Promise<readonly number[] | undefined> {
    const answer = await this.#call(`openFence ${resource} ${fence}`, (store) =>
      store.openFence({ epoch: this.#epoch, fence, resource, lanes: LANES[resource] }),
    );
    return answer?.kind === "open" ? answer.lanes.map((lane) => lane.last) : undefined;
  }

  async #pack(): Promise<void> {
    const resource = this.#pick<CachedResource>(["pods", "pods", "pods", ...CACHED_RESOURCES]);
    const kind = this.#pick(["D", "D", "D", "D", "L", "W"] as const);
    const keys = Array.from({ length: kind === "W" ? 0 : 1 + this.#below(4) }, () => this.#keyOf(resource));
    const lane = keys[0] === undefined ? this.#below(LANES[resource]) : laneOf(keys[0], LANES[resource]);
    const here = keys.filter((key) => laneOf(key, LANES[resource]) === lane);
    const items = await this.#items(resource, here, resource === "pods" ? 0.25 : 0.1);
    const counts = await this.#counts();
    const header = await this.#header(resource, lane, kind);
    const watermark = kind === "L" ? {} : { watermark: kind === "W" ? this.#rv() : greatest(items) };
    const commit = this.#chance(0.92) ? { commit: watermark } : {};
    const list = kind === "L" && this.#chance(0.8) ? { listRV: this.#rv() } : {};
    await this.#call(`applyPack ${JSON.stringify([header, items.map(short), counts, list, commit])}`, (store) =>
      store.applyPack(header, items, { counts, ...list, ...commit }),
    );
  }

  /** Lists one resource. `spoilt`: some rows are missing and others are surplus. */
  async #relist(resource: CachedResource, spoilt: boolean): Promise<void> {
    const opened = await this.#call(`openGeneration ${resource}`, (store) =>
      store.openGeneration({ epoch: this.#epoch, fence: String(this.#fence), resource }),
    );
    const generation = opened?.kind === "open" ? opened.generation : 1;
    this.#version += 3n;
    const listRV = String(this.#base + this.#version + 10n);
    this.#version += 10n;
    for (let lane = 0; lane < LANES[resource]; lane++) {
      const cached = (await this.#call(`readLane ${resource} ${lane}`, (store) => store.readLane(resource, lane)))?.rows ?? [];
      const kept = cached.filter(() => !spoilt || this.#chance(0.85)).map(({ key, uid, rv }) => ({ key, uid, rv }));
      const strange = this.#keyOf(resource);
      const invented =
        spoilt && this.#chance(0.3) && laneOf(strange, LANES[resource]) === lane
          ? [listed(this.#object(resource, strange, this.#rv()))]
          : [];
      const rows = [...kept.filter((row) => row.key !== invented[0]?.key), ...invented];
      const gone = cached.filter((row) => !rows.some((each) => each.key === row.key) && !isAfter(row.rv, listRV));
      const swept = spoilt && this.#chance(0.1) ? gone.slice(1) : gone;
      const sweep = swept.map((row) => ({
        type: "delete" as const,
        key: row.key,
        uid: row.uid,
        rv: listRV,
        expected: expectation(row),
        effects: this.#effects(),
        counted: resource !== "pods",
        lowers: resource === "pods" ? this.#lowers() : [],
      }));
      const counts = spoilt ? await this.#counts() : [];
      const header = { ...(spoilt ? await this.#header(resource, lane, "L") : await this.#inTurn(resource, lane)), generation };
      await this.#call(`applyManifest ${JSON.stringify([header, listRV, rows, sweep.map(short), counts])}`, (store) =>
        store.applyManifest(header, { listRV, rows, sweep, counts }),
      );
    }
  }

  async #inTurn(resource: CachedResource, lane: number): Promise<PackHeader> {
    const last = (await this.#openFence(resource, String(this.#fence)))?.[lane] ?? 0;
    return { epoch: this.#epoch, fence: String(this.#fence), generation: 1, resource, lane, sequence: last + 1, kind: "W" };
  }

  async #stash(): Promise<void> {
    const resource = this.#pick(CACHED_RESOURCES);
    const lane = this.#below(LANES[resource]);
    const header = await this.#header(resource, lane, "L");
    const rows = [listed(this.#object(resource, this.#keyOf(resource), this.#rv()))];
    await this.#call(`stashManifest ${JSON.stringify([header, rows])}`, (store) => store.stashManifest(header, rows));
    await this.#call("readManifest", (store) => store.readManifest(header));
  }

  async #pass(): Promise<void> {
    await this.#advance(this.#pick([1, 7, 50, 400, 1_200, 3_000, 5_001, 15_000, LEASE_MS + 1_000, 61_000]));
    if (this.#chance(0.25)) return; // no watcher runs
    for (const resource of CACHED_RESOURCES) {
      for (let lane = 0; lane < LANES[resource]; lane++) {
        const header = await this.#inTurn(resource, lane);
        await this.#call(`heartbeat ${resource} ${lane}`, (store) =>
          store.applyPack(header, [], { counts: [], commit: { watermark: "0" } }),
        );
      }
    }
  }

  async #add(): Promise<void> {
    const controller = this.#pick(CONTROLLERS);
    const key = this.#keyOf(resourceOf(controller));
    const delayMs = this.#pick([0, 0, 5, 900, 4_000, 30_000]);
    await this.#call(`add ${controller} ${key} ${delayMs}`, (store) => store.add(this.#epoch, controller, key, delayMs));
  }

  async #take(): Promise<void> {
    const controller = this.#pick(CONTROLLERS);
    const queued = (await this.#call(`queued ${controller}`, (store) => store.queued(controller))) ?? [];
    const key = queued.length > 0 && this.#chance(0.9) ? this.#pick(queued).key : this.#keyOf(resourceOf(controller));
    const answer = await this.#takeKey(controller, key);
    if (answer?.kind !== "ok") return;
    if (this.#chance(0.5)) await this.#intents();
    if (this.#chance(0.4)) await this.#writeThrough();
    if (this.#chance(0.6)) await this.#finish();
  }

  async #takeKey(controller: Controller, key: ObjectKey): Promise<TakeResult | undefined> {
    const run = { epoch: this.#chance(0.99) ? this.#epoch : "e-other", controller, key, token: `t${++this.#tokens}` };
    const take = (ids: { readonly uid?: string; readonly owner?: OwnerId }) =>
      this.#call(`take ${JSON.stringify([run, ids])}`, (store) => store.take(run, ids));
    const first = await take(this.#chance(0.3) ? { uid: this.#uid(resourceOf(controller), key) } : {});
    const answer = first?.kind === "moved" ? await take(known(first)) : first;
    if (answer?.kind !== "ok" && answer?.kind !== "recover") return answer;
    this.#runs = [...this.#runs.slice(-5), { run, uid: answer.snapshot.primary?.uid ?? "none" }];
    if (answer.kind === "recover") await this.#settle(run, answer.snapshot.primary?.uid ?? "none", answer.snapshot.intents);
    return answer;
  }

  /** Returns mostly the last run; earlier runs may have ended or lost their key. */
  #anyRun(): { readonly run: Taken; readonly uid: string } {
    return this.#chance(0.7) ? this.#pick(this.#runs.slice(-1)) : this.#pick(this.#runs);
  }

  async #settle(run: Taken, ownerUid: string, intents: readonly Intent[]): Promise<void> {
    const lower = intents.filter(() => this.#chance(0.5)).map((op) => op.id);
    const plan = intents
      .filter((op) => !lower.includes(op.id) && this.#chance(0.7))
      .map((op) => ({ id: op.id, mayLand: this.#chance(0.5) }));
    const write = { resource: "pods" as const, items: [], counts: [], ownerUid, lower, plan, gone: [], ownStatus: false };
    await this.#call(`writeThrough ${JSON.stringify([run, write])}`, (store) => store.writeThrough(run, write));
  }

  #outcome(): Outcome {
    return this.#pick([
      { kind: "ok" },
      { kind: "ok" },
      { kind: "retry" },
      { kind: "requeueAfter", delayMs: this.#pick([0, 200, 5_000]) },
      { kind: "drop" },
    ] as const);
  }

  async #finish(): Promise<void> {
    if (this.#runs.length === 0) return;
    const { run } = this.#anyRun();
    if (this.#chance(0.3)) await this.#call(`renew ${JSON.stringify(run)}`, (store) => store.renew(run));
    const outcome = this.#outcome();
    await this.#call(`done ${JSON.stringify([run, outcome])}`, (store) => store.done(run, outcome));
  }

  async #intents(): Promise<void> {
    if (this.#runs.length === 0) return;
    const { run, uid } = this.#anyRun();
    const intents = [...new Set(Array.from({ length: 1 + this.#below(3) }, () => this.#op()))].map((id) => ({
      id,
      verb: id.startsWith("c:") ? ("create" as const) : ("delete" as const),
      name: this.#pick(NAMES.pods),
      ...(id.startsWith("d:") && { uid: id.slice(2) }),
      ...(this.#chance(0.2) && { mayLandUntilMs: this.#left.clock.now() + 4_000 }),
    }));
    const ownerUid = this.#chance(0.95) ? uid : this.#uid("replicasets", this.#keyOf("replicasets"));
    const drawn = this.#chance(0.5) ? this.#below(9) : undefined;
    await this.#call(`registerIntents ${JSON.stringify([run, ownerUid, intents, drawn])}`, (store) =>
      store.registerIntents(run, ownerUid, intents, drawn),
    );
  }

  async #writeThrough(): Promise<void> {
    if (this.#runs.length === 0) return;
    const { run, uid } = this.#anyRun();
    const resource = this.#pick(["pods", "pods", "pods", "replicasets", "deployments"] as const);
    const items = await this.#items(
      resource,
      Array.from({ length: this.#below(4) }, () => this.#keyOf(resource)),
      0,
    );
    const counts = await this.#counts();
    const lower = this.#chance(0.5) ? [this.#op(), this.#op()] : [];
    const plan = this.#chance(0.4)
      ? [this.#op()].filter((id) => id.startsWith("c:")).map((id) => ({ id, mayLand: this.#chance(0.5) }))
      : [];
    const doomed = this.#keyOf("pods");
    const gone = resource === "pods" && this.#chance(0.3) ? [{ key: doomed, uid: this.#uid("pods", doomed) }] : [];
    const hold = this.#chance(0.2) ? [this.#op()].filter((id) => !plan.some((op) => op.id === id)) : [];
    const ends = this.#chance(0.3) ? { ends: this.#outcome() } : {};
    const write = { resource, items, counts, ownerUid: uid, lower, plan, hold, gone, ownStatus: this.#chance(0.2), ...ends };
    await this.#call(`writeThrough ${JSON.stringify([run, { ...write, items: items.map(short) }])}`, (store) =>
      store.writeThrough(run, write),
    );
  }

  async #sweep(): Promise<void> {
    const epoch = this.#chance(0.95) ? this.#epoch : "e-other";
    await this.#call("sweep", (store) => store.sweep(epoch));
  }

  async #read(): Promise<void> {
    const resource = this.#pick(CACHED_RESOURCES);
    const rows = Array.from({ length: 3 }, () => ({ resource, key: this.#keyOf(resource) }));
    const primaries = NAMESPACES.map((namespace) => ({ resource: "replicasets" as const, namespace }));
    await this.#call("readIndex", (store) =>
      store.readIndex({ rows, primaries, counts: [{ resource: "deployments", namespace: "shop" }] }),
    );
  }

  async #heartbeat(): Promise<void> {
    const lanes: HeartbeatLane[] = [];
    let header: PackHeader | undefined;
    for (const resource of CACHED_RESOURCES) {
      const lane = this.#below(LANES[resource]);
      header = await this.#header(resource, lane, "W");
      const sequence = this.#chance(0.8) ? header.sequence - 1 : header.sequence;
      lanes.push({ resource, lane, sequence, rv: this.#rv() });
    }
    if (!header) return;
    const { epoch, fence } = header;
    const sentMs = this.#left.clock.now() - this.#below(2) * 5_000;
    await this.#call(`heartbeat ${JSON.stringify({ epoch, fence, sentMs, lanes })}`, (store) =>
      store.heartbeat({ epoch, fence, sentMs, lanes }),
    );
  }

  /** Makes one of the rare calls of a leader. */
  async #watcher(): Promise<void> {
    const resource = this.#pick(CACHED_RESOURCES);
    const dice = this.#below(10);
    const controller = this.#pick(CONTROLLERS);
    if (dice === 8) await this.#call(`resync ${controller}`, (store) => store.resync(this.#epoch, controller, 2_000));
    if (dice === 9) await this.#call("takeTurns", (store) => store.takeTurns(this.#epoch, [{ job: controller, afterMs: 20_000 }]));
    if (dice === 0) await this.#call(`markSuspect ${resource}`, (store) => store.markSuspect(resource, "test"));
    if (dice === 1) return this.#mend();
    if (dice === 2) await this.#heartbeat();
    if (dice === 3) await this.#openFence(resource, String(this.#fence - 1));
    if (dice === 4)
      await this.#call("quarantine", (store) =>
        store.quarantine(
          { what: "x", where: "y", why: `${this.#version}`, atMs: this.#left.clock.now() },
          { resource: "pods", lane: 1, fate: "quarantined", items: 1 },
        ),
      );
    const wrong = String(this.#fence + this.#pick([-1, 1]));
    if (dice === 5)
      await this.#call("checkpoint", (store) => store.checkpoint({ epoch: this.#epoch, fence: wrong, sent: { pods: "1" }, ...FIRST_BEAT }));
    if (dice === 6) await this.#call("openEpoch", (store) => store.openEpoch({ ...EPOCH, epoch: "e-none" }, "e-other"));
    if (dice === 7 && this.#chance(0.3)) {
      const epoch = `e${this.#version}`;
      await this.#call(`openEpoch ${epoch}`, (store) => store.openEpoch({ ...EPOCH, epoch }, this.#epoch));
      this.#epoch = epoch;
      await this.#mend();
    }
  }

  async #compareAll(): Promise<void> {
    await this.#call("epoch", (store) => store.epoch());
    await this.#call("quarantined", (store) => store.quarantined());
    await this.#call("tallies", (store) => store.tallies());
    await this.#call("checkpoint", (store) =>
      store.checkpoint({ epoch: this.#epoch, fence: String(this.#fence), sent: {}, ...FIRST_BEAT }),
    );
    for (const resource of CACHED_RESOURCES) {
      await this.#openFence(resource, String(this.#fence));
      for (let lane = 0; lane < LANES[resource]; lane++)
        await this.#call(`readLane ${resource} ${lane}`, (store) => store.readLane(resource, lane));
      const owners = CACHED_RESOURCES.flatMap((owner) =>
        NAMESPACES.flatMap((namespace) =>
          NAMES[owner].flatMap((name) =>
            UIDS.flatMap((each) => {
              const uid = `${owner}:${namespace}/${name}:${each}`;
              return [ownerId(namespace, uid), podOwnerId(namespace, { kind: owner, name, uid })];
            }),
          ),
        ),
      );
      const slices = [...NAMESPACES.map((orphansOf) => ({ resource, orphansOf })), ...owners.map((owner) => ({ resource, owner }))];
      await this.#call(`readSlices ${resource}`, (store) => store.readSlices(slices));
      await this.#call(`primaries ${resource}`, (store) =>
        store.readIndex({ primaries: controllerOf(resource) ? NAMESPACES.map((namespace) => ({ resource, namespace })) : [] }),
      );
    }
    for (const controller of CONTROLLERS) {
      await this.#call(`queued ${controller}`, (store) => store.queued(controller));
      await this.#call(`parked ${controller}`, (store) => store.parked(controller));
      await this.#call(`gate ${controller}`, (store) => store.gate(controller));
    }
  }

  /** Takes every key once, even one that another run holds, because only a snapshot contains intents, failures and leases. */
  async #lookAtEveryKey(): Promise<void> {
    await this.#advance(LEASE_MS);
    for (const controller of CONTROLLERS) {
      const resource = resourceOf(controller);
      for (const key of NAMESPACES.flatMap((namespace) => NAMES[resource].map((name) => `${namespace}/${name}`))) {
        await this.#call(`add ${key}`, (store) => store.add(this.#epoch, controller, key, 0));
        await this.#takeKey(controller, key);
        await this.#takeKey(controller, key);
      }
    }
  }
}

function resourceOf(controller: Controller): CachedResource {
  return CACHED_RESOURCES.find((resource) => controllerOf(resource) === controller) ?? "replicasets";
}

function greatest(items: readonly ItemChange[]): string {
  return items.reduce((most, { rv }) => (isAfter(rv, most) ? rv : most), "0");
}

function isAfter(a: string, b: string): boolean {
  return BigInt(a) > BigInt(b);
}

/** Returns an item without its object, for the printed trail of calls. */
function short({ object, ...item }: ItemChange): object {
  return { ...item, object: object && "metadata" in object ? object.metadata.uid : object?.uid };
}

interface Settled<T> {
  readonly failed: boolean;
  readonly value?: T;
  readonly error?: unknown;
}

async function settled<T>(promise: Promise<T>): Promise<Settled<T>> {
  try {
    return { failed: false, value: await promise };
  } catch (error) {
    return { failed: true, error };
  }
}

/** Returns results as plain data: with doorbells sorted and user-facing texts removed. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) {
    const parts = value.map(comparable);
    return parts.every(isBell) ? parts.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)) : parts;
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, part]) => (part === undefined ? [] : [[name, isOpaque(name, value) ? "…" : comparable(part)]])),
  );
}

/** The reason of a gate and an unverifiable value may differ between Stores. */
function isOpaque(name: string, of: object): boolean {
  return name === "reason" || (name === "text" && "where" in of);
}

function isBell(value: unknown): value is { readonly controller: string; readonly key: string } {
  return typeof value === "object" && value !== null && "delayMs" in value && "controller" in value && "key" in value;
}

function order(bell: { readonly controller: string; readonly key: string }): string {
  return `${bell.controller} ${bell.key}`;
}
