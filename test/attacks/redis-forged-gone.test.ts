/**
 * Threat: a forged flag `gone`, which no MAC covers, hides healthy pods from their owner, which creates replacements. Who: anyone who may
 * write to Redis. The flag is valid for 60 s, and its owner is requeued after 61 s. An owner therefore has at most as many surplus pods as
 * it has replicas, until 61 s after the last forgery. An old flag, or one from the future, is ignored.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useAttackedSync } from "../harness/sync/attacked-sync.ts";

const HOUR_MS = 3_600_000;
/** Time in ms that includes the 5 s for which the sweeper waits for a key. A doorbell that is not lost arrives at 61 s. */
const SWEPT_MS = 8_000;

describe.skipIf(NO_REDIS !== undefined)("a forged flag `gone`", () => {
  const rigOf = useAttackedSync();

  const flag = async (owner: string, atMs: number): Promise<void> => {
    const harness = rigOf();
    const slice = harness.slice("pods", owner);
    for (const [key, entry] of Object.entries(await harness.redis.hgetall(slice))) await harness.redis.hset(slice, key, `g${atMs}${entry}`);
  };

  it("a forged flag on all 5 pods of an owner causes 5 surplus pods, for at most 61 s", async () => {
    const harness = rigOf();
    const before = (await harness.pods()).length;
    const owner = await harness.replicaSet("web", 5);
    await flag(owner, Date.now());
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(before + 10);
    await harness.pass(50_000);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(10);
    await harness.pass(11_000 + SWEPT_MS);
    await harness.settle();
    expect(await harness.pods()).toHaveLength(5);
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(5);
  });

  it.each([
    { name: "in the future", byMs: HOUR_MS },
    { name: "in the past", byMs: -HOUR_MS },
  ])("a forged flag with a time $name causes no surplus pod", async ({ byMs }) => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 5);
    await flag(owner, Date.now() + byMs);
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(5);
    expect(harness.writes.filter((write) => !write.startsWith("create"))).toEqual([]);
    expect(harness.writes).toHaveLength(5);
  });
});
