/**
 * The whole applier on real Redis: delta messages of pod status changes, as the watcher encodes them, through applyMessage (decode, strip,
 * look up, one step of the Store). The difference to the benchmark applier-store is the cost of decoding and lookups. Uses one redis-server
 * and one client process; "16 at once" means 16 lanes in parallel, as with the event source mapping.
 */
import { testSigner } from "../support/signer.ts";
import { Redis } from "ioredis";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { Signer } from "../../shared/store/signer.ts";
import { LANES, laneOf } from "../../shared/store/lane.ts";
import { CACHED_RESOURCES, objectKey } from "../../shared/kube/objects/resources.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { applyMessage } from "../../shared/controllers/cache/applier.ts";
import type { ApplierPorts } from "../../shared/controllers/cache/applier.ts";
import { ENVELOPE_VERSION } from "../../shared/controllers/cache/messages/envelope.ts";
import type { Envelope, EnvelopeItem } from "../../shared/controllers/cache/messages/envelope.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import { encodePack } from "../../shared/controllers/cache/messages/pack-codec.ts";
import { CORE_CACHE } from "../../shared/controllers/registry/registry.ts";
import { HOLE_LIMIT_MS } from "../../shared/base/times.ts";
import { silentLog } from "../support/silent-log.ts";
import { NULL_SIGNER, sideBySide } from "./mac.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import { NAMESPACE, owner, podIdentity, podObject, replicaSetObject } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const CLUSTER = "0123456789ab";
const EPOCH = "bench";
const FENCE = "1000";
const OWNERS = 100;
const PODS = 10_000;
const ROUNDS = 7;
const ITEMS_PER_LIST_MESSAGE = 100;

/** @throws {Error} if redis-server is unavailable */
export async function bench(): Promise<readonly BenchResult[]> {
  const reason = ensureRedisServer();
  if (reason !== undefined) throw new Error(reason);
  const server = await startRedis();
  const client = new Redis(server.url);
  const unsigned = await startRedis();
  const unsignedClient = new Redis(unsigned.url);
  try {
    const feed = new Feed(client, testSigner(CLUSTER));
    await feed.open();
    const unsignedFeed = new Feed(unsignedClient, NULL_SIGNER);
    await unsignedFeed.open();
    return [
      await deltas(feed, 1, 1, 1_000, "one by one"),
      await deltas(feed, 10, 1, 3_000, "in packs of 10"),
      await deltas(feed, 100, 1, 10_000, "in packs of 100"),
      await deltas(feed, 1, 16, 3_000, "one by one, 16 at once"),
      await deltas(feed, 10, 16, 10_000, "in packs of 10, 16 at once"),
      await deltas(feed, 100, 4, 10_000, "in packs of 100, 4 at once"),
      ...(await sideBySide(
        "messages in packs of 100",
        () => rate(feed, 100, 1, 10_000),
        () => rate(unsignedFeed, 100, 1, 10_000),
      )),
      ...(await sideBySide(
        "messages one by one, 16 at once",
        () => rate(feed, 1, 16, 3_000),
        () => rate(unsignedFeed, 1, 16, 3_000),
      )),
    ];
  } finally {
    client.disconnect();
    unsignedClient.disconnect();
    await server.stop();
    await unsigned.stop();
  }
}

async function rate(feed: Feed, packSize: number, concurrency: number, count: number): Promise<number> {
  const lanes = feed.statusChanges(count, packSize);
  const workers = Array.from({ length: concurrency }, (_, worker) => lanes.filter((_lane, lane) => lane % concurrency === worker).flat());
  const start = performance.now();
  await Promise.all(workers.map((bodies) => feed.apply(bodies)));
  return (count / (performance.now() - start)) * 1_000;
}

async function deltas(feed: Feed, packSize: number, concurrency: number, count: number, how: string): Promise<BenchResult> {
  const rounds: number[] = [];
  for (let round = -1; round < ROUNDS; round++) {
    const deltasPerSecond = await rate(feed, packSize, concurrency, count);
    if (round >= 0) rounds.push(deltasPerSecond); // the first round warms up
  }
  return benchResult(`messages of deltas ${how}`, "deltas/s", rounds);
}

/** Watcher and applier in one: numbers its own messages. */
class Feed {
  readonly #digester = createDigester("bench");
  readonly #store;
  readonly #ports: ApplierPorts;
  readonly #signer: Signer;
  readonly #sequences = new Map<string, number>();
  #rv = 1_000_000;
  #ready = false;

  constructor(client: Redis, signer: Signer) {
    this.#signer = signer;
    this.#store = createRedisStore(client, {
      deployment: "bench",
      cluster: CLUSTER,
      identity: cacheIdentity(this.#digester),
      signer,
      holeLimitMs: HOLE_LIMIT_MS,
    });
    const reader = { get: () => Promise.resolve(undefined), list: () => Promise.reject(new Error("nothing is listed here")) };
    const cluster = { store: this.#store, signer, doorbells: { ring: () => Promise.resolve() }, reader };
    this.#ports = {
      cluster: () => cluster,
      clusters: [CLUSTER],
      registry: CORE_CACHE,
      digester: this.#digester,
      clock: createSystemClock(),
      log: silentLog,
    };
  }

  /** Lists everything once, so that the gates are open. */
  async open(): Promise<void> {
    await this.#store.openEpoch({ epoch: EPOCH, clusterUid: "uid", fence: FENCE, ...cacheIdentity(this.#digester) });
    const objects: Partial<Record<CachedResource, readonly EnvelopeItem[]>> = {
      replicasets: Array.from({ length: OWNERS }, (_, number) => this.#replicaSet(number)),
      pods: this.#pods(PODS),
    };
    for (const resource of CACHED_RESOURCES) {
      await this.#store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: LANES[resource] });
      await this.#store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
      for (const [lane, items] of byLane(resource, objects[resource] ?? []).entries()) {
        const bodies: string[] = [];
        for (const part of chunks(items, ITEMS_PER_LIST_MESSAGE))
          bodies.push(this.#message(resource, lane, { k: "L", L: String(this.#rv), items: part }));
        const rows = items.map(({ key, uid, rv }) => ({ key, uid, rv }));
        bodies.push(this.#message(resource, lane, { k: "M", L: String(this.#rv), part: 1, parts: 1, rows }));
        await this.apply(bodies);
      }
    }
  }

  /** Returns the bodies of messages with `packSize` changes each, by lane. */
  statusChanges(count: number, packSize: number): readonly (readonly string[])[] {
    this.#ready = !this.#ready;
    return byLane("pods", this.#pods(count)).map((items, lane) =>
      chunks(items, packSize).map((part) => this.#message("pods", lane, { k: "D", items: part })),
    );
  }

  async apply(bodies: readonly string[]): Promise<void> {
    for (const body of bodies) {
      const verdict = await applyMessage(this.#ports, { id: "bench", body });
      if (verdict.kind !== "ack") throw new Error(verdict.why);
    }
  }

  #pods(count: number): readonly EnvelopeItem[] {
    return Array.from({ length: count }, (_, number) => {
      const of = owner(number % OWNERS);
      const rv = String(++this.#rv);
      const { name, uid } = podIdentity(number, of);
      return { t: "M", key: objectKey(NAMESPACE, name), uid, rv, o: strip("pods", podObject(number, of, rv, this.#ready), this.#digester) };
    });
  }

  #replicaSet(number: number): EnvelopeItem {
    const of = owner(number);
    const rv = String(++this.#rv);
    const o = strip("replicasets", replicaSetObject(of, rv, PODS / OWNERS), this.#digester);
    return { t: "A", key: objectKey(NAMESPACE, of.name), uid: of.uid, rv, o };
  }

  #message(resource: CachedResource, lane: number, content: Content): string {
    const id = `${resource} ${lane}`;
    const sequence = (this.#sequences.get(id) ?? 0) + 1;
    this.#sequences.set(id, sequence);
    return encodePack(
      { v: ENVELOPE_VERSION, c: CLUSTER, r: resource, e: EPOCH, f: FENCE, g: 1, ln: lane, sq: sequence, ts: 0, ...content },
      this.#signer,
    );
  }
}

type Content =
  | Pick<Extract<Envelope, { readonly k: "D" }>, "k" | "items">
  | Pick<Extract<Envelope, { readonly k: "L" }>, "k" | "L" | "items">
  | Pick<Extract<Envelope, { readonly k: "M" }>, "k" | "L" | "part" | "parts" | "rows">;

function byLane(resource: CachedResource, items: readonly EnvelopeItem[]): readonly (readonly EnvelopeItem[])[] {
  const lanes: EnvelopeItem[][] = Array.from({ length: LANES[resource] }, () => []);
  for (const item of items) lanes[laneOf(item.key, lanes.length)]?.push(item);
  return lanes;
}

function chunks<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
