/**
 * Threat: genuine entries of earlier times are put back: their MACs are good. Who: anyone who may read and write Redis. What they can do
 * at most is to show an owner what was once true; the API server is asked before a pod is made or deleted, and each ends as told here.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useRowsRig } from "./rows-rig.ts";

const MERGE = "application/merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("an old genuine entry that is put back", () => {
  const rigOf = useRowsRig();

  it("of a pod that is no more keeps one pod from being made, until `deltaloop keys --resign` finds that it has no row", async () => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 3);
    const slice = rig.slice("pods", owner);
    const [old = { key: "", uid: "" }] = await rig.pods();
    const entry = (await rig.redis.hget(slice, old.key)) ?? "";
    await rig.person.request("DELETE", `/api/v1/namespaces/shop/pods/${old.key.split("/")[1]}`);
    await rig.stream();
    await rig.settle();
    expect(await rig.pods()).toHaveLength(3);
    await rig.redis.hset(slice, old.key, entry);
    await rig.touch("web");
    const left = (await rig.pods()).length;
    expect(left).toBeGreaterThanOrEqual(2);
    expect(await rig.store.keyUse("pods", true)).toMatchObject({ ghosts: 1, former: 0, foreign: 0 });
    expect(await rig.redis.hexists(slice, old.key)).toBe(0);
    await rig.pass(6_000);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(3);
    expect(await rig.store.keyUse("pods", false)).toMatchObject({ ghosts: 0 });
  });

  it("of a ReplicaSet that was greater makes no pod", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 5);
    const slice = rig.slice("replicasets", "-shop");
    const entry = (await rig.redis.hget(slice, "shop/web")) ?? "";
    await rig.scale("web", 2);
    await rig.redis.hset(slice, "shop/web", entry);
    const [pod] = await rig.pods();
    await rig.person.request(
      "PATCH",
      `/api/v1/namespaces/shop/pods/${pod?.key.split("/")[1]}`,
      { metadata: { labels: { a: "b" } } },
      MERGE,
    );
    await rig.stream();
    await rig.store.add("laws", "replicaset", "shop/web", 0);
    await rig.pass(6_000);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(2);
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(2);
  });

  it("of a ReplicaSet that was smaller deletes no pod", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 2);
    const slice = rig.slice("replicasets", "-shop");
    const entry = (await rig.redis.hget(slice, "shop/web")) ?? "";
    await rig.scale("web", 5);
    await rig.redis.hset(slice, "shop/web", entry);
    await rig.store.add("laws", "replicaset", "shop/web", 0);
    await rig.pass(6_000);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(5);
    expect(rig.writes.filter((write) => write.startsWith("delete"))).toEqual([]);
  });
});
