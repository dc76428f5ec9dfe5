/**
 * Threat: what controllers have told of late is changed: names, counts, budgets. Who: anyone who may write to Redis. At worst Events are
 * counted wrongly or held back; no other object's Event is touched, and what is told is not to be read there.
 */
import { describe, expect, it } from "vitest";

import { deploymentKeys } from "../../shared/adapters/redis/keys.ts";
import { CACHE } from "../support/sync-rig.ts";
import { NO_REDIS, US, useRowsRig } from "./rows-rig.ts";
import type { RowsRig } from "./rows-rig.ts";

const EVENTS = "/api/v1/namespaces/shop/events";
const MEMORY = Object.values(deploymentKeys(CACHE.deployment, CACHE.cluster).events("replicaset"));

interface Told {
  readonly metadata: { readonly name: string };
  readonly involvedObject: { readonly name: string };
  readonly count?: number;
}

async function told(rig: RowsRig): Promise<readonly Told[]> {
  return (await rig.person.list(EVENTS)).items as unknown as readonly Told[]; // Events
}

describe.skipIf(NO_REDIS !== undefined)("the memory of Events", () => {
  const rigOf = useRowsRig();

  it("that names another object's Event leaves it as it is", async () => {
    const rig = rigOf();
    await rig.person.request("POST", EVENTS, {
      metadata: { name: "web.2.ff" },
      involvedObject: { apiVersion: "apps/v1", kind: "ReplicaSet", namespace: "shop", name: "web.2", uid: "2" },
      reason: "SuccessfulCreate",
      message: "theirs",
      type: "Normal",
      count: 1,
    });
    const theirs = (events: readonly Told[]) => events.find(({ metadata }) => metadata.name === "web.2.ff");
    const ours = (events: readonly Told[]) => events.filter(({ involvedObject }) => involvedObject.name === "web");
    await rig.replicaSet("web", 12);
    const before = await told(rig);
    for (const hash of MEMORY.filter((_, i) => i % 2 === 0))
      for (const field of await rig.redis.hkeys(hash)) await rig.redis.hset(hash, field, ["7", "2.ff"].join(US));
    await rig.scale("web", 30);
    expect(await rig.pods()).toHaveLength(30);
    const after = await told(rig);
    expect(theirs(after)).toEqual(theirs(before));
    expect(ours(after).length).toBeGreaterThan(ours(before).length);
  });

  it("without budgets holds Events back, and nothing else", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 1);
    const before = await told(rig);
    const [budgets = ""] = MEMORY.slice(4);
    for (const field of await rig.redis.hkeys(budgets)) await rig.redis.hset(budgets, field, ["0", "9".repeat(15)].join(US));
    await rig.scale("web", 5);
    expect(await rig.pods()).toHaveLength(5);
    expect(await told(rig)).toEqual(before);
    await rig.pass(300_000);
    await rig.scale("web", 6);
    expect((await told(rig)).length).toBe(before.length + 1);
  });

  it("holds no word of what was told", async () => {
    const rig = rigOf();
    await rig.replicaSet("web", 3);
    const held = await Promise.all(MEMORY.map(async (key, i) => (i % 2 === 0 ? rig.redis.hgetall(key) : rig.redis.zrange(key, "0", "-1"))));
    expect(JSON.stringify(held)).toMatch(/[\w-]{22}/u);
    expect(JSON.stringify(held)).not.toMatch(/web|shop|Created|Successful|Normal/u);
  });
});
