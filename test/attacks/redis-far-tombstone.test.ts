/**
 * Threat: a tombstone with a version that the API server never reaches permanently keeps an object out of the cache. Who: anyone who may
 * write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";

describe.skipIf(NO_REDIS !== undefined)("a forged tombstone", () => {
  const rigOf = useAttackedSync();

  it("a forged tombstone with a very high resourceVersion does not hide a ReplicaSet, and is removed", async () => {
    const harness = rigOf();
    const [hash, field] = harness.tombstone("replicasets", "shop/web");
    await harness.redis.hset(hash, field, ["9".repeat(19), "uid", SIGNATURE].join(US));
    await harness.replicaSet("web", 3);
    expect(await harness.pods()).toHaveLength(3);
    expect(await harness.redis.hexists(hash, field)).toBe(0);
  });
});
