/**
 * Threat: HDEL of a slice entry stalls the pod's lane for ever, or makes the pod nobody's. Who: anyone who may write to Redis. A MAC
 * cannot show what is not there: until the pod's next event its owner makes another one, and then deletes the surplus.
 */
import { describe, expect, it } from "vitest";

import { NO_REDIS, useRowsRig } from "./rows-rig.ts";

const STATUS = "application/strategic-merge-patch+json";

describe.skipIf(NO_REDIS !== undefined)("an entry that was taken away", () => {
  const rigOf = useRowsRig();

  it.each([
    { name: "the entry", withRow: false },
    { name: "the entry and its row", withRow: true },
  ])("costs one more pod each at most, stalls no lane and loses no pod: $name", async ({ withRow }) => {
    const rig = rigOf();
    const owner = await rig.replicaSet("web", 3);
    const before = await rig.pods();
    for (const { key } of before) {
      await rig.redis.hdel(rig.slice("pods", owner), key);
      if (withRow) await rig.redis.hdel(...rig.row("pods", key));
    }
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(6);
    for (const { key } of before) {
      const [, name = ""] = key.split("/");
      await rig.person.request("PATCH", `/api/v1/namespaces/shop/pods/${name}/status`, { status: { phase: "Running" } }, STATUS);
    }
    await rig.stream();
    await rig.settle();
    expect(await rig.pods()).toHaveLength(3);
    await rig.touch("web");
    expect(await rig.pods()).toHaveLength(3);
    expect(Object.keys(await rig.redis.hgetall(rig.slice("pods", owner))).toSorted()).toEqual(
      (await rig.pods()).map(({ key }) => key).toSorted(),
    );
  });
});
