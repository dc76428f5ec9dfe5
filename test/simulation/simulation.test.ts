// Would catch: a rule of the protocol that holds in a unit test and not in the whole: a pod too many, a lost wake-up, a cache that differs, a system that never rests.
import { expect, test } from "vitest";
import { FAILED_ONCE, OPEN, SEEDS } from "./seeds.ts";
import { isKnown } from "./checks.ts";
import { simulate } from "./world.ts";

async function failures(seed: number, off?: Parameters<typeof simulate>[0]["off"]): Promise<readonly string[]> {
  const { violations, mix } = await simulate({ seed, ...(off && { off }) });
  return violations
    .filter(({ rule }) => !isKnown(rule))
    .map(({ rule, atMs, what }) => `npm run sim -- --seed ${seed} (${mix}): ${rule} at ${atMs} ms: ${what}`);
}

test.each(SEEDS.filter((seed) => !OPEN.some((open) => open.seed === seed)))(
  "seed %i: the bounds always hold, and the final state is as desired, exact and idle",
  async (seed) => {
    expect(await failures(seed)).toEqual([]);
  },
);

test.each(OPEN)("seed $seed violates a rule, which is a known and open bug: $why", async ({ seed, violation }) => {
  expect(await failures(seed)).toEqual([expect.stringContaining(violation)]);
});

test.each(FAILED_ONCE)("seed $seed failed once: $why", async ({ seed }) => {
  expect(await failures(seed)).toEqual([]);
});

test("jumps of the Store's clock by five minutes violate no bound, and the desired state is reached", async () => {
  const { violations, stats } = await simulate({ seed: 4, fault: "clock" });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["jumps of the Store's clock"]).toBeGreaterThan(2);
});

test("a second cluster with the same keys, Store and queues writes nothing, and the original reaches its desired state", async () => {
  const { violations, stats } = await simulate({ seed: 2, fault: "clone" });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["second clusters"]).toBe(1);
  expect(stats["writes of a second cluster"]).toBeUndefined();
});

test("[informer T60] a run is reproducible from its seed", async () => {
  const runs = await Promise.all(
    [1, 2].map(async () => {
      const lines: string[] = [];
      await simulate({ seed: 11, trace: (line) => lines.push(line) });
      return lines;
    }),
  );
  expect(runs[0]?.length).toBeGreaterThan(500);
  expect(runs[1]).toEqual(runs[0]);
});
