// Would catch: the same bugs as fixed.test.ts, in schedules that differ in each run.
import { expect, test } from "vitest";
import { failures } from "./failures.ts";
import { FRESH_SEEDS } from "./seeds.ts";

test.each(FRESH_SEEDS)("new seed %i violates no bound, and ends idle in the desired state with an exact cache", async (seed) => {
  expect(await failures(seed)).toEqual([]);
});
