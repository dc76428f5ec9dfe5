/**
 * The Redis Store as the applier and the sync functions use it: deltas per second through `applyPack`, one snapshot by `take`, and bytes
 * per pod. Uses one redis-server and one client process; every delta is a status change of a pod that affects its ReplicaSet.
 */
import type { Signer } from "../../shared/store/signer.ts";
import { testSigner } from "../support/signer.ts";
import { primaryAsOwner } from "../../shared/kube/objects/owner-id.ts";
import type { OwnerId } from "../../shared/kube/objects/owner-id.ts";
import { Redis } from "ioredis";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { LANES, laneOf } from "../../shared/store/lane.ts";
import type { CachedPod, CachedReplicaSet } from "../../shared/kube/objects/cached.ts";
import { CACHED_RESOURCES, objectKey } from "../../shared/kube/objects/resources.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import type { ItemChange, Store } from "../../shared/store/ports/store.ts";
import { HOLE_LIMIT_MS } from "../../shared/base/times.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import { macPerRow, NULL_SIGNER, sideBySide } from "./mac.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const CLUSTER = "0123456789ab";
const EPOCH = "bench";
const FENCE = "1000";
const NAMESPACE = "production";
const PODS_PER_OWNER = 100;
const OWNERS = 101; // the snapshot's owner and 100 others, with 10,000 other pods
const ROUNDS = 7;
const ITEMS_PER_CALL_MAX = 100;
/** The goals of design.md ("Speed"). */
const GOAL = {
  tens: { name: "design.md: 50,000 in tens", value: 50_000 },
  hundreds: { name: "design.md: 100,000 in hundreds", value: 100_000 },
};
const SPIKE_SINGLE = { name: "design.md: 8,600 one by one", value: 8_600 };
const SNAPSHOT_GOAL_MS = { name: "design.md: 1 ms", value: 1 };
const MANIFEST_GOAL_MS = { name: "informer §11.5: 15 ms for 5,000", value: 3 };
const BYTES_GOAL = { name: "goal with MACs: at most 800", value: 800 };

/** @throws {Error} if redis-server is unavailable */
export async function bench(): Promise<readonly BenchResult[]> {
  const reason = ensureRedisServer();
  if (reason !== undefined) throw new Error(reason);
  const server = await startRedis();
  const client = new Redis(server.url);
  const unsigned = await startRedis();
  const unsignedClient = new Redis(unsigned.url);
  try {
    const feed = new Feed(storeOf(client, testSigner(CLUSTER)));
    await feed.open();
    const unsignedFeed = new Feed(storeOf(unsignedClient, NULL_SIGNER));
    await unsignedFeed.open();
    for (let owner = 0; owner < OWNERS; owner++) await unsignedFeed.addPods(owner);
    const before = await usedBytes(client);
    for (let owner = 0; owner < OWNERS; owner++) await feed.addPods(owner);
    const bytes = ((await usedBytes(client)) - before) / (OWNERS * PODS_PER_OWNER);
    return [
      await deltas(feed, 1, 1, 2_000, "one by one", SPIKE_SINGLE),
      await deltas(feed, 10, 1, 4_000, "in packs of 10", GOAL.tens),
      await deltas(feed, 100, 1, 20_000, "in packs of 100", GOAL.hundreds),
      await deltas(feed, 1, 16, 4_000, "one by one, 16 calls at once"),
      await deltas(feed, 10, 16, 10_000, "in packs of 10, 16 calls at once", GOAL.tens),
      await deltas(feed, 100, 4, 20_000, "in packs of 100, 4 calls at once", GOAL.hundreds),
      await snapshots(feed, 300),
      await manifests(feed),
      ...macPerRow(),
      ...(await sideBySide(
        "applyPack in packs of 100",
        () => rate(feed, 100, 1, 10_000),
        () => rate(unsignedFeed, 100, 1, 10_000),
      )),
      ...(await sideBySide(
        "applyPack one by one",
        () => rate(feed, 1, 1, 2_000),
        () => rate(unsignedFeed, 1, 1, 2_000),
      )),
      benchResult(`Redis memory of a pod (${OWNERS * PODS_PER_OWNER} pods, all in)`, "bytes", [bytes], BYTES_GOAL),
    ];
  } finally {
    client.disconnect();
    unsignedClient.disconnect();
    await server.stop();
    await unsigned.stop();
  }
}

function storeOf(client: Redis, signer: Signer): Store {
  const identity = { projection: 1, digestPrefix: "k.1", hashLayout: "v1.36" };
  return createRedisStore(client, { deployment: "bench", cluster: CLUSTER, identity, signer, holeLimitMs: HOLE_LIMIT_MS });
}

async function usedBytes(client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1]);
}

async function deltas(
  feed: Feed,
  packSize: number,
  concurrency: number,
  count: number,
  how: string,
  against?: { readonly name: string; readonly value: number },
): Promise<BenchResult> {
  const rounds: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const deltasPerSecond = await rate(feed, packSize, concurrency, count);
    if (round > 0) rounds.push(deltasPerSecond); // the first round warms up
  }
  return benchResult(`deltas ${how}`, "deltas/s", rounds, against);
}

async function rate(feed: Feed, packSize: number, concurrency: number, count: number): Promise<number> {
  const packs = feed.packs(count, packSize);
  const start = performance.now();
  await Promise.all(Array.from({ length: concurrency }, (_, worker) => feed.send(packs, worker, concurrency)));
  return (count / (performance.now() - start)) * 1_000;
}

async function snapshots(feed: Feed, count: number): Promise<BenchResult> {
  const rounds: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    let ms = 0;
    for (let i = 0; i < count; i++) ms += await feed.snapshot(`${round}-${i}`);
    if (round > 0) rounds.push(ms / count);
  }
  return benchResult(`snapshot of ${PODS_PER_OWNER} pods, ${(OWNERS - 1) * PODS_PER_OWNER} others cached`, "ms", rounds, SNAPSHOT_GOAL_MS);
}

/**
 * Measures the manifests of every pod lane, which list exactly the cached pods: rows are verified and none is swept. Informer §11.5 allows
 * 15 ms for 5,000 rows.
 */
async function manifests(feed: Feed): Promise<BenchResult> {
  const rounds: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const ms = await feed.verifyLanes();
    if (round > 0) rounds.push((ms / (OWNERS * PODS_PER_OWNER)) * 1_000);
  }
  return benchResult("manifest, for 1,000 listed rows", "ms", rounds, MANIFEST_GOAL_MS);
}

/** Watcher and applier in one: knows the resourceVersions that it wrote last, so that every delta succeeds at the first attempt. */
class Feed {
  readonly #store: Store;
  readonly #sequences = new Map<string, number>();
  /** The resourceVersion of each pod, by pod number. */
  readonly #pods: string[] = [];
  #rv = 1_000_000;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Opens an epoch, with every gate open and the owners cached. */
  async open(): Promise<void> {
    await this.#store.openEpoch({ epoch: EPOCH, clusterUid: "uid", projection: 1, digestPrefix: "k.1", hashLayout: "v1.36", fence: FENCE });
    for (const resource of CACHED_RESOURCES) {
      await this.#store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: LANES[resource] });
      const opened = await this.#store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
      if (opened.kind !== "open") throw new Error(opened.kind);
      for (let lane = 0; lane < LANES[resource]; lane++) {
        const header = { ...this.#header(resource, lane), generation: opened.generation };
        await this.#store.applyManifest(header, { listRV: "1", rows: [], sweep: [], counts: [] });
      }
    }
    for (let owner = 0; owner < OWNERS; owner++) {
      const item = ownerItem(owner, String(++this.#rv));
      const result = await this.#store.applyPack(
        { ...this.#header("replicasets", laneOf(item.key, LANES.replicasets)), kind: "D" },
        [item],
        { counts: [], commit: { watermark: item.rv } },
      );
      if (result.kind !== "applied") throw new Error(result.kind);
    }
  }

  async addPods(owner: number): Promise<void> {
    const items = Array.from({ length: PODS_PER_OWNER }, (_, i) => this.#podItem(owner * PODS_PER_OWNER + i));
    for (const pack of byLane(items)) await this.#apply(pack.lane, pack.items);
  }

  /** Returns `count` changes of different pods of many owners, as packs of one lane each. */
  packs(count: number, packSize: number): readonly Pack[] {
    const packs: Pack[] = [];
    for (let made = 0; made < count;) {
      const round = Math.min(count - made, this.#pods.length);
      const offset = made % this.#pods.length;
      const items = Array.from({ length: round }, (_, i) => this.#podItem((i + offset) % this.#pods.length));
      for (const { lane, items: ofLane } of byLane(items)) {
        for (let at = 0; at < ofLane.length; at += packSize) packs.push({ lane, items: ofLane.slice(at, at + packSize) });
      }
      made += round;
    }
    return packs;
  }

  /** Sends every `of`-th lane's packs in order, as that lane's applier does. */
  async send(packs: readonly Pack[], worker: number, of: number): Promise<void> {
    for (const pack of packs) if (pack.lane % of === worker) await this.#apply(pack.lane, pack.items);
  }

  /** Returns the duration of one take of the first owner, in ms. */
  async snapshot(token: string): Promise<number> {
    const run = { epoch: EPOCH, controller: "replicaset", key: ownerKey(0), token } as const;
    await this.#store.add(EPOCH, "replicaset", ownerKey(0), 0);
    const start = performance.now();
    const taken = await this.#store.take(run, { uid: ownerUid(0) });
    const ms = performance.now() - start;
    if (taken.kind !== "ok" || taken.snapshot.dependents.length !== PODS_PER_OWNER)
      throw new Error(`take answered ${JSON.stringify(taken).slice(0, 200)}`);
    await this.#store.done(run, { kind: "ok" });
    return ms;
  }

  /** Returns the total duration of the manifests of all pod lanes, in ms. */
  async verifyLanes(): Promise<number> {
    const opened = await this.#store.openGeneration({ epoch: EPOCH, fence: FENCE, resource: "pods" });
    if (opened.kind !== "open") throw new Error(opened.kind);
    let ms = 0;
    for (let lane = 0; lane < LANES.pods; lane++) {
      const rows = (await this.#store.readLane("pods", lane)).rows;
      const header = { ...this.#header("pods", lane), generation: opened.generation };
      const start = performance.now();
      const result = await this.#store.applyManifest(header, { listRV: String(this.#rv), rows, sweep: [], counts: [] });
      ms += performance.now() - start;
      if (result.kind !== "applied") throw new Error(result.kind);
    }
    return ms;
  }

  async #apply(lane: number, items: readonly ItemChange[]): Promise<void> {
    for (let at = 0; at < items.length; at += ITEMS_PER_CALL_MAX) {
      const part = items.slice(at, at + ITEMS_PER_CALL_MAX);
      const result = await this.#store.applyPack({ ...this.#header("pods", lane), kind: "D" }, part, {
        counts: [],
        commit: { watermark: part.at(-1)?.rv ?? "0" },
      });
      if (result.kind !== "applied" || result.outcomes.some((outcome) => outcome !== "changed"))
        throw new Error(`applyPack answered ${JSON.stringify(result).slice(0, 200)}`);
    }
  }

  #header(
    resource: CachedResource,
    lane: number,
  ): {
    readonly epoch: string;
    readonly fence: string;
    readonly generation: number;
    readonly resource: CachedResource;
    readonly lane: number;
    readonly sequence: number;
  } {
    const id = `${resource} ${lane}`;
    const sequence = (this.#sequences.get(id) ?? 0) + 1;
    this.#sequences.set(id, sequence);
    return { epoch: EPOCH, fence: FENCE, generation: 1, resource, lane, sequence };
  }

  #podItem(number: number): ItemChange {
    const owner = Math.floor(number / PODS_PER_OWNER);
    const before = this.#pods[number];
    const rv = String(++this.#rv);
    this.#pods[number] = rv;
    const object = pod(number, owner, rv);
    const uid = ownerUid(owner);
    return {
      type: "put",
      key: objectKey(NAMESPACE, object.name),
      uid: object.uid,
      rv,
      object,
      owner: ownerIdOf(owner),
      ...(before !== undefined && { expected: { rv: before, uid: object.uid, owner: ownerIdOf(owner) } }),
      effects: [{ controller: "replicaset", key: ownerKey(owner), uid, urgency: before === undefined ? "act" : "status" }],
      counted: false,
      lowers: [{ owner: ownerIdOf(owner), op: `c:${object.name}` }],
    };
  }
}

interface Pack {
  readonly lane: number;
  readonly items: readonly ItemChange[];
}

function byLane(items: readonly ItemChange[]): readonly Pack[] {
  const lanes = Map.groupBy(items, (item) => laneOf(item.key, LANES.pods));
  return [...lanes].map(([lane, ofLane]) => ({ lane, items: ofLane }));
}

const hex = (number: number, length: number): string => number.toString(16).padStart(length, "0");
const ownerUid = (owner: number): string => `5f0c3a1e-7b2d-4c6e-9a8f-${hex(owner, 12)}`;
const ownerIdOf = (owner: number): OwnerId => primaryAsOwner("replicaset", ownerKey(owner), ownerUid(owner));
const ownerName = (owner: number): string => `web-frontend-${hex(owner, 4)}-7f8fb6d5c9`;
const ownerKey = (owner: number): string => objectKey(NAMESPACE, ownerName(owner));

/** A cached pod of typical size: about 330 bytes of JSON with all fields, about 230 as stored. */
function pod(number: number, owner: number, rv: string): CachedPod {
  return {
    namespace: NAMESPACE,
    name: `${ownerName(owner)}-${hex(number, 5)}`,
    uid: `9d3b7c52-1f4e-4a6b-8c0d-${hex(number, 12)}`,
    resourceVersion: rv,
    labels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" },
    owner: { kind: "ReplicaSet", name: ownerName(owner), uid: ownerUid(owner) },
    creationTimestamp: "2026-03-01T10:00:00Z",
    nodeName: `ip-10-0-${owner % 250}-17`,
    phase: "Running",
    ready: { status: "True", since: "2026-03-01T10:00:02Z" },
  };
}

function ownerItem(owner: number, rv: string): ItemChange {
  const object: CachedReplicaSet = {
    metadata: {
      namespace: NAMESPACE,
      name: ownerName(owner),
      uid: ownerUid(owner),
      resourceVersion: rv,
      generation: 1,
      labels: { app: "web-frontend" },
    },
    spec: {
      replicas: PODS_PER_OWNER,
      selector: { matchLabels: { app: "web-frontend" } },
      template: { labels: { app: "web-frontend" }, digest: "k.1.0123456789abcdef" },
    },
    status: { replicas: PODS_PER_OWNER },
  };
  return { type: "put", key: ownerKey(owner), uid: ownerUid(owner), rv, object, effects: [], counted: true, lowers: [] };
}

if (import.meta.main) {
  for (const { name, value, unit, spread, ratio, against } of await bench()) {
    const round = (number: number): string => (number < 100 ? number.toFixed(2) : Math.round(number).toLocaleString("en"));
    process.stdout.write(
      `${name}: ${round(value)} ${unit} [${round(spread[0])} – ${round(spread[1])}]${ratio === undefined ? "" : ` ${ratio.toFixed(2)}× ${against}`}\n`,
    );
  }
}
