/**
 * Threat: HDEL of a slice entry stalls the pod's lane forever, or hides the pod from its owner. Who: anyone who may write to Redis. A MAC
 * cannot reveal a missing entry, but the owner's status still counts its pods, so the controller lists them before it creates any.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useAttackedSync } from "../harness/sync/attacked-sync.ts";

const STATUS = "application/strategic-merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("a slice entry that was removed from Redis", () => {
  const rigOf = useAttackedSync();

  it.each([
    { name: "the entry", withRow: false },
    { name: "the entry and its row", withRow: true },
  ])("removing $name creates no pod, deletes no pod and blocks no lane", async ({ withRow }) => {
    const harness = rigOf();
    const owner = await harness.replicaSet("web", 3);
    const before = await harness.pods();
    for (const { key } of before) {
      await harness.redis.hdel(harness.slice("pods", owner), key);
      if (withRow) await harness.redis.hdel(...harness.row("pods", key));
    }
    await harness.touch("web");
    expect(await harness.pods()).toEqual(before);
    for (const { key } of before) {
      const [, name = ""] = key.split("/");
      await harness.person.request("PATCH", `/api/v1/namespaces/shop/pods/${name}/status`, { status: { phase: "Running" } }, STATUS);
    }
    await harness.stream();
    await harness.settle();
    expect(await harness.pods()).toHaveLength(3);
    await harness.touch("web");
    expect(await harness.pods()).toHaveLength(3);
    expect(Object.keys(await harness.redis.hgetall(harness.slice("pods", owner))).toSorted()).toEqual(
      (await harness.pods()).map(({ key }) => key).toSorted(),
    );
  });
});
