/** Removal of older epochs' keys in a real Redis. */
import { beforeEach, describe, expect, it } from "vitest";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { EPOCH_GRACE_MS } from "../../../shared/base/times.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { EPOCH, HOLE_LIMIT_MS, IDENTITY } from "../../harness/store/store.ts";
import { suiteRedis } from "./fixtures.ts";

const reason = ensureRedisServer();
/** The number of keys that one call examines. */
const KEYS_PER_CALL = 1_000;
/** Additional keys that one call may examine, because SCAN returns whole buckets. */
const MORE = 100;

describe.skipIf(reason)(`keys of older epochs in Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();
  let nowMs = 0;
  const clock = { now: () => nowMs, after: () => Promise.reject(new Error("unexpected wait")) };
  const storeOf = (deployment: string, cluster: string): Store =>
    createRedisStore(redis.client, {
      deployment,
      cluster,
      identity: IDENTITY,
      holeLimitMs: HOLE_LIMIT_MS,
      signer: testSigner(cluster),
      clock,
    });
  /** Creates keys of an epoch of deployment `shop` and cluster `c1`. */
  const fill = async (epoch: string, keys: number, prefix = "dl:shop:{c1}:"): Promise<void> => {
    const pipeline = redis.client.pipeline();
    for (let i = 0; i < keys; i++) pipeline.hset(`${prefix}${epoch}:s:pods:${i}`, "f", "v");
    await pipeline.exec();
  };
  const count = async (pattern: string): Promise<number> => (await redis.client.keys(pattern)).length;
  const calls = async (store: Store, n: number): Promise<readonly number[]> => {
    const answers: number[] = [];
    for (let i = 0; i < n; i++) answers.push(await store.forgetEpochs("e9"));
    return answers;
  };

  beforeEach(async () => {
    await redis.client.flushall();
    nowMs = 1_772_359_200_000;
  });

  it("JA3 old keys are removed in steps, and only after the grace period", async () => {
    const store = storeOf("shop", "c1");
    await store.openEpoch({ ...EPOCH, epoch: "e9" });
    await fill("e1", 3_000);
    await fill("e9", 10);
    await calls(store, 6);
    nowMs += EPOCH_GRACE_MS - 1;
    expect((await calls(store, 6)).every((keys) => keys === 0)).toBe(true);
    nowMs += 1;
    const answers = await calls(store, 6);
    expect(Math.max(...answers)).toBeLessThanOrEqual(KEYS_PER_CALL + MORE);
    expect(answers.filter((keys) => keys > 0).length).toBeGreaterThanOrEqual(3);
    expect(await count("*:e1:*")).toBe(0);
    expect(await count("*:e9:*")).toBe(10);
    expect(await calls(store, 6)).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it("JA1 keeps keys of other clusters and deployments, and keys outside of epochs", async () => {
    const others = [
      "dl:shop:{c2}:e1:m:pods", // another cluster
      "dl:shopping:{c1}:e1:m:pods", // another deployment
      "dl:sh*p:{c1}:e1:m:pods", // a deployment whose name is a pattern
      "dl:shop:{c1}:rl:replicaset",
      "dl:shop:{c1}:forged",
      "dl:shop:{c1}:ev:replicaset:g",
      "somebody's",
    ];
    const stars = storeOf("sh*p", "c1");
    for (const store of [storeOf("shop", "c1"), stars]) await store.openEpoch({ ...EPOCH, epoch: "e9" });
    for (const key of others) await redis.client.set(key, "v");
    await fill("e1", 5);
    const janitor = storeOf("shop", "c1");
    for (const store of [stars, janitor]) await calls(store, 2);
    nowMs += EPOCH_GRACE_MS;
    await calls(janitor, 2);
    expect(await count("dl:shop:{c1}:e1:*")).toBe(0);
    expect((await redis.client.exists(...others)) - others.length).toBe(0);
    await fill("e1", 5);
    expect((await calls(stars, 2)).reduce((sum, keys) => sum + keys)).toBe(1);
    expect(await count("dl:shop:{c1}:e1:*")).toBe(5);
  });

  it("JA2 a leader whose own epoch was replaced removes no keys", async () => {
    const store = storeOf("shop", "c1");
    await store.openEpoch({ ...EPOCH, epoch: "e9" });
    await fill("e1", 5);
    await fill("e10", 5);
    await calls(store, 2);
    nowMs += EPOCH_GRACE_MS;
    await store.openEpoch({ ...EPOCH, epoch: "e10" }, "e9");
    expect(await calls(store, 2)).toEqual([0, 0]);
    expect([await count("*:e1:*"), await count("*:e10:*")]).toEqual([5, 5]);
    await redis.client.del("dl:shop:{c1}:ep");
    expect(await calls(store, 2)).toEqual([0, 0]);
  });

  it("JA2 old keys are kept if their epoch becomes the current one during the scan", async () => {
    const store = storeOf("shop", "c1");
    await store.openEpoch({ ...EPOCH, epoch: "e9" });
    await fill("e1", 5);
    await calls(store, 2);
    nowMs += EPOCH_GRACE_MS;
    const looking = store.forgetEpochs("e9");
    const replaced = store.openEpoch({ ...EPOCH, epoch: "e1" }, "e9");
    await Promise.all([looking, replaced]);
    expect(await looking).toBe(0);
    expect(await count("*:e1:*")).toBe(5);
  });
});
