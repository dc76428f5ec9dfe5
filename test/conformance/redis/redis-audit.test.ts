// The audit on a real Redis: restored rows, and requeued owners.
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { entryText, rowText } from "../../../shared/store/redis/rows.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { laneOf, LANES } from "../../../shared/store/lane.ts";
import { primaryAsOwner } from "../../../shared/kube/objects/owner-id.ts";
import type { ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { applyMessage } from "../../../shared/controllers/cache/applier.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { runWatcher } from "../../../shared/controllers/cache/watcher/watcher.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../../shared/api-server/in-process-client.ts";
import type { QueueEntry } from "../../../shared/store/ports/delta-queue.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../../shared/base/times.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { ensureRedisServer, startRedis } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import { testSigner } from "../../support/signer.ts";
import { soleLeader } from "../../../shared/local/assemble-system.ts";
import { recordingLog } from "../../unit/recording-log.ts";

const CACHE = { deployment: "audited", cluster: "0123456789ab" } as const;
const UPKEEP = { resyncMs: 36_000_000, resyncSpreadMs: 1_000, auditMs: 240_000, auditSettleMs: 20_000, tickMs: 5_000 };
const STEP_MS = 500;
const reason = ensureRedisServer();

describe.skipIf(reason)(`an audit of a real Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let server: RedisServer;
  let harness: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    harness = await open(server.url);
  });
  afterEach(() => harness.close());

  it("[informer T94] finds nothing when cache and cluster agree", async () => {
    await harness.audited();
    expect(harness.differences()).toEqual([]);
    expect(await harness.cached()).toEqual(["shop/web-0", "shop/web-1", "shop/web-2"]);
  });

  it("[informer T94] restores a row that was removed together with its slice entry, and enqueues its owner", async () => {
    await harness.redis.hdel(...harness.row("shop/web-0"));
    await harness.redis.hdel(harness.slice, "shop/web-0");
    expect(await harness.cached()).toHaveLength(2);
    await harness.audited();
    expect(harness.differences()).toEqual(["missing shop/web-0"]);
    expect(await harness.cached()).toEqual(["shop/web-0", "shop/web-1", "shop/web-2"]);
    expect(harness.rung()).toContain("replicaset shop/web");
  });

  it("[informer T94] restores a slice entry that was removed while its row remained", async () => {
    await harness.redis.hdel(harness.slice, "shop/web-1");
    await harness.audited();
    expect(harness.differences()).toEqual(["unbelieved shop/web-1"]);
    expect(await harness.cached()).toEqual(["shop/web-0", "shop/web-1", "shop/web-2"]);
    expect(harness.rung()).toContain("replicaset shop/web");
  });

  it("[informer T94] replaces a row that was modified in Redis by the object from the API server", async () => {
    const [hash, key] = harness.row("shop/web-1");
    const before = await harness.redis.hget(hash, key);
    await harness.redis.hset(hash, key, `9${before}`);
    await harness.audited();
    expect(harness.differences()).toEqual(["unbelieved shop/web-1"]);
    expect(await harness.redis.hget(hash, key)).toBe(before);
  });

  it("[informer T94] replaces a validly signed entry if its version differs from its row's", async () => {
    const old = await harness.redis.hget(harness.slice, "shop/web-2");
    await harness.label("web-2", "changed");
    await harness.redis.hset(harness.slice, "shop/web-2", old ?? "");
    await harness.audited();
    expect(harness.differences()).toEqual(["unbelieved shop/web-2"]);
    expect((await harness.store.readEntries("pods", ["shop/web-2"]))[0]?.row?.object).toMatchObject({ labels: { touched: "changed" } });
  });

  it("[informer T94] replaces a validly signed row if its labels differ at the same version", async () => {
    const [entry] = await harness.store.readEntries("pods", ["shop/web-2"]);
    const { row } = entry ?? {};
    if (!row) throw new Error("the row is not cached");
    await harness.redis.hset(
      harness.slice,
      row.key,
      entryText(await harness.seal(), "pods", { ...row, object: { ...row.object, labels: { app: "api" } } }),
    );
    await harness.audited();
    expect(harness.differences()).toEqual(["other shop/web-2"]);
    expect((await harness.store.readEntries("pods", [row.key]))[0]?.row).toEqual(row);
  });

  it("[informer T94] removes a row whose object does not exist, and enqueues its owner", async () => {
    const [like] = await harness.store.readEntries("pods", ["shop/web-2"]);
    if (!like?.row) throw new Error("the row is not cached");
    const zombie = { ...like.row, key: "shop/web-z", uid: "z", object: { ...like.row.object, name: "web-z", uid: "z" } };
    await harness.redis.hset(...harness.row(zombie.key), rowText(await harness.seal(), "pods", zombie));
    await harness.redis.hset(harness.slice, zombie.key, entryText(await harness.seal(), "pods", zombie));
    expect(await harness.cached()).toHaveLength(4);
    await harness.audited();
    expect(harness.differences()).toEqual(["surplus shop/web-z"]);
    expect(await harness.cached()).toEqual(["shop/web-0", "shop/web-1", "shop/web-2"]);
    expect(harness.rung()).toContain("replicaset shop/web");
  });

  it("[informer T94] removes an entry that has no row, and enqueues its owner", async () => {
    const old = await harness.redis.hget(harness.slice, "shop/web-0");
    await harness.remove("web-0");
    await harness.redis.hset(harness.slice, "shop/web-0", old ?? "");
    harness.forget();
    await harness.audited();
    expect(harness.differences()).toEqual(["ghost shop/web-0"]);
    expect(await harness.cached()).toEqual(["shop/web-1", "shop/web-2"]);
    expect(harness.rung()).toContain("replicaset shop/web");
  });
});

/** A leading watcher on Redis, an applier without backlog, no syncs, and three pods of one ReplicaSet. */
async function open(url: string) {
  const redis = new Redis(url);
  await redis.flushall();
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const random = createSeededRandom(5);
  const digester = createDigester("a key for tests");
  const server = createApiServer({ clock, random, garbageCollection: false });
  const signer = testSigner(CACHE.cluster);
  const store = createRedisStore(redis, { ...CACHE, identity: cacheIdentity(digester), signer, holeLimitMs: HOLE_LIMIT_MS, clock });
  const log = recordingLog();
  const bells: Doorbell[] = [];
  const doorbells = { ring: async (rung: readonly Doorbell[]) => void bells.push(...rung) };
  let waiting: QueueEntry[] = [];
  const queue = { send: async (entries: readonly QueueEntry[]) => (waiting.push(...entries), { failed: [] }) };
  const kube = createInProcessKube(server, { component: "watcher" });
  const leadership = soleLeader();
  const ends = new AbortController();
  const running = runWatcher(
    { kube, store, queue, doorbells, clock, random, digester, signer, log, lead: async () => leadership },
    {
      cluster: CACHE.cluster,
      clusterUid: "uid",
      identity: cacheIdentity(digester),
      holeRelistMs: HOLE_RELIST_MS,
      upkeep: { ...UPKEEP, reader: kube, registry: CORE_CACHE },
    },
    ends.signal,
  );
  const applier = {
    cluster: () => ({ store, signer, doorbells, reader: kube }),
    clusters: [CACHE.cluster],
    registry: CORE_CACHE,
    digester,
    clock,
    log,
  };
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= STEP_MS) {
      await clock.advance(Math.min(left, STEP_MS));
      // Redis responds in order: after the response to this ping, the earlier responses have arrived and their follow-ups are sent.
      for (let round = 0; round < 3; round++) await redis.ping();
      const messages = waiting;
      waiting = [];
      for (const { id, body } of messages) {
        const verdict = await applyMessage(applier, { id, body });
        if (verdict.kind !== "ack") waiting.push({ id, body } as QueueEntry); // the applier reads only these two fields
      }
    }
  };
  const person = rawClientIn(server);
  await person.request("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  await pass(5_000);
  const template = { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "c", image: "i" }] } };
  const rs = await person.request("POST", "/apis/apps/v1/namespaces/shop/replicasets", {
    metadata: { name: "web" },
    spec: { replicas: 3, selector: { matchLabels: { app: "web" } }, template },
  });
  const { uid } = rs["metadata"] as { readonly uid: string }; // every object has a uid
  const reference = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid, controller: true, blockOwnerDeletion: true };
  for (const name of ["web-0", "web-1", "web-2"])
    await person.request("POST", "/api/v1/namespaces/shop/pods", {
      ...template,
      metadata: { name, labels: { app: "web" }, ownerReferences: [reference] },
    });
  await pass(5_000);
  bells.length = 0;
  const { epoch = "" } = (await store.epoch()) ?? {};
  const names = deploymentKeys(CACHE.deployment, CACHE.cluster).of(epoch);
  const owner = primaryAsOwner("replicaset", "shop/web", uid);
  const path = "/api/v1/namespaces/shop/pods";
  return {
    redis,
    store,
    slice: names.slice("pods", owner),
    row: (key: ObjectKey) => [names.lane("pods", laneOf(key, LANES.pods))[1], key] as const,
    seal: async () => ({ signer, epoch }),
    /** The pods in the ReplicaSet's slice. */
    cached: async () => Object.keys(await redis.hgetall(names.slice("pods", owner))).toSorted(),
    label: async (name: string, touched: string) => {
      await person.request("PATCH", `${path}/${name}`, { metadata: { labels: { touched } } }, "application/merge-patch+json");
      await pass(2_000);
    },
    remove: async (name: string) => {
      await person.request("DELETE", `${path}/${name}`, { gracePeriodSeconds: 0 });
      await pass(2_000);
    },
    /** Lets a whole audit period pass, so every difference is found and repaired. */
    audited: () => pass(UPKEEP.auditMs),
    forget: () => void (bells.length = 0),
    rung: () => bells.map(({ controller, key }) => `${controller} ${key}`),
    differences: () =>
      log.lines
        .filter(({ message }) => message === "the cache differs from the API server")
        .map(({ fields }) => `${String(fields["difference"])} ${String(fields["rows"])}`),
    close: async () => {
      ends.abort();
      await clock.advance(1);
      await running;
      redis.disconnect();
      server.close();
    },
  };
}
