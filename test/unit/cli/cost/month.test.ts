/** Catches: an item that is omitted or billed twice, an option without effect, and a report that understates an expensive item. */
import { expect, it } from "vitest";

import { residentsOf, savingsOf } from "../../../../cli/cost/compare.ts";
import { monthOf, sumOf } from "../../../../cli/cost/month.ts";
import type { Item } from "../../../../cli/cost/month.ts";
import { reportAsObject, reportForPeople } from "../../../../cli/cost/report.ts";
import { madeOf, stackOf } from "../../../../shared/controllers/registry/stack.ts";
import { usageOf } from "../../../../cli/cost/usage.ts";
import type { Rates } from "../../../../cli/cost/usage.ts";
import { COUNTS, IDLE, PRICES } from "./fixtures.ts";

type Parameters = Readonly<Record<string, string>>;

function month(parameters: Parameters, rates: Rates = IDLE, prices = PRICES): readonly Item[] {
  const stack = stackOf(parameters);
  return monthOf(stack, madeOf(stack), usageOf(COUNTS, rates), { slower: 3, coldStartMs: 100, series: COUNTS.series }, prices);
}

it("an idle month lists each item once, and includes continuous long polls of each queue by five pollers", () => {
  expect(
    Object.fromEntries(month({}).map(({ name, idle, work }) => [name, work === 0 ? Math.round(idle * 1_000) / 1_000 : "work"])),
  ).toEqual({
    "store, 2 × cache.t4g.small": 1_460,
    "NAT gateway": 730,
    "its public address": 730,
    "traffic through it": 1.46,
    "endpoints, 2 in 2 zones": 2_920,
    "traffic through them": 0.73,
    "traffic to the store": 3.65,
    "watchers, 2: CPU": 365,
    "watchers, 2: memory": 730,
    "KMS key": 1,
    // Three sandboxes and two watchers read four secrets every five minutes, and request a message key three times an hour.
    "KMS requests": 5 * 12 * 730 * 4 + 3 * 730,
    secrets: 14,
    "reads of secrets": 5 * 12 * 730 * 4,
    alarms: 42,
    "custom metrics": 10,
    logs: 0.077,
    "logs, kept 30 days": 0.077,
    "Lambda: requests": 160 * 730,
    "Lambda: time": 1.6 * 730 * 3,
    "SQS FIFO: empty polls": 2 * 5 * 3 * 60 * 730,
    "SQS FIFO: messages": 400 * 730,
    "SQS: empty polls": 3 * 5 * 3 * 60 * 730,
  });
});

it("profile lean has one zone, one node, one watcher with a public address, and no NAT gateway, endpoint or key", () => {
  const lean = { ...PRICES, nodes: { ...PRICES.nodes, "cache.t4g.micro": PRICES.nodes["cache.t4g.small"] ?? fail() } };
  const quantities = Object.fromEntries(month({ profile: "lean", watcherImage: "w:1" }, IDLE, lean).map(({ name, idle }) => [name, idle]));
  expect(quantities).toMatchObject({
    "store, 1 × cache.t4g.micro": 730,
    "watchers, 1: CPU": 0.25 * 730,
    "watchers, 1: public address": 730,
    secrets: 3,
    alarms: 15,
    "custom metrics": 1,
  });
  const names = Object.keys(quantities).join("\n");
  expect(names).not.toMatch(/NAT|endpoints|KMS|traffic/);
  const serverless = Object.fromEntries(month({ profile: "lean", store: "serverless" }).map(({ name, idle }) => [name, idle]));
  expect(serverless).toMatchObject({ "store: data": 0.1 * 730 });
  expect(Object.keys(serverless).join("\n")).not.toContain("×");
});

function fail(): never {
  throw new Error("missing in the fixtures");
}

it("adds work: messages, durations with cold starts, and metrics of the busy hours", () => {
  const items = month({}, { ...IDLE, rolloutsPerDay: 24 });
  const work = Object.fromEntries(items.flatMap(({ name, work: used }) => (used > 0 ? [[name, Math.round(used * 1_000) / 1_000]] : [])));
  expect(work).toMatchObject({
    "SQS FIFO: messages": 730 * 100,
    "SQS: messages": 730 * 60,
    "Lambda: requests": 730 * 20,
    "Lambda: time": 730 * 3 * (0.4 + 0.1),
    "custom metrics": 40,
    "reads of secrets": 730 * 4,
    "KMS requests": 730 * (4 + 33),
  });
  expect(items.find(({ name }) => name === "NAT gateway")).toMatchObject({ workUsd: 0 });
});

it.each<{ name: string; parameters: Parameters; gone?: RegExp; there?: string }>([
  { name: "no NAT gateway", parameters: { natGateway: "false" }, gone: /NAT|its|through it/ },
  { name: "no endpoints, so calls go through the NAT gateway", parameters: { endpoints: "false" }, gone: /endpoints|through them/ },
  { name: "a watcher in the VPC, which needs three more endpoints", parameters: { watcherImage: "x" }, there: "endpoints, 5 in 2 zones" },
  { name: "shadow mode, which has one watcher", parameters: { mode: "shadow" }, there: "watchers, 1: CPU" },
  { name: "an existing store", parameters: { store: "given" }, gone: /store/ },
  {
    name: "three nodes of another node type",
    parameters: { storeNodes: "3", storeNodeType: "db.t4g.small" },
    there: "store, 3 × db.t4g.small",
  },
  { name: "MemoryDB", parameters: { store: "memorydb" }, there: "store, 2 × db.t4g.small" },
  { name: "no VPC", parameters: { network: "none", store: "given" }, gone: /NAT|endpoints|store|through/ },
  { name: "subnets in three zones", parameters: { network: "given", subnetIds: "a,b,c" }, gone: /NAT/, there: "endpoints, 2 in 3 zones" },
  { name: "no customer-managed key", parameters: { keyArn: "none" }, gone: /KMS/ },
  {
    name: "an existing key, whose requests are counted too",
    parameters: { keyArn: "arn:aws:kms:x" },
    gone: /KMS key/,
    there: "KMS requests",
  },
  { name: "no metrics", parameters: { metrics: "none" }, gone: /custom metrics/ },
])("lists the expected cost items with $name", ({ parameters, gone, there }) => {
  const names = month(parameters).map(({ name }) => name);
  expect(names.filter((name) => gone?.test(name))).toEqual([]);
  expect(names).toContain(there ?? "alarms");
});

it.each([
  { parameters: { natgateway: "false" }, says: "natgateway: unknown stack parameter; known are network, natGateway, " },
  { parameters: { store: "redis" }, says: "store=redis: must be one of valkey, serverless, memorydb, given" },
  { parameters: { secretsSeconds: "301" }, says: "secretsSeconds=301: must be a whole number from 1 to 300" },
  { parameters: { network: "none" }, says: "network=none needs store=given" },
  {
    parameters: { storeNodeType: "cache.x9" },
    says: "have no node type cache.x9, only cache.t4g.small, db.t4g.small: add it with --prices",
  },
])("rejects values that a deployment would reject, or that have no price: $says", ({ parameters, says }) => {
  expect(() => month(parameters)).toThrow(says);
});

it("compares alternatives by the cost of the whole month", () => {
  const savings = savingsOf({ natGateway: "false" }, (parameters) => month(parameters));
  expect(savings.map(({ parameter }) => parameter)).toEqual(["endpoints=false", "store=given", "metrics=none", "keyArn=none"]);
  expect(savings[1]?.usd).toBeCloseTo(1_460 + 3.65 + 5 + 7, 1);
});

const report = (rates: Rates, items: readonly Item[], residents = residentsOf(PRICES)) => ({
  region: "nowhere-1",
  pricesOf: "2026-11-25",
  countsOf: "2026-11-25",
  countedAt: "0123456",
  slower: 3,
  parameters: { store: "memorydb" },
  rates,
  items,
  residents,
  savings: [{ parameter: "natGateway=false", wants: "an API server with a private address", usd: 36.5 }],
});
const item = (name: string, idleUsd: number, workUsd: number, uncertain?: string): Item => ({
  name,
  price: "node",
  unit: "hours",
  idle: idleUsd * 2,
  work: workUsd * 2,
  idleUsd,
  workUsd,
  ...(uncertain !== undefined && { uncertain }),
});

it("prints a table, the most expensive item first, and states that a pod that runs all the time is cheaper", () => {
  const text = reportForPeople(
    report(
      { ...IDLE, deployments: 50, rolloutsPerDay: 20 },
      [item("SQS", 0.5, 0.25), item("store", 90, 0, "a guess"), item("KMS", 0.001, 0)],
      [
        { name: "one of 0.5 vCPU and 1 GiB", usd: 14.42 },
        { name: "two of 4 vCPU", usd: 200 },
      ],
    ),
  );
  expect(text).toBe(
    [
      "deltaloop cost: a month of 730 hours in nowhere-1, in US dollars; prices of 2026-11-25, counts of 2026-11-25 at 0123456",
      "for 50 Deployments of 10 and, a day, 20 rollouts of 10, with store=memorydb",
      "",
      "item     amount         idle  work  per month",
      "store *  180 hours     90.00  0.00      90.00",
      "SQS      1.5 hours      0.50  0.25       0.75",
      "KMS      0.002 hours  < 0.01  0.00     < 0.01",
      "sum                    90.50  0.25      90.75",
      "",
      "100 % is idle cost. Largest items: store (99 %).",
      "",
      "A resident controller manager on Fargate instead:",
      "  one of 0.5 vCPU and 1 GiB       14.42   cheaper by 76.33 (1/6.3 of the cost)",
      "  two of 4 vCPU                  200.00   more expensive by 109.25 (2.2 times the cost)",
      "The cheapest of them costs less than the idle cost of deltaloop, so it is cheaper for every workload.",
      "A kube-controller-manager that runs anyway does the same work at almost no extra cost. Cost is no reason to use deltaloop.",
      "",
      "Cheaper with one of:",
      "  natGateway=false      36.50   requires an API server with a private address",
      "",
      "Free tiers, discounts and tax are not included. The counts are from one machine; times are multiplied by 3.",
      "This was never compared with a bill: we have not deployed deltaloop to AWS. The additional load of the API server is not included.",
      "* store: a guess",
      "",
    ].join("\n"),
  );
});

it("states that a resident controller manager is more expensive, but not for every workload", () => {
  const text = reportForPeople(report(IDLE, [item("SQS", 1, 0)]));
  expect(text).toContain("for an idle cluster, ");
  expect(text).toContain("more expensive by");
  expect(text).not.toContain("for every workload");
});

it("prints no share and no ratio if all prices are 0", () => {
  const nothing = { name: "one of 0.5 vCPU and 1 GiB", usd: 0 };
  const free = reportForPeople(report(IDLE, [], [nothing]));
  expect(free).toContain("\nEverything is free at these prices.\n");
  expect(free).toContain("  one of 0.5 vCPU and 1 GiB        0.00   costs the same\n");
  const beside = reportForPeople(report(IDLE, [item("SQS", 1, 0)], [nothing]));
  expect(beside).toContain("  one of 0.5 vCPU and 1 GiB        0.00   cheaper by 1.00\n");
  expect(free + beside).not.toMatch(/NaN|Infinity/);
});

it("lists the parameters that change the cost", () => {
  const parameters = { storeNodes: "3", kubeCa: "LS0tLS1CRUdJTi", redisUrl: "rediss://cache:6379", clusterId: "5d3f00aa11bb" };
  expect(reportForPeople({ ...report(IDLE, []), parameters })).toContain("an idle cluster, with storeNodes=3\n");
  const free = { clusterId: "5d3f00aa11bb" };
  expect(reportForPeople({ ...report(IDLE, []), parameters: free })).toContain("with default parameters\n");
});

it("the report as an object has all numbers and the sum", () => {
  const items = month({}, { ...IDLE, lostPodsPerDay: 1 });
  const read = JSON.parse(JSON.stringify(reportAsObject(report(IDLE, items)))) as {
    readonly version: number;
    readonly sum: unknown;
    readonly items: unknown;
  };
  expect(read).toMatchObject({ version: 1, sum: sumOf(items), items: JSON.parse(JSON.stringify(items)) as unknown });
});
