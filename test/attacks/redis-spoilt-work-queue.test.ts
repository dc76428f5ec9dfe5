/**
 * Threat: what the work queue says of a primary (`u`: its uid and owner, `k`: the primaries of a namespace) makes a run look at another
 * owner's slice, or keeps the object from ever being run. Who: anyone who may write to Redis; neither is signed.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, US, useRowsRig } from "./rows-rig.ts";

const MERGE = "application/merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("a spoilt work queue", () => {
  const rigOf = useRowsRig();

  it("another uid in `u` makes no pod more and deletes none, and the next run puts it right", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 3);
    const [, , , u] = rig.names.queue("replicaset");
    const genuine = await rig.redis.hget(u, "shop/web");
    await rig.redis.hset(u, "shop/web", `somebody-else${US}`);
    await rig.store.add("laws", "replicaset", "shop/web", 0);
    await rig.pass(6_000);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(3);
    expect(rig.writes).toHaveLength(3);
    expect(await rig.redis.hget(u, "shop/web")).toBe(genuine);
  });

  it.each([
    { name: "`u`", spoil: "u" },
    { name: "`k`", spoil: "k" },
  ])("a primary that is taken out of $name comes back with its next change", async ({ spoil }) => {
    const rig = rigOf();
    await rig.replicaSet("web", 3);
    const [, , , u] = rig.names.queue("replicaset");
    const k = rig.names.primaries("replicasets", "shop");
    if (spoil === "u") await rig.redis.hdel(u, "shop/web");
    else await rig.redis.srem(k, "shop/web");
    await rig.scale("web", 4);
    expect(await rig.pods()).toHaveLength(4);
    expect(await rig.redis.hexists(u, "shop/web")).toBe(1);
    expect(await rig.redis.sismember(k, "shop/web")).toBe(1);
  });

  it("a key in `k` that is no primary, or no key, keeps nothing from being applied", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 3);
    await rig.redis.sadd(rig.names.primaries("replicasets", "shop"), "shop/nobody", "no key at all");
    const [pod] = await rig.pods();
    await rig.person.request(
      "PATCH",
      `/api/v1/namespaces/shop/pods/${pod?.key.split("/")[1]}`,
      { metadata: { ownerReferences: null } },
      MERGE,
    );
    await rig.stream();
    await rig.settle();
    expect(await rig.pods()).toHaveLength(3);
  });
});
