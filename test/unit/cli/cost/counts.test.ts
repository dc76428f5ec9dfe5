/** Catches: a month without idle costs, a wrong size of a rollout, and an invalid file of counts or prices that is accepted. */
import { expect, it } from "vitest";

import counted from "../../../../cli/cost/counts.json" with { type: "json" };
import { added, NOTHING, parseCounts, rolloutOf, scaled } from "../../../../cli/cost/counts.ts";
import prices from "../../../../cli/cost/prices.json" with { type: "json" };
import { parsePrices } from "../../../../cli/cost/prices.ts";
import { usageOf } from "../../../../cli/cost/usage.ts";
import type { Rates } from "../../../../cli/cost/usage.ts";
import { COUNTS, counts, IDLE } from "./fixtures.ts";

const DAYS = 730 / 24;

it("twice the work costs twice as much for the same number of execution environments", () => {
  const once = counts({ functions: { sweep: { invocations: 2, ms: 30, atOnce: 1 } }, fifo: 4 });
  expect(scaled(once, 2)).toEqual(counts({ functions: { sweep: { invocations: 4, ms: 60, atOnce: 1 } }, fifo: 8 }));
  const other = counts({ functions: { sweep: { invocations: 1, ms: 5, atOnce: 3 }, x: { invocations: 1, ms: 1, atOnce: 1 } }, fifo: 1 });
  expect(added(once, other)).toEqual(
    counts({ functions: { sweep: { invocations: 3, ms: 35, atOnce: 3 }, x: { invocations: 1, ms: 1, atOnce: 1 } }, fifo: 5 }),
  );
  expect(added(NOTHING, once)).toEqual(once);
});

it.each([
  { name: "is the measured cost for a measured size", pods: 200, fifo: 300 },
  { name: "is interpolated between two measured sizes", pods: 105, fifo: 200 },
  { name: "is extrapolated beyond the largest measured size", pods: 390, fifo: 500 },
  { name: "is that of the smallest measured size for smaller sizes", pods: 3, fifo: 100 },
])("the cost of a rollout $name", ({ pods, fifo }) => {
  expect(rolloutOf(pods, COUNTS.rollouts).fifo).toBeCloseTo(fifo);
});

it.each<{ name: string; rates: Partial<Rates>; fifo: number; starts: number; workHours: number }>([
  { name: "no activity", rates: {}, fifo: 0, starts: 0, workHours: 0 },
  { name: "four rollouts a day", rates: { rolloutsPerDay: 4 }, fifo: 4 * DAYS * 100, starts: 4 * DAYS, workHours: 4 * DAYS },
  {
    name: "unchanged Deployments, each resynced with its ReplicaSets",
    rates: { deployments: 10 },
    fifo: 8_760 * 3,
    starts: 8_760,
    workHours: 730,
  },
  {
    name: "uninterrupted changes, in which no execution environment is idle and each reads its secrets every five minutes",
    rates: { podChangesPerDay: 24_000 },
    fifo: 730_000 * 3,
    starts: 12 * 730,
    workHours: 730,
  },
  {
    name: "other clients' pods, which only warm execution environments receive",
    rates: { otherPodsPerDay: 24 },
    fifo: 730 * 15,
    starts: 0,
    workHours: 730,
  },
])("computes the usage of a month with $name", ({ rates, fifo, starts, workHours }) => {
  const usage = usageOf(COUNTS, { ...IDLE, ...rates });
  expect(usage.idle.fifo).toBe(730 * 400);
  expect(usage.work.fifo).toBeCloseTo(fifo);
  expect(usage.starts).toBeCloseTo(starts);
  expect(usage.workHours).toBeCloseTo(workHours);
});

it("the shipped files are readable, and state when and where they were measured", () => {
  const file = parseCounts("counts.json", counted);
  expect(file.date).toMatch(/^\d{4}-\d\d-\d\d$/);
  expect(file.commit).toMatch(/^[0-9a-f]{7,}$/);
  expect(Object.keys(file.idleHour.functions).toSorted()).toEqual(["apply-deltas", "sweep"]);
  // Each of the 23 lanes gets a heartbeat every 15 s; each batch of up to ten needs one request to send, one to receive and one to delete
  // it.
  expect(file.idleHour.fifo).toBeGreaterThan((23 / 10) * 240 * 3);
  expect(file.idleHour.fifo).toBeLessThan(23 * 240 * 3 * 1.3);
  expect(file.idleHour.standard).toBe(0);
  expect(file.rollouts.map(({ pods }) => pods)).toEqual([1, 10, 200]);
  expect(file.rollouts.map((rollout) => rollout.counts.fifo)).toEqual(
    file.rollouts.map((rollout) => rollout.counts.fifo).toSorted((a, b) => a - b),
  );
  expect(parsePrices("prices.json", prices)).toMatchObject({ region: "us-east-1", date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) });
});

it("rejects an invalid file with the path of the error", () => {
  expect(() => parseCounts("mine.json", { ...COUNTS, idleHour: { ...COUNTS.idleHour, fifo: -1 } })).toThrow("mine.json: idleHour.fifo: ");
  expect(() => parseCounts("mine.json", [])).toThrow("mine.json: ");
  const { natHour: _, ...others } = prices.prices;
  expect(() => parsePrices("mine.json", { ...prices, prices: others })).toThrow("mine.json: prices has no natHour");
  expect(() => parsePrices("mine.json", { ...prices, prices: { ...prices.prices, natHour: { usd: "1" } } })).toThrow(
    "mine.json: prices.natHour.",
  );
});
