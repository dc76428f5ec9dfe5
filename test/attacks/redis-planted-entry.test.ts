/**
 * Threat: one HSET adds an unrelated bare pod of another namespace to a ReplicaSet's slice, and the next scale-down sends a DELETE for it.
 * Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useAttackedSync } from "../harness/sync/attacked-sync.ts";

const PROJECTION = JSON.stringify({ namespace: "vault", name: "secrets", labels: { app: "web" }, phase: "Pending" });

describe.skipIf(NO_REDIS !== undefined)("an entry of another pod that was inserted into a slice", () => {
  const rigOf = useAttackedSync();

  it.each([
    { name: "with a fabricated signature", entry: async () => `${US}999999${US}uid${US}${SIGNATURE}${US}${PROJECTION}` },
    { name: "with its own genuine entry", entry: async (own: string) => own },
  ])("$name: the pod is not deleted, and the slice is repaired", async ({ entry }) => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 3);
    await harness.barePod("vault", "secrets");
    const own = (await harness.redis.hget(harness.slice("pods", "-vault"), "vault/secrets")) ?? "";
    expect(own).not.toBe("");
    await harness.redis.hset(harness.slice("pods", owner), "vault/secrets", await entry(own));
    await harness.scale("web", 0);
    await harness.scale("web", 3);
    await harness.scale("web", 0);
    expect(harness.writes.filter((write) => write.includes("vault"))).toEqual([]);
    expect(await harness.pods("vault")).toHaveLength(1);
    expect(await harness.pods()).toEqual([]);
    expect(await harness.redis.hgetall(harness.slice("pods", owner))).toEqual({});
    expect(await harness.redis.hget(harness.slice("pods", "-vault"), "vault/secrets")).toBe(own);
  });
});
