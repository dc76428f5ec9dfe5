/**
 * Threat: one HSET puts an unrelated bare pod of another namespace into a ReplicaSet's slice, and the next scale-down sends a real
 * DELETE for it. Who: anyone who may write to Redis.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, SIGNATURE, US, useRowsRig } from "./rows-rig.ts";

const PROJECTION = JSON.stringify({ namespace: "vault", name: "secrets", labels: { app: "web" }, phase: "Pending" });

describe.skipIf(NO_REDIS !== undefined)("a pod planted in a slice", () => {
  const rigOf = useRowsRig();

  it.each([
    { name: "with a signature that was made up", entry: async () => `${US}999999${US}uid${US}${SIGNATURE}${US}${PROJECTION}` },
    { name: "with its own genuine entry", entry: async (own: string) => own },
  ])("$name is never deleted, and the slice heals", async ({ entry }) => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 3);
    await rig.barePod("vault", "secrets");
    const own = (await rig.redis.hget(rig.slice("pods", "-vault"), "vault/secrets")) ?? "";
    expect(own).not.toBe("");
    await rig.redis.hset(rig.slice("pods", owner), "vault/secrets", await entry(own));
    await rig.scale("web", 0);
    await rig.scale("web", 3);
    await rig.scale("web", 0);
    expect(rig.writes.filter((write) => write.includes("vault"))).toEqual([]);
    expect(await rig.pods("vault")).toHaveLength(1);
    expect(await rig.pods()).toEqual([]);
    expect(await rig.redis.hgetall(rig.slice("pods", owner))).toEqual({});
    expect(await rig.redis.hget(rig.slice("pods", "-vault"), "vault/secrets")).toBe(own);
  });
});
