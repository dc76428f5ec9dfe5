/**
 * Threat: the work queue's record of a primary (`u`: its uid and owner, `k`: the primaries of a namespace) makes a run read another
 * owner's slice, or keeps a key from running. Who: anyone who may write to Redis; neither record is signed.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";

const MERGE = "application/merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("a damaged work queue", () => {
  const rigOf = useAttackedSync();

  it("a changed uid in hash `u` neither creates nor deletes pods, and the next run corrects it", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 3);
    const [, , , u] = harness.names.queue("replicaset");
    const genuine = await harness.redis.hget(u, "shop/web");
    await harness.redis.hset(u, "shop/web", `somebody-else${US}`);
    await harness.store.add("laws", "replicaset", "shop/web", 0);
    await harness.pass(6_000);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(3);
    expect(harness.writes).toHaveLength(3);
    expect(await harness.redis.hget(u, "shop/web")).toBe(genuine);
  });

  it.each([
    { name: "hash `u`", spoil: "u" },
    { name: "set `k`", spoil: "k" },
  ])("a primary that was removed from $name is enqueued again by its next change", async ({ spoil }) => {
    const harness = rigOf();
    await harness.replicaSet("web", 3);
    const [, , , u] = harness.names.queue("replicaset");
    const k = harness.names.primaries("replicasets", "shop");
    if (spoil === "u") await harness.redis.hdel(u, "shop/web");
    else await harness.redis.srem(k, "shop/web");
    await harness.scale("web", 4);
    expect(await harness.pods()).toHaveLength(4);
    expect(await harness.redis.hexists(u, "shop/web")).toBe(1);
    expect(await harness.redis.sismember(k, "shop/web")).toBe(1);
  });

  it("an invalid key in set `k`, or one without a primary, does not block the applier", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 3);
    await harness.redis.sadd(harness.names.primaries("replicasets", "shop"), "shop/nobody", "no key at all");
    const [pod] = await harness.pods();
    await harness.person.request(
      "PATCH",
      `/api/v1/namespaces/shop/pods/${pod?.key.split("/")[1]}`,
      { metadata: { ownerReferences: null } },
      MERGE,
    );
    await harness.stream();
    await harness.settle();
    expect(await harness.pods()).toHaveLength(3);
  });
});
