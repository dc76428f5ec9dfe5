/** Catches: a further cluster that is billed like the first, fixed items billed per cluster, and a goal that is met by the wrong comparison. */
import { expect, it } from "vitest";

import { clustersReport } from "../../../../cli/cost/clusters.ts";
import { monthOf } from "../../../../cli/cost/month.ts";
import { reportForPeople } from "../../../../cli/cost/report.ts";
import { usageOf } from "../../../../cli/cost/usage.ts";
import { madeOf, stackOf } from "../../../../shared/controllers/registry/stack.ts";
import { COUNTS, IDLE, PRICES } from "./fixtures.ts";

const HOURS = 730;

const month = (clusters: number, parameters: Readonly<Record<string, string>>) => {
  const stack = stackOf(parameters);
  return monthOf(stack, madeOf(stack), usageOf(COUNTS, IDLE, clusters), { slower: 3, coldStartMs: 100, series: COUNTS.series }, PRICES);
};
const report = (count = 11, prices = PRICES) => clustersReport(count, { natGateway: "false" }, month, COUNTS, prices);

it("bills fixed resources once, and each further cluster by the counts of a further cluster", () => {
  const { items } = report();
  const of = (name: string) => items.find((item) => item.name === name);
  expect(of("store, 2 × cache.t4g.small")).toMatchObject({ firstUsd: 1_460, furtherUsd: 0, usd: 1_460 });
  // One dollar for a million requests in the fixture; the first cluster sends 400 an hour, a further one 30.
  expect(of("SQS FIFO: messages")?.firstUsd).toBeCloseTo((400 * HOURS) / 1e6);
  expect(of("SQS FIFO: messages")?.furtherUsd).toBeCloseTo((30 * HOURS) / 1e6);
  expect(of("SQS FIFO: messages")?.usd).toBeCloseTo(((400 + 10 * 30) * HOURS) / 1e6);
  expect(items.reduce((sum, { firstUsd }) => sum + firstUsd, 0)).toBeCloseTo(
    month(1, { natGateway: "false" }).reduce((sum, { idleUsd }) => sum + idleUsd, 0),
  );
});

it("prices Serverless by its minimum size and by ECPUs, of which checkpoints are shown apart", () => {
  const { serverless } = report();
  const of = (name: string) => serverless.find((item) => item.name === name);
  expect(of("store: data")).toMatchObject({ firstUsd: 0.1 * HOURS, furtherUsd: 0 });
  // One dollar for each ECPU in the fixture.
  expect(of("store: ECPUs of checkpoints")?.furtherUsd).toBeCloseTo(600 * HOURS);
  expect(of("store: ECPUs of other commands")?.furtherUsd).toBeCloseTo(400 * HOURS);
});

it("compares with the smallest Fargate tasks, and with the measured memory and CPU on nodes", () => {
  expect(report().residents).toEqual([
    { name: "Fargate tasks of 0.25 vCPU and 0.5 GiB", usd: 11 * HOURS * 0.75 },
    { name: "64 MiB (PSS), 0.01 cores each on nodes", usd: 11 * HOURS * (0.01 + 64 / 1_024) },
  ]);
});

it("judges each goal by its own deployment, whatever number of clusters is asked for", () => {
  const { goals } = report();
  const further =
    (month(200, { watcherImage: "x" }).reduce((sum, { idleUsd }) => sum + idleUsd, 0) -
      month(1, { watcherImage: "x" }).reduce((sum, { idleUsd }) => sum + idleUsd, 0)) /
    199;
  expect(goals.map(({ goalUsd, isMet }) => [goalUsd, isMet])).toEqual([
    [28, false],
    [20, false],
    [0.1, further <= 0.1],
    [0.05 * 200 * HOURS * 0.75, false],
  ]);
  expect(goals[2]?.usd).toBeCloseTo(further, 1);
  // The task of a watcher in an existing cluster is not billed, its endpoints neither.
  expect(goals[1]?.usd).toBeLessThan((goals[0]?.usd ?? 0) - HOURS);
  expect(report(500).goals).toEqual(goals);
});

it("prints the table, both baselines and the goals", () => {
  const costly = { ...PRICES, prices: { ...PRICES.prices, fargateCpuHour: { ...PRICES.prices.fargateCpuHour, usd: 100 } } };
  const items = month(11, {});
  const text = reportForPeople({
    ...{ region: "nowhere-1", pricesOf: "2026-11-25", countsOf: "2026-11-25", countedAt: "0123456", slower: 3, parameters: {} },
    ...{ rates: IDLE, items, residents: [], savings: [], clusters: report(11, costly) },
  });
  expect(text).toMatch(/^idle clusters +the first +each further +all 11$/m);
  expect(text).toMatch(/^for 11 idle clusters, with /m);
  expect(text).toMatch(/^ {2}64 MiB .* deltaloop: \d+\.\d times$/m);
  expect(text).toMatch(/^SQS FIFO: messages +0\.29 +0\.0219 +0\.51$/m);
  expect(text).toMatch(/^store: ECPUs of checkpoints /m);
  expect(text).toMatch(/^ {2}Fargate tasks of 0\.25 vCPU and 0\.5 GiB .* deltaloop: \d+\.\d %$/m);
  expect(text).toMatch(/^ {2}one idle cluster, watcher as a Fargate task .* not met, at most 28\.00$/m);
});
