// Would catch: what the fixed seeds of simulation.test.ts would, in schedules that nobody has seen.
import { expect, test } from "vitest";
import { isKnown } from "./checks.ts";
import { FRESH_SEEDS } from "./seeds.ts";
import { simulate } from "./world.ts";

test.each(FRESH_SEEDS)("new seed %i violates no bound, and ends idle in the desired state with an exact cache", async (seed) => {
  const { violations, mix } = await simulate({ seed });
  const unknown = violations.filter(({ rule }) => !isKnown(rule));
  expect(unknown.map(({ rule, atMs, what }) => `npm run sim -- --seed ${seed} (${mix}): ${rule} at ${atMs} ms: ${what}`)).toEqual([]);
});
