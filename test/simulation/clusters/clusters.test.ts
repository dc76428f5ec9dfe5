// Would catch: work of one cluster that reaches another cluster's API server, Store, messages or functions, and a cluster that fails, lies, is
// restored or copied and keeps the others from their desired state.
import { expect, test } from "vitest";

import { isKnown } from "../checks.ts";
import { PLANTS } from "./plants.ts";
import type { Plant } from "./plants.ts";
import { simulateClusters } from "./simulate-clusters.ts";

/** Seed 1: four clusters. Seed 4: a late copy, equal uids, and a Store that is restored. */
test.each([1, 4])("clusters seed %i: nothing crosses, and every cluster ends idle in its desired state", async (seed) => {
  const { violations, mix, stats } = await simulateClusters({ seed });
  const found = violations
    .filter(({ rule }) => !isKnown(rule))
    .map(({ rule, atMs, what }) => `npm run sim -- --clusters --seed ${seed} (${mix}): ${rule} at ${atMs} ms: ${what}`);
  expect(found).toEqual([]);
  expect(stats["requests checked"]).toBeGreaterThan(500);
  expect(stats["doorbells checked"]).toBeGreaterThan(100);
  expect(stats["forged messages"]).toBeGreaterThan(20);
});

test.each(Object.keys(PLANTS) as Plant[])("finds the planted mistake %s", async (plant) => {
  const { violations } = await simulateClusters({ seed: 1, plant });
  expect(violations.map(({ rule }) => rule)).toContain(PLANTS[plant].crosses);
});
