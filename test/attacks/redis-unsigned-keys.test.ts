/**
 * Threat: values that no MAC covers (lanes, state of a resource, epoch, leases, queue, intents) are changed. Who: anyone who may write to
 * Redis. The attacker can stop syncs and cause surplus pods, but causes no delete and no change of another owner's object.
 */
import { describe, expect, it } from "vitest";

import { LANES } from "../../shared/store/lane.ts";
import { NO_REDIS, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";
import type { AttackedSync } from "../harness/sync/attacked-sync.ts";

const FAR = "9".repeat(15);

describe.skipIf(NO_REDIS !== undefined)("unsigned data in Redis", () => {
  const rigOf = useAttackedSync();

  it.each<{ readonly name: string; readonly spoil: (harness: AttackedSync, owner: string) => Promise<unknown>; readonly podsMax: number }>([
    {
      name: "a fence that is never reached",
      podsMax: 3,
      spoil: (harness) =>
        Promise.all(
          Array.from({ length: LANES.replicasets }, (_, lane) =>
            harness.redis.hset(harness.names.lane("replicasets", lane)[0], "fence", FAR),
          ),
        ),
    },
    { name: "a suspect resource", podsMax: 3, spoil: (harness) => harness.redis.hset(harness.names.meta("pods"), "state", "SUSPECT") },
    { name: "another epoch", podsMax: 3, spoil: (harness) => harness.redis.hset(harness.epochKey, "epoch", "theirs") },
    { name: "a deleted epoch", podsMax: 3, spoil: (harness) => harness.redis.del(harness.epochKey) },
    { name: "FLUSHALL", podsMax: 3, spoil: (harness) => harness.redis.flushall() },
    {
      name: "a lease that never ends",
      podsMax: 3,
      spoil: (harness) => harness.redis.hset(harness.names.queue("replicaset")[1], "shop/web", `theirs${US}${FAR}${US}0`),
    },
    {
      name: "an intent that never expires",
      podsMax: 3,
      spoil: (harness, owner) => {
        const op = ["p", "theirs", "replicaset", "shop/web", "create", "web-x", "", FAR, ""].join(US);
        return harness.redis.hset(harness.names.intents(owner), "c:web-x", op, "t:theirs", `1${US}${FAR}`);
      },
    },
    { name: "a deleted lane of pods", podsMax: 5, spoil: (harness) => harness.redis.del(...harness.names.lane("pods", 0)) },
  ])("a change of unsigned data deletes no pod, and leaves at most $podsMax pods: $name", async ({ spoil, podsMax }) => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 3);
    await harness.barePod("vault", "secrets");
    const before = await harness.pods();
    await spoil(harness, owner);
    await harness.scale("web", 5).catch(() => {}); // the queue keeps a message that is rejected
    const after = await harness.pods();
    expect(after).toEqual(expect.arrayContaining([...before]));
    expect(after.length).toBeLessThanOrEqual(podsMax);
    expect(harness.writes.filter((write) => !write.startsWith("create shop/"))).toEqual([]);
    expect(await harness.pods("vault")).toHaveLength(1);
  });
});
