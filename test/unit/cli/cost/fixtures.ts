/** Counts and prices with round numbers, so that sums are easy to verify. */
import { NOTHING } from "../../../../cli/cost/counts.ts";
import type { Counts, CountsFile } from "../../../../cli/cost/counts.ts";
import { PRICE_NAMES } from "../../../../cli/cost/prices.ts";
import type { Prices } from "../../../../cli/cost/prices.ts";
import type { Rates } from "../../../../cli/cost/usage.ts";

export const counts = (of: Partial<Counts>): Counts => ({ ...NOTHING, ...of });

export const COUNTS: CountsFile = {
  date: "2026-11-25",
  commit: "0123456",
  how: "made up",
  idleHour: counts({
    functions: { "apply-deltas": { invocations: 100, ms: 1_000, atOnce: 2 }, sweep: { invocations: 60, ms: 600, atOnce: 1 } },
    fifo: 400,
    queueBytes: 1_000_000,
    apiBytes: 2_000_000,
    storeBytes: 10_000_000,
    metricBytes: 50_000,
  }),
  furtherIdleHour: counts({
    functions: { "apply-deltas": { invocations: 10, ms: 20, atOnce: 0 } },
    fifo: 30,
    ecpus: 1_000,
    checkpointEcpus: 600,
  }),
  clustersOf: { date: "2026-11-30", commit: "0123456" },
  resident: { date: "2026-11-30", memoryMib: 64, cores: 0.01 },
  series: { idle: 10, work: 40 },
  coldStartMs: 100,
  rollouts: [
    { pods: 10, counts: counts({ functions: { "sync-deployment": { invocations: 20, ms: 400, atOnce: 1 } }, fifo: 100, standard: 60 }) },
    { pods: 200, counts: counts({ functions: { "sync-deployment": { invocations: 40, ms: 800, atOnce: 3 } }, fifo: 300, standard: 160 }) },
  ],
  created: counts({ fifo: 20 }),
  lostPod: counts({ fifo: 10 }),
  podChange: counts({ functions: { "sync-replicaset": { invocations: 1, ms: 10, atOnce: 1 } }, fifo: 3, standard: 3 }),
  otherPod: counts({ fifo: 15 }),
};

/** One dollar per unit, or per million requests. */
export const PRICES: Prices = {
  date: "2026-11-25",
  region: "nowhere-1",
  about: "made up",
  prices: Object.fromEntries(
    PRICE_NAMES.map((name) => [name, { usd: 1, per: /Request|Read|sqs/.test(name) ? 1_000_000 : 1, unit: "units", source: "made up" }]),
  ) as unknown as Prices["prices"], // has all names
  nodes: {
    "cache.t4g.small": { usd: 1, per: 1, unit: "hours", source: "made up" },
    "db.t4g.small": { usd: 2, per: 1, unit: "hours", source: "made up", uncertain: "a guess" },
  },
};

export const IDLE: Rates = {
  deployments: 0,
  pods: 10,
  rolloutsPerDay: 0,
  newDeploymentsPerDay: 0,
  lostPodsPerDay: 0,
  podChangesPerDay: 0,
  otherPodsPerDay: 0,
};
