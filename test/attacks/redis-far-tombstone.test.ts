/**
 * Threat: a tombstone of a version that is never reached keeps an object out of the cache for good. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useRowsRig } from "./rows-rig.ts";

describe.skipIf(NO_REDIS !== undefined)("a forged tombstone", () => {
  const rigOf = useRowsRig();

  it("of a far version keeps no ReplicaSet from being seen, and goes", async () => {
    const rig = rigOf();
    const [hash, field] = rig.tombstone("replicasets", "shop/web");
    await rig.redis.hset(hash, field, ["9".repeat(19), "uid", SIGNATURE].join(US));
    await rig.replicaSet("web", 3);
    expect(await rig.pods()).toHaveLength(3);
    expect(await rig.redis.hexists(hash, field)).toBe(0);
  });
});
