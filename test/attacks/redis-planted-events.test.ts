/**
 * Threat: the correlator's record of recent Events is changed: names, counts, budgets. Who: anyone who may write to Redis. At worst Events
 * are miscounted or suppressed; no other object's Event is changed, and the record does not reveal the text of an Event.
 */
import { describe, expect, it } from "vitest";

import { deploymentKeys } from "../../shared/store/redis/keys.ts";
import { CACHE } from "../harness/sync/counted-sync.ts";
import { NO_REDIS, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";
import type { AttackedSync } from "../harness/sync/attacked-sync.ts";

const EVENTS = "/api/v1/namespaces/shop/events";
const MEMORY = Object.values(deploymentKeys(CACHE.deployment, CACHE.cluster).events("replicaset"));

interface Told {
  readonly metadata: { readonly name: string };
  readonly involvedObject: { readonly name: string };
  readonly count?: number;
}

async function told(harness: AttackedSync): Promise<readonly Told[]> {
  return (await harness.person.list(EVENTS)).items as unknown as readonly Told[]; // Events
}

describe.skipIf(NO_REDIS !== undefined)("forged Event records in Redis", () => {
  const rigOf = useAttackedSync();

  it("forged records that refer to an Event of another object do not change that Event", async () => {
    const harness = rigOf();
    await harness.person.request("POST", EVENTS, {
      metadata: { name: "web.2.ff" },
      involvedObject: { apiVersion: "apps/v1", kind: "ReplicaSet", namespace: "shop", name: "web.2", uid: "2" },
      reason: "SuccessfulCreate",
      message: "theirs",
      type: "Normal",
      count: 1,
    });
    const theirs = (events: readonly Told[]) => events.find(({ metadata }) => metadata.name === "web.2.ff");
    const ours = (events: readonly Told[]) => events.filter(({ involvedObject }) => involvedObject.name === "web");
    await harness.replicaSet("web", 12);
    const before = await told(harness);
    for (const hash of MEMORY.filter((_, i) => i % 2 === 0))
      for (const field of await harness.redis.hkeys(hash)) await harness.redis.hset(hash, field, ["7", "2.ff"].join(US));
    await harness.scale("web", 30);
    expect(await harness.pods()).toHaveLength(30);
    const after = await told(harness);
    expect(theirs(after)).toEqual(theirs(before));
    expect(ours(after).length).toBeGreaterThan(ours(before).length);
  });

  it("forged records with exhausted budgets suppress Events only", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 1);
    const before = await told(harness);
    const [budgets = ""] = MEMORY.slice(4);
    for (const field of await harness.redis.hkeys(budgets)) await harness.redis.hset(budgets, field, ["0", "9".repeat(15)].join(US));
    await harness.scale("web", 5);
    expect(await harness.pods()).toHaveLength(5);
    expect(await told(harness)).toEqual(before);
    await harness.pass(300_000);
    await harness.scale("web", 6);
    expect((await told(harness)).length).toBe(before.length + 1);
  });

  it("genuine records contain no text of an Event", async () => {
    const harness = rigOf();
    await harness.replicaSet("web", 3);
    const held = await Promise.all(
      MEMORY.map(async (key, i) => (i % 2 === 0 ? harness.redis.hgetall(key) : harness.redis.zrange(key, "0", "-1"))),
    );
    expect(JSON.stringify(held)).toMatch(/[\w-]{22}/u);
    expect(JSON.stringify(held)).not.toMatch(/web|shop|Created|Successful|Normal/u);
  });
});
