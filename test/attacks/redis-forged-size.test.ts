/**
 * Threat: one forged row of a ReplicaSet, of a higher version and with 40 replicas, makes 38 more pods, and no later event is newer than
 * it: the object is stuck for good. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useRowsRig } from "./rows-rig.ts";

describe.skipIf(NO_REDIS !== undefined)("a forged row of a ReplicaSet", () => {
  const rigOf = useRowsRig();

  it.each([
    { name: "its size", isRow: false },
    { name: "its size and its version row", isRow: true },
  ])("that says 40 replicas at a far version, $name, makes no pod and is not stuck", async ({ isRow }) => {
    const rig = rigOf();
    await rig.replicaSet("web", 2);
    const slice = rig.slice("replicasets", "-shop");
    const [hash, field] = rig.row("replicasets", "shop/web");
    const [, , uid = "", , object = ""] = ((await rig.redis.hget(slice, field)) ?? "").split(US);
    const forged = object.replace('"replicas":2', '"replicas":40');
    expect(forged).not.toBe(object);
    await rig.redis.hset(slice, field, ["", "999999999", uid, SIGNATURE, forged].join(US));
    if (isRow) await rig.redis.hset(hash, field, ["999999999", uid, "", SIGNATURE, ""].join(US));
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(2);
    await rig.scale("web", 5);
    expect(await rig.pods()).toHaveLength(5);
    expect(rig.writes.filter((write) => write.startsWith("delete"))).toEqual([]);
  });
});
