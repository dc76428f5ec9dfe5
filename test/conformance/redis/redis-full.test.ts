/** A real Redis at its maxmemory (informer §11.10). */
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createApplyDeltas } from "../../../functions/apply-deltas/handler.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryDeltaQueue } from "../../../shared/store/memory/queue/delta-queue.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { LANES } from "../../../shared/store/lane.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { runWatcher } from "../../../shared/controllers/cache/watcher/watcher.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../../shared/api-server/in-process-client.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import { serving } from "../../../shared/controllers/lambda/wiring.ts";
import { EPOCH_GRACE_FULL_MS, HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../../shared/base/times.ts";
import { cachedPod, cachedReplicaSet, listed, put, remove } from "../../support/builders.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import { ensureRedisServer, startRedis } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { soleLeader } from "../../../shared/local/assemble-system.ts";
import { recordingLog } from "../../unit/recording-log.ts";
import { EPOCH, FIRST_BEAT, IDENTITY, StoreHarness } from "../../harness/store/store.ts";
import { redisFixture } from "./fixtures.ts";

const CACHE = { deployment: "full", cluster: "0123456789ab" } as const;
const STEP_MS = 500;
const OOM = /OOM command not allowed/;
const reason = ensureRedisServer();

describe.skipIf(reason)(`a full Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let server: RedisServer;
  let admin: Redis;
  beforeAll(async () => {
    server = await startRedis();
    admin = new Redis(server.url);
  });
  beforeEach(async () => {
    await admin.config("SET", "maxmemory", "0");
    await admin.flushall();
  });
  afterAll(async () => {
    admin.disconnect();
    await server.stop();
  });
  const used = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  /** Makes Redis full; deleting keys does not free enough memory. */
  const fill = async (): Promise<void> => void (await admin.config("SET", "maxmemory", "1"));
  const makeRoom = async (): Promise<void> => void (await admin.config("SET", "maxmemory", "0"));

  describe("the Store", () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      const fixture = await redisFixture(() => new Redis(server.url))({ ...CACHE, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS });
      harness = await new StoreHarness(fixture).synced();
      await harness.seed(
        "pods",
        [10, 11, 12].map((rv) => put(cachedPod({ name: `web-${rv}`, resourceVersion: String(rv) }))),
      );
      return () => fixture.close();
    });
    const pod = (n: number, rv: number = n) => cachedPod({ name: `web-${n}`, resourceVersion: String(rv) });
    const cached = async (): Promise<readonly string[]> => (await harness.store.readLane("pods", 0)).rows.map(({ key }) => key);
    const checkpoint = () => harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: { pods: "12" }, ...FIRST_BEAT });

    it("[informer FU1] accepts small writes and writes that free memory", async () => {
      await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
      await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
      const run = harness.run("replicaset", "shop/web");
      await fill();
      expect(await harness.deliver("pods", [remove(pod(10), "20")])).toMatchObject({ kind: "applied", outcomes: ["changed"] });
      expect(await cached()).toEqual(["shop/web-11", "shop/web-12"]);
      expect(await harness.deliver("pods", [], { kind: "W", watermark: "21" })).toMatchObject({ kind: "applied" });
      expect(await checkpoint()).toMatchObject({ kind: "ok", full: true });
      expect((await harness.store.readLane("pods", 0)).watermark).toBe("21");
      expect((await harness.store.take(run, { uid: cachedReplicaSet().metadata.uid })).kind).toBe("ok");
      expect(await harness.store.renew(run)).toEqual(expect.any(Number));
      await harness.store.done(run, { kind: "retry" });
      await harness.pass(15_000);
      expect(await harness.store.sweep(harness.epoch)).toHaveLength(1);
      await harness.store.quarantine({ what: "x", where: "y", why: "z", atMs: 0 });
      await harness.store.noteForgery({ messageId: "x", where: "y", why: "z", bytes: 1, atMs: 0 });
      await harness.store.takeTurns(harness.epoch, [{ job: "audit pods", afterMs: 1_000 }]);
      await harness.store.markSuspect("pods", "somebody said so");
      const write = { resource: "deployments", key: "shop/web", manager: "other", atMs: harness.now() } as const;
      expect((await harness.store.reportForeignWrites({ namespaces: [write] }, harness.now())).namespaces.get("shop")?.stop).toMatchObject({
        write,
      });
      await harness.raiseFence("200");
      for (const resource of ["pods", "replicasets"] as const) await harness.openGeneration(resource);
      const late = { ...harness.header("pods", { lane: 0 }), sequence: 9 };
      expect(await harness.store.stashManifest(late, [])).toEqual({ kind: "early" });
      expect((await harness.store.stashManifest(harness.header("pods", { lane: 0 }), [listed(pod(12))])).kind).toBe("applied");
      expect(await harness.store.openEpoch({ ...EPOCH, epoch: "e2", fence: "200" }, "e1")).toEqual({ kind: "opened" });
      expect((await harness.store.openFence({ epoch: "e2", fence: "200", resource: "pods", lanes: 1 })).kind).toBe("open");
      expect((await harness.store.openGeneration({ epoch: "e2", fence: "200", resource: "pods" })).kind).toBe("open");
    });

    it("[informer FU4] a stored time in the future, written by another client, does not make the Store report that it is full", async () => {
      await admin.hset((await admin.keys("*:ep"))[0] ?? "", "full", String(harness.now() + 60_000));
      expect(await checkpoint()).not.toHaveProperty("full");
    });

    it("[informer FU1] rejects the registration of intents, so that the sync sends no write", async () => {
      await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
      await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
      const run = harness.run("replicaset", "shop/web");
      const { uid } = cachedReplicaSet().metadata;
      await fill();
      await harness.store.take(run, { uid });
      await expect(harness.store.registerIntents(run, uid, [{ id: "c:web-1", verb: "create", name: "web-1" }])).rejects.toThrow(OOM);
    });

    it("[informer FU2] rejects a message with puts, and applies none of its items", async () => {
      await fill();
      await expect(harness.deliver("pods", [remove(pod(10), "20"), put(pod(13, 21))])).rejects.toThrow(OOM);
      expect(await cached()).toHaveLength(3);
      expect(await harness.store.gate("replicaset")).toEqual({ open: true });
      await makeRoom();
      expect(await harness.deliver("pods", [remove(pod(10), "20"), put(pod(13, 21))])).toMatchObject({ outcomes: ["changed", "changed"] });
    });

    it("[informer FU2] omits puts on request: applies deletes, stops the watermark, and closes the gate until a later list", async () => {
      await harness.openGeneration("pods"); // an earlier list, which lacks the omitted objects
      await fill();
      const mixed = [put(pod(13, 20)), remove(pod(10), "21"), put(pod(11, 22))];
      expect(await harness.deliver("pods", mixed, { leaveOut: true })).toMatchObject({
        kind: "applied",
        outcomes: ["full", "changed", "full"],
      });
      expect(await cached()).toEqual(["shop/web-11", "shop/web-12"]);
      // The lane no longer waits.
      expect(await harness.deliver("pods", [put(pod(14, 23)), remove(pod(12), "24")])).toMatchObject({ outcomes: ["full", "changed"] });
      expect(await cached()).toEqual(["shop/web-11"]);
      expect((await harness.store.readLane("pods", 0)).watermark).toBe("12");
      expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("the store is full") });
      const health = await checkpoint();
      expect(health.kind === "ok" && health.resources.find(({ resource }) => resource === "pods")).toMatchObject({
        state: "SUSPECT",
        frozenLanes: [0],
      });

      await makeRoom();
      const exist = [pod(11, 22), pod(13, 20), pod(14, 23)];
      await harness.deliver(
        "pods",
        exist.map((each) => put(each)),
        { kind: "L", listRV: "25" },
      );
      expect(await harness.manifest("pods", exist.map(listed), "25")).toMatchObject({ kind: "applied" });
      expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
      await harness.relist("pods", exist, "25", (each) => put(each));
      expect(await harness.store.gate("replicaset")).toEqual({ open: true });
      expect(await cached()).toEqual(["shop/web-11", "shop/web-13", "shop/web-14"]);
      expect(await checkpoint()).toMatchObject({ kind: "ok", full: true }); // Redis was full within the last seconds
      await harness.fixture.clock.advance(10_000);
      expect(await checkpoint()).not.toHaveProperty("full");
    });

    it("[informer FU2] does not count an omitted item in the metrics", async () => {
      const before = (await harness.store.tallies()).find(({ resource }) => resource === "pods");
      await fill();
      await harness.deliver("pods", [put(pod(13, 20)), remove(pod(10), "21")], { leaveOut: true });
      const after = (await harness.store.tallies()).find(({ resource }) => resource === "pods");
      expect(after?.received).toBe((before?.received ?? 0) + 1);
      expect(after?.fates.applied).toBe((before?.fates.applied ?? 0) + 1);
    });

    it("[informer FU3] a manifest removes unlisted objects even if listed ones do not fit, and the lane stays frozen", async () => {
      await harness.openGeneration("pods");
      await fill();
      expect(await harness.manifest("pods", [listed(pod(12)), listed(pod(13))], "30")).toEqual({ kind: "needed", keys: ["shop/web-13"] });
      expect(await cached()).toEqual(["shop/web-12"]);
      expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
      expect((await harness.store.readLane("pods", 0)).watermark).toBe("12");
    });

    it("[informer FU5] removes keys of older epochs after a shorter grace period", async () => {
      const clock = harness.fixture.clock;
      const pipeline = admin.pipeline();
      for (let i = 0; i < 3_000; i++) pipeline.hset(`dl:full:{0123456789ab}:e0:s:pods:${i}`, "f", "v");
      await pipeline.exec();
      const left = async (): Promise<number> => (await admin.keys("*:e0:*")).length;
      await fill();
      expect(await harness.store.forgetEpochs(harness.epoch, true)).toBe(0);
      await clock.advance(EPOCH_GRACE_FULL_MS - 1);
      expect(await harness.store.forgetEpochs(harness.epoch, true)).toBe(0);
      await clock.advance(1);
      expect(await harness.store.forgetEpochs(harness.epoch)).toBe(0);
      await harness.store.forgetEpochs(harness.epoch, true);
      await harness.store.forgetEpochs(harness.epoch, true);
      expect(await left()).toBe(0);
      expect(await cached()).toHaveLength(3);
    });
  });

  describe("watcher and applier", () => {
    it("[informer T110] fill the Store, and continue without intervention after objects were deleted in the cluster", async () => {
      const harness = await open(server.url);
      await harness.create("small-0");
      await harness.pass(5_000);
      await admin.config("SET", "maxmemory", String((await used()) + 600_000));
      for (let i = 0; i < 20; i++) await harness.create(`fat-${i}`, FAT);
      await harness.pass(30_000);
      expect(await harness.gate()).toMatchObject({ open: false, reason: expect.stringContaining("the store is full") });
      expect(harness.messages()).toContain("the store is full: objects are skipped and gates close until it has room");
      for (let i = 1; i < 20; i++) await harness.create(`small-${i}`); // an object without room comes before every delete
      await harness.pass(5_000);
      for (let i = 0; i < 20; i++) await harness.remove(`fat-${i}`);
      await harness.pass(60_000);
      expect(await harness.cached()).toEqual(harness.existing());
      expect(harness.existing()).toHaveLength(20);
      expect(await harness.gate()).toEqual({ open: true });
      expect(harness.messages()).toContain("the store has room again");
      await harness.close();
    });

    it("[informer T110] redeliver rejected messages and omit nothing if the Store is full for only 5 s", async () => {
      const harness = await open(server.url);
      await fill();
      await harness.create("late");
      await harness.pass(4_500);
      expect(await harness.cached()).toEqual([]);
      await makeRoom();
      await harness.pass(5_000);
      expect(await harness.cached()).toEqual(["shop/late"]);
      expect(await harness.gate()).toEqual({ open: true });
      expect(harness.messages()).not.toContain("raising the fence");
      await harness.close();
    });

    it("[informer T111] delete the old epoch first if a new one would not fit in addition", async () => {
      const empty = await used();
      const harness = await open(server.url);
      for (let i = 0; i < 30; i++) await harness.create(`fat-${i}`, FAT);
      await harness.pass(10_000);
      const one = (await used()) - empty;
      await admin.config("SET", "maxmemory", String(Math.floor(empty + 1.5 * one)));
      await admin.del((await admin.keys("*:ep"))[0] ?? "");
      await harness.pass(10_000);
      expect(await harness.gate()).toMatchObject({ open: false });
      await harness.pass(60_000);
      expect(await harness.cached()).toEqual(harness.existing());
      expect(await harness.gate()).toEqual({ open: true });
      await harness.close();
    });
  });
});

/** Labels of a pod, about 70 KB in total. */
const FAT = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`l${i}`, "v".repeat(60)]));

/** A leading watcher on Redis, and the applier's function on a FIFO queue: an unapplied message blocks its lane and is redelivered. */
async function open(url: string) {
  const redis = new Redis(url);
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const random = createSeededRandom(5);
  const digester = createDigester("a key for tests");
  const server = createApiServer({ clock, random, garbageCollection: false });
  const signer = testSigner(CACHE.cluster);
  const store = createRedisStore(redis, { ...CACHE, identity: cacheIdentity(digester), signer, holeLimitMs: HOLE_LIMIT_MS, clock });
  const log = recordingLog();
  const doorbells = { ring: async () => {} };
  const queue = createMemoryDeltaQueue({ clock, random });
  const kube = createInProcessKube(server, { component: "watcher" });
  const leadership = soleLeader();
  const ends = new AbortController();
  const running = runWatcher(
    { kube, store, queue, doorbells, clock, random, digester, signer, log, lead: async () => leadership },
    { cluster: CACHE.cluster, clusterUid: "uid", identity: cacheIdentity(digester), holeRelistMs: HOLE_RELIST_MS },
    ends.signal,
  );
  const applyDeltas = createApplyDeltas({
    clock,
    random,
    log,
    digester,
    source: queue,
    ...serving(CACHE.cluster, kube, "shadow", { store, signer, doorbells }),
  });
  const context = invocationContext({ functionName: "apply-deltas", requestId: "full", remainingMs: () => 30_000 });
  const applyWaiting = async (): Promise<void> => {
    for (;;) {
      const messages = await queue.receive({ max: 10, waitMs: 0 });
      if (messages.length === 0) return;
      const answer = await applyDeltas(sqsEvent(messages, "arn:aws:sqs:eu-central-1:1:deltas.fifo"), context);
      const failed = new Set(answer?.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      await queue.remove(messages.filter(({ messageId }) => !failed.has(messageId)).map(({ receipt }) => receipt));
    }
  };
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= STEP_MS) {
      await clock.advance(Math.min(left, STEP_MS));
      // Redis responds in order: after the response to this ping, the earlier responses have arrived and their follow-ups are sent.
      for (let round = 0; round < 3; round++) await redis.ping();
      await applyWaiting();
    }
  };
  const person = rawClientIn(server);
  await person.request("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  await pass(5_000);
  const path = "/api/v1/namespaces/shop/pods";
  const existing = new Set<string>();
  return {
    pass,
    create: async (name: string, labels: Readonly<Record<string, string>> = {}) => {
      await person.request("POST", path, { metadata: { name, labels }, spec: { containers: [{ name: "c", image: "i" }] } });
      existing.add(`shop/${name}`);
    },
    remove: async (name: string) => {
      await person.request("DELETE", `${path}/${name}`, { gracePeriodSeconds: 0 });
      existing.delete(`shop/${name}`);
    },
    existing: () => [...existing].toSorted(),
    cached: async () => {
      const lanes = Array.from({ length: LANES.pods }, async (_, lane) => (await store.readLane("pods", lane)).rows);
      return (await Promise.all(lanes)).flatMap((rows) => rows.map(({ key }) => key)).toSorted();
    },
    gate: () => store.gate("replicaset"),
    messages: () => log.lines.map(({ message }) => message),
    close: async () => {
      ends.abort();
      await pass(1_000);
      await running;
      redis.disconnect();
    },
  };
}
