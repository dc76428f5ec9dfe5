// Would catch: a bug of the protocol that fails only for some order of faults. In a file of its own, so that two workers share the seeds.
import { expect, test } from "vitest";
import { failures } from "./failures.ts";
import { SEEDS } from "./seeds.ts";

test.each(SEEDS)("seed %i: violates no bound, and ends idle in the desired state with an exact cache", async (seed) => {
  expect(await failures(seed)).toEqual([]);
});
