/**
 * Threat: what no MAC covers (lanes, state of a resource, epoch, leases, queue, intents) is changed. Who: anyone who may write to Redis.
 * They can bring us to a standstill and cost pods that are made twice; nothing is deleted, and nobody else's object is touched.
 */
import { describe, expect, it } from "vitest";

import { LANES } from "../../shared/api/lane.ts";
import { NO_REDIS, US, useRowsRig } from "./rows-rig.ts";
import type { RowsRig } from "./rows-rig.ts";

const FAR = "9".repeat(15);

describe.skipIf(NO_REDIS !== undefined)("what is not signed", () => {
  const rigOf = useRowsRig();

  it.each<{ readonly name: string; readonly spoil: (rig: RowsRig, owner: string) => Promise<unknown>; readonly podsMax: number }>([
    {
      name: "a fence that is never reached",
      podsMax: 3,
      spoil: (rig) =>
        Promise.all(
          Array.from({ length: LANES.replicasets }, (_, lane) => rig.redis.hset(rig.names.lane("replicasets", lane)[0], "fence", FAR)),
        ),
    },
    { name: "a suspect resource", podsMax: 3, spoil: (rig) => rig.redis.hset(rig.names.meta("pods"), "state", "SUSPECT") },
    { name: "another epoch", podsMax: 3, spoil: (rig) => rig.redis.hset(rig.epochKey, "epoch", "theirs") },
    { name: "no epoch", podsMax: 3, spoil: (rig) => rig.redis.del(rig.epochKey) },
    { name: "nothing at all (FLUSHALL)", podsMax: 3, spoil: (rig) => rig.redis.flushall() },
    {
      name: "a lease without end",
      podsMax: 3,
      spoil: (rig) => rig.redis.hset(rig.names.queue("replicaset")[1], "shop/web", `theirs${US}${FAR}${US}0`),
    },
    {
      name: "an intent without end",
      podsMax: 3,
      spoil: (rig, owner) => {
        const op = ["p", "theirs", "replicaset", "shop/web", "create", "web-x", "", FAR, ""].join(US);
        return rig.redis.hset(rig.names.intents(owner), "c:web-x", op, "t:theirs", `1${US}${FAR}`);
      },
    },
    { name: "no lane of pods", podsMax: 5, spoil: (rig) => rig.redis.del(...rig.names.lane("pods", 0)) },
  ])("changed to $name, deletes nothing and makes nothing that is not wanted", async ({ spoil, podsMax }) => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 3);
    await rig.barePod("vault", "secrets");
    const before = await rig.pods();
    await spoil(rig, owner);
    await rig.scale("web", 5).catch(() => {}); // a message that is refused stays in the queue
    const after = await rig.pods();
    expect(after).toEqual(expect.arrayContaining([...before]));
    expect(after.length).toBeLessThanOrEqual(podsMax);
    expect(rig.writes.filter((write) => !write.startsWith("create shop/"))).toEqual([]);
    expect(await rig.pods("vault")).toHaveLength(1);
  });
});
