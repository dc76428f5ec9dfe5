/**
 * Threat: a forged flag `gone`, which no MAC covers, hides healthy pods from their owner, which makes others in their place. Who: anyone
 * who may write to Redis. The flag is believed for 60 s, and its owner looks again after 61 s: at most as many pods more as it has, and
 * for that long after the last forgery. A flag of the future, or an old one, is not believed at all.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useRowsRig } from "./rows-rig.ts";

const HOUR_MS = 3_600_000;
/** With the 5 s that the sweeper leaves a key; a doorbell that is not lost comes at 61 s. */
const SWEPT_MS = 8_000;

describe.skipIf(NO_REDIS !== undefined)("a forged flag `gone`", () => {
  const rigOf = useRowsRig();

  const flag = async (owner: string, atMs: number): Promise<void> => {
    const rig = rigOf();
    const slice = rig.slice("pods", owner);
    for (const [key, entry] of Object.entries(await rig.redis.hgetall(slice))) await rig.redis.hset(slice, key, `g${atMs}${entry}`);
  };

  it("on all 5 pods of an owner makes 5 more, for no longer than 61 s", async () => {
    const rig = rigOf();
    const before = (await rig.pods()).length;
    const owner = await rig.replicaSet("web", 5);
    await flag(owner, Date.now());
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(before + 10);
    await rig.pass(50_000);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(10);
    await rig.pass(11_000 + SWEPT_MS);
    await rig.settle();
    expect(await rig.pods()).toHaveLength(5);
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(5);
  });

  it.each([
    { name: "of the future", byMs: HOUR_MS },
    { name: "of long ago", byMs: -HOUR_MS },
  ])("$name is looked into before anything is decided", async ({ byMs }) => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 5);
    await flag(owner, Date.now() + byMs);
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(5);
    expect(rig.writes.filter((write) => !write.startsWith("create"))).toEqual([]);
    expect(rig.writes).toHaveLength(5);
  });
});
