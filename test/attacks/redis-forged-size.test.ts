/**
 * Threat: a forged row of a ReplicaSet, with a higher version and 40 replicas, creates 38 surplus pods; no later event is newer than that
 * row, so the cached object never changes again. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";

describe.skipIf(NO_REDIS !== undefined)("a forged row of a ReplicaSet", () => {
  const rigOf = useAttackedSync();

  it.each([
    { name: "in the slice entry", isRow: false },
    { name: "in the slice entry and the row", isRow: true },
  ])("40 replicas with a very high resourceVersion, forged $name, create no pod, and do not block a later scale-up", async ({ isRow }) => {
    const harness = rigOf();
    await harness.replicaSet("web", 2);
    const slice = harness.slice("replicasets", "-shop");
    const [hash, field] = harness.row("replicasets", "shop/web");
    const [, , uid = "", , object = ""] = ((await harness.redis.hget(slice, field)) ?? "").split(US);
    const forged = object.replace('"replicas":2', '"replicas":40');
    expect(forged).not.toBe(object);
    await harness.redis.hset(slice, field, ["", "999999999", uid, SIGNATURE, forged].join(US));
    if (isRow) await harness.redis.hset(hash, field, ["999999999", uid, "", SIGNATURE, ""].join(US));
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(2);
    await harness.scale("web", 5);
    expect(await harness.pods()).toHaveLength(5);
    expect(harness.writes.filter((write) => write.startsWith("delete"))).toEqual([]);
  });
});
