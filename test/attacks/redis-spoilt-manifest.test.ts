/**
 * Threat: a stored part of a list manifest, which waits in Redis for the other parts, is replaced by one that lists fewer objects. The
 * missing objects are swept from the cache, and their owners create all of them again. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { laneOf, LANES } from "../../shared/store/lane.ts";
import { NO_REDIS, useAttackedSync } from "../harness/sync/attacked-sync.ts";

describe.skipIf(NO_REDIS !== undefined)("a damaged part of a list manifest", () => {
  const rigOf = useAttackedSync();

  it.each([
    { name: "without its keys", spoil: (part: string) => part.slice(0, part.indexOf("\n") + 1) },
    { name: "without its signature", spoil: (part: string) => part.slice(part.indexOf("\n") + 1) },
    { name: "that was removed", spoil: () => undefined },
  ])("a part $name removes no rows: the resource is SUSPECT until it is listed again", async ({ spoil }) => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 3);
    const [pod = { key: "", uid: "" }] = await harness.pods();
    const lane = laneOf(pod.key, LANES.pods);
    const rv = (await harness.store.readLane("pods", lane)).rows.find(({ key }) => key === pod.key)?.rv ?? "";
    const M = { k: "M", L: harness.server.resourceVersion, parts: 2 } as const;
    await harness.apply("pods", lane, { ...M, part: 1, rows: [{ ...pod, rv }] });
    const [, , , , mp] = harness.names.lane("pods", lane);
    const parts = Object.entries(await harness.redis.hgetall(mp));
    expect(parts).toHaveLength(1);
    for (const [field, part] of parts) {
      const spoilt = spoil(part);
      if (spoilt === undefined) await harness.redis.hdel(mp, field);
      else await harness.redis.hset(mp, field, spoilt);
    }
    await harness.apply("pods", lane, { ...M, part: 2, rows: [] });
    expect(Object.keys(await harness.redis.hgetall(harness.slice("pods", owner)))).toHaveLength(3);
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("SUSPECT") as string });

    await harness.relist("pods");
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(3);
    expect(harness.writes).toHaveLength(3);
  });
});
