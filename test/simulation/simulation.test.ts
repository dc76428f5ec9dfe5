// Would catch: a protocol rule that holds in unit tests but not in the whole system: a surplus pod, a lost wake-up, a cache that differs
// from the API server, or a system that never settles.
import { expect, test } from "vitest";
import { FAILED_ONCE } from "./seeds.ts";
import { isKnown } from "./checks.ts";
import { simulate } from "./world.ts";
import { failures } from "./failures.ts";

test.each(FAILED_ONCE)("passes seed $seed, which failed once: $why", async ({ seed, fault }) => {
  expect(await failures(seed, fault)).toEqual([]);
});

test("violates no bound and reaches the desired state when the Store's clock jumps by five minutes", async () => {
  const { violations, stats } = await simulate({ seed: 4, fault: "clock" });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["jumps of the Store's clock"]).toBeGreaterThan(2);
});

test("opens a new epoch, creates no pod too many and reaches the desired state when etcd is restored", async () => {
  const { violations, stats } = await simulate({ seed: 1, fault: "etcd" }); // fails without LE7 and the check of a list's version
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["restores of etcd"]).toBe(2);
});

test("a second cluster with the same keys, Store and queues writes nothing, and the original cluster reaches the desired state", async () => {
  const { violations, stats } = await simulate({ seed: 2, fault: "clone" });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["second clusters"]).toBe(1);
  expect(stats["writes of a second cluster"]).toBeUndefined();
});

test.each([
  { fault: "upkeep", seed: 3, counts: "audits", off: "A4", detects: "SC13" },
  { fault: "stops", seed: 3, counts: "stops", off: "stop", detects: "SC12" },
  { fault: "skew", seed: 3, counts: "watchers with a wrong clock" },
  { fault: "hostile", seed: 1, counts: "hostile messages: changed", off: "signature", detects: "SE1" },
  { fault: "keys", seed: 13, counts: "texts signed with an unknown key" },
  { fault: "full", seed: 3, counts: "full Store: items left out", off: "full", detects: "SE1" },
  { fault: "builds", seed: 3, counts: "messages left for another build", off: "identity", detects: "SC14" },
  { fault: "big", seed: 1, counts: "objects that grew" },
  { fault: "stale", seed: 10, counts: "stale lists" },
] as const)("violates no bound under the fault $fault", async ({ fault, seed, counts, off, detects }) => {
  const { violations, stats } = await simulate({ seed, fault });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats[counts]).toBeGreaterThan(0);
  if (off === undefined) return;
  const without = await simulate({ seed, fault, off: new Set([off]) });
  expect(without.violations.map(({ rule }) => rule)).toContainEqual(expect.stringContaining(detects));
});

test.each([1, 3, 29])("seed %i violates no bound while the lanes of a small cluster grow", async (seed) => {
  const { violations, stats } = await simulate({ seed, grows: true });
  expect(violations.filter(({ rule }) => !isKnown(rule))).toEqual([]);
  expect(stats["growths of lanes"]).toBeGreaterThan(0);
});

test("[informer T60] a simulation is reproducible from its seed", async () => {
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
