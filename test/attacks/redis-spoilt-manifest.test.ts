/**
 * Threat: a part of a manifest that waits in Redis for the others is replaced by one that lists less: what it leaves out is swept from
 * the cache, and its owners make all of it again. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { laneOf, LANES } from "../../shared/api/lane.ts";
import { NO_REDIS, useRowsRig } from "./rows-rig.ts";

describe.skipIf(NO_REDIS !== undefined)("a spoilt part of a manifest", () => {
  const rigOf = useRowsRig();

  it.each([
    { name: "that lists nothing any more", spoil: (part: string) => part.slice(0, part.indexOf("\n") + 1) },
    { name: "whose signature is gone", spoil: (part: string) => part.slice(part.indexOf("\n") + 1) },
    { name: "that was taken away", spoil: () => undefined },
  ])("$name sweeps nothing: the resource is suspect until it is listed anew", async ({ spoil }) => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 3);
    const [pod = { key: "", uid: "" }] = await rig.pods();
    const lane = laneOf(pod.key, LANES.pods);
    const rv = (await rig.store.readLane("pods", lane)).rows.find(({ key }) => key === pod.key)?.rv ?? "";
    const M = { k: "M", L: rig.server.resourceVersion, parts: 2 } as const;
    await rig.apply("pods", lane, { ...M, part: 1, rows: [{ ...pod, rv }] });
    const [, , , , mp] = rig.names.lane("pods", lane);
    const parts = Object.entries(await rig.redis.hgetall(mp));
    expect(parts).toHaveLength(1);
    for (const [field, part] of parts) {
      const spoilt = spoil(part);
      if (spoilt === undefined) await rig.redis.hdel(mp, field);
      else await rig.redis.hset(mp, field, spoilt);
    }
    await rig.apply("pods", lane, { ...M, part: 2, rows: [] });
    expect(Object.keys(await rig.redis.hgetall(rig.slice("pods", owner)))).toHaveLength(3);
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("SUSPECT") as string });

    await rig.relist("pods");
    expect(await rig.store.gate("replicaset")).toEqual({ open: true });
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(3);
    expect(rig.writes).toHaveLength(3);
  });
});
