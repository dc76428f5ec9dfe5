/**
 * Threat: genuine entries of earlier times are replayed, with valid MACs. Who: anyone who may read and write Redis. The attacker can only
 * present an earlier state to an owner. The controller reads the API server before it creates or deletes a pod; each test below states the
 * outcome.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useAttackedSync } from "../harness/sync/attacked-sync.ts";

const MERGE = "application/merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("an old, validly signed slice entry that was restored in Redis", () => {
  const rigOf = useAttackedSync();

  it("an old entry of a deleted pod prevents the creation of one pod, until `deltaloop keys --resign` finds that the entry has no row", async () => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 3);
    const slice = harness.slice("pods", owner);
    const [old = { key: "", uid: "" }] = await harness.pods();
    const entry = (await harness.redis.hget(slice, old.key)) ?? "";
    await harness.person.request("DELETE", `/api/v1/namespaces/shop/pods/${old.key.split("/")[1]}`);
    await harness.stream();
    await harness.settle();
    expect(await harness.pods()).toHaveLength(3);
    await harness.redis.hset(slice, old.key, entry);
    await harness.touch("web");
    const left = (await harness.pods()).length;
    expect(left).toBeGreaterThanOrEqual(2);
    expect(await harness.store.keyUse("pods", true)).toMatchObject({ ghosts: 1, former: 0, foreign: 0 });
    expect(await harness.redis.hexists(slice, old.key)).toBe(0);
    await harness.pass(6_000);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(3);
    expect(await harness.store.keyUse("pods", false)).toMatchObject({ ghosts: 0 });
  });

  it("an old entry of a ReplicaSet with a greater size creates no pod", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 5);
    const slice = harness.slice("replicasets", "-shop");
    const entry = (await harness.redis.hget(slice, "shop/web")) ?? "";
    await harness.scale("web", 2);
    await harness.redis.hset(slice, "shop/web", entry);
    const [pod] = await harness.pods();
    await harness.person.request(
      "PATCH",
      `/api/v1/namespaces/shop/pods/${pod?.key.split("/")[1]}`,
      { metadata: { labels: { a: "b" } } },
      MERGE,
    );
    await harness.stream();
    await harness.store.add("laws", "replicaset", "shop/web", 0);
    await harness.pass(6_000);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(2);
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(2);
  });

  it("an old entry of a ReplicaSet with a smaller size deletes no pod", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 2);
    const slice = harness.slice("replicasets", "-shop");
    const entry = (await harness.redis.hget(slice, "shop/web")) ?? "";
    await harness.scale("web", 5);
    await harness.redis.hset(slice, "shop/web", entry);
    await harness.store.add("laws", "replicaset", "shop/web", 0);
    await harness.pass(6_000);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(5);
    expect(harness.writes.filter((write) => write.startsWith("delete"))).toEqual([]);
  });
});
