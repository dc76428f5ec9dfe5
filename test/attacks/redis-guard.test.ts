/**
 * Threat: the values of the foreign-write guard are deleted, forged, corrupted or replayed. Who: anyone who may write to Redis, and has no
 * MAC key. An attacker can always stop all controllers, but can make a stopped deployment write again only while the attack continues.
 */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { deploymentKeys } from "../../shared/store/redis/keys.ts";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { createSigner } from "../../shared/store/signer.ts";
import { createForeignWriteGuard } from "../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import type { ForeignWrite, GuardState, Store } from "../../shared/store/ports/store.ts";
import { redisFixture } from "../conformance/redis/fixtures.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness } from "../harness/store/store.ts";
import type { StoreFixture } from "../harness/store/store.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { testSigner } from "../support/signer.ts";
import { silentLog } from "../support/silent-log.ts";
import { NO_REDIS, SIGNATURE, US } from "../harness/sync/attacked-sync.ts";

const CLUSTER = "0123456789ab";
const SETTINGS = { deployment: "prod", cluster: CLUSTER, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS };
const KEY = deploymentKeys("prod", CLUSTER).stop;
const WRITE: ForeignWrite = { resource: "deployments", key: "shop/web", manager: "kube-controller-manager", atMs: 5_000 };
const made = (value: object): string => SIGNATURE + US + JSON.stringify(value);

const report = async (store: Store, everything: ForeignWrite, nowMs: number): Promise<GuardState> =>
  await store.reportForeignWrites({ everything, namespaces: [] }, nowMs);

describe.skipIf(NO_REDIS !== undefined)("the guard's stored stops and resumes", () => {
  let server: RedisServer;
  let redis: Redis;
  let fixture: StoreFixture;
  let harness: StoreHarness;
  /** A Store with another deployment or signer on the same Redis. */
  const beside = (deployment: string, signer = testSigner(CLUSTER)): Store =>
    createRedisStore(redis, { ...SETTINGS, deployment, signer, clock: fixture.clock });
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    fixture = await redisFixture(() => new Redis(server.url))(SETTINGS);
    harness = await new StoreHarness(fixture).synced();
  });
  afterEach(() => fixture.close());

  const taken = async (): Promise<string> => (await harness.store.take(harness.run("deployment", "shop/web"), {})).kind;

  it("a stop that was deleted from Redis is restored within a second, without another write of the other controller", async () => {
    const { clock } = harness.fixture;
    const guard = createForeignWriteGuard(
      {
        store: harness.store,
        kube: {
          get: async () => undefined,
          patch: async () => ({ metadata: { name: "x", uid: "u", resourceVersion: "1" } }),
          listPage: async () => ({ resourceVersion: "9", items: [{ metadata: { uid: "u1" }, status: { replicas: 2 } }] }),
        },
        clock,
        log: silentLog,
      },
      { namespace: "deltaloop", name: "deltaloop-canary" },
    );
    const ends = new AbortController();
    const running = guard.run(ends.signal);
    guard.begin(1_000);
    const fieldsV1 = { "f:status": { "f:replicas": {} } };
    const managedFields = [{ manager: WRITE.manager, subresource: "status", time: new Date(WRITE.atMs).toISOString(), fieldsV1 }];
    const metadata = { namespace: "shop", name: "web", uid: "u1", resourceVersion: "7", managedFields };
    guard.look("deployments", { metadata, status: { replicas: 3 } });
    await expect.poll(taken).toBe("stopped");
    for (let round = 0; round < 3; round++) {
      await redis.del(KEY);
      expect(await taken()).toBe("empty");
      await clock.advance(1_000);
      await expect.poll(taken).toBe("stopped");
    }
    ends.abort(new Error("over"));
    await running;
  });

  it.each([
    { name: "with invalid content", text: "x" },
    { name: "that is fabricated", text: made({ kind: "seen", write: { ...WRITE, key: "shop/lies" }, sinceMs: 1 }) },
    { name: "that is empty", text: "" },
  ])("a stored stop $name still stops the controller, but its content is ignored", async ({ text }) => {
    await redis.hset(KEY, "stop", text);
    expect(await harness.store.take(harness.run("deployment", "shop/web"), {})).toEqual({ kind: "stopped", stop: { kind: "unbelieved" } });
    const state = await harness.store.guard();
    expect(state.stop).toEqual({ kind: "unbelieved" });
    expect(await harness.store.gate("deployment")).toMatchObject({
      open: false,
      reason: expect.stringContaining("without a valid signature"),
    });
    expect(await harness.store.resume({ seen: state, acceptedMs: 0 })).toBe("resumed");
    expect(await taken()).toBe("empty");
  });

  it("a stop copied from another deployment, or signed with a MAC key that is no longer accepted, still stops the controller, but its content is ignored", async () => {
    await report(beside("other"), WRITE, 6_000);
    const theirs = (await redis.hget(deploymentKeys("other", CLUSTER).stop, "stop")) ?? "";
    await redis.hset(KEY, "stop", theirs);
    expect((await harness.store.guard()).stop).toEqual({ kind: "unbelieved" });
    await report(beside("prod", createSigner(["a key that is not accepted any more"], CLUSTER)), WRITE, 6_000);
    expect((await harness.store.guard()).stop).toEqual({ kind: "unbelieved" });
  });

  it("a genuine report replaces a stop with an invalid MAC, so that users see which controller wrote", async () => {
    await report(harness.store, WRITE, 6_000);
    const good = (await redis.hget(KEY, "stop")) ?? "";
    await redis.hset(KEY, "stop", good.replace("shop/web", "shop/wax"));
    expect((await harness.store.guard()).stop).toEqual({ kind: "unbelieved" });
    await report(harness.store, WRITE, 6_000);
    expect((await harness.store.guard()).stop).toMatchObject({ kind: "seen", write: WRITE });
  });

  it("a resume that was fabricated or copied from another deployment lifts no stop", async () => {
    const far = { acceptedMs: 9_000_000_000_000 };
    const elsewhere = beside("other");
    await elsewhere.resume({ seen: await elsewhere.guard(), ...far });
    const theirs = (await redis.hget(deploymentKeys("other", CLUSTER).stop, "resumed")) ?? "";
    for (const text of [made({ forgivenMs: far.acceptedMs }), theirs, "x"]) {
      await redis.del(KEY);
      await redis.hset(KEY, "resumed", text);
      expect((await harness.store.guard()).acceptedMs).toBe(0);
      expect((await report(harness.store, WRITE, 6_000)).stop).toMatchObject({ write: WRITE });
    }
  });

  it("a restored old resume covers only the writes that it covered originally", async () => {
    const resume = async (acceptedMs: number): Promise<void> =>
      void (await harness.store.resume({ seen: await harness.store.guard(), acceptedMs }));
    await resume(5_000);
    const old = (await redis.hget(KEY, "resumed")) ?? "";
    await resume(8_000);
    await redis.hset(KEY, "resumed", old);
    expect((await report(harness.store, WRITE, 6_000)).stop).toBeUndefined();
    expect((await report(harness.store, { ...WRITE, atMs: 7_000 }, 9_000)).stop).toMatchObject({ kind: "seen" });
  });

  it.each(["x", "", made({ kind: "seen", write: WRITE, sinceMs: 1 })])(
    "a stop record that is malformed or has an invalid MAC still stops its namespace, and no other: %j",
    async (text) => {
      await redis.hset(KEY, "stop:shop", text);
      expect(await harness.store.take(harness.run("deployment", "shop/web"), {})).toEqual({
        kind: "stopped",
        stop: { kind: "unbelieved" },
      });
      expect((await harness.store.take(harness.run("deployment", "bank/web"), {})).kind).toBe("empty");
    },
  );

  it("a stop copied from one namespace to another stops that namespace, but its content is ignored", async () => {
    await harness.store.reportForeignWrites({ namespaces: [WRITE] }, 6_000);
    await redis.hset(KEY, "stop:bank", (await redis.hget(KEY, "stop:shop")) ?? "");
    expect((await harness.store.guard()).namespaces.get("bank")?.stop).toEqual({ kind: "unbelieved" });
  });

  it("an older build reads a stop of one namespace as a stop of all namespaces, and a stop that it writes stops all namespaces", async () => {
    await harness.store.reportForeignWrites({ namespaces: [WRITE] }, 6_000);
    const [signature = "", json = ""] = ((await redis.hget(KEY, "stop")) ?? "").split(US);
    const signer = testSigner(CLUSTER);
    expect([signer.verify("g", ["prod", "stop", json], signature), JSON.parse(json)]).toMatchObject([
      "current",
      { kind: "seen", write: WRITE },
    ]);
    expect([await taken(), (await harness.store.take(harness.run("deployment", "bank/web"), {})).kind]).toEqual(["stopped", "empty"]);
    // simulates that a later write replaced it
    const older = JSON.stringify({ ...(JSON.parse(json) as object), write: { ...WRITE, atMs: 7_000 } });
    await redis.hset(KEY, "stop", signer.sign("g", ["prod", "stop", older]) + US + older);
    expect((await harness.store.take(harness.run("deployment", "bank/web"), {})).kind).toBe("stopped");
  });

  it("20,000 overdue keys of a stopped namespace do not delay the sweeper for other keys", async () => {
    const { epoch, store } = harness;
    const queue = deploymentKeys("prod", CLUSTER).of(epoch).queue("deployment")[0];
    const overdue = Array.from({ length: 21_000 }, (_, nth) => [String(nth), `shop/web-${nth}`]).flat();
    await redis.zadd(queue, ...overdue);
    await redis.zadd(queue, String(harness.now()), "bank/web");
    await store.reportForeignWrites({ namespaces: [WRITE] }, 6_000);
    const rung: string[] = [];
    for (let pass = 0; pass < 3; pass++) {
      await harness.pass(7_000);
      rung.push(...(await store.sweep(epoch)).map(({ key }) => key));
    }
    expect(rung).toContain("bank/web");
    expect(new Set(rung)).toEqual(new Set(["bank/web"]));
  });
});
