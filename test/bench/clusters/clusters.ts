/**
 * Many control planes behind one deployment: the bundled `dev --act --clusters`, in front of in-memory API servers that run in a few other
 * processes. `--rows 20,100,200` sets the sizes at which memory is read; the last is that of all other measurements.
 *
 * Each cluster has ten rolled-out Deployments of 3: 50 objects, and nothing to do. Memory, CPU: watcher and functions, without the local
 * queue and Redis, which replace AWS' own. POST to pod: measured in the API server, in a random cluster and, in turns, in the only cluster of
 * a second deployment, which idles otherwise. Storm: one cluster creates and deletes pods in a loop.
 *
 * Compared with resident controller managers: one on each of three real control planes, multiplied (resident.ts).
 */
import { setTimeout as sleep } from "node:timers/promises";

import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import { benchResult } from "../result.ts";
import type { BenchOptions, BenchResult } from "../result.ts";
import { measureResident } from "./resident.ts";
import type { Resident } from "./resident.ts";
import { bundledCommand, rolledOutObjects, startFleet, startHost } from "./stage.ts";
import type { Fleet, Host } from "./stage.ts";

const SIZES = ["20", "100", "200"];
const DEPLOYMENTS_EACH = 10;
const HOSTS = 2;
const REAL_PLANES = 3;
const SETTLE_MS = 15_000;
/** A process that has just served its first clusters compiles, and collects garbage, for most of a minute. */
const MEMORY_SETTLE_MS = 75_000;
const IDLE_MS = 60_000;
const PER_HOUR = 3_600_000 / IDLE_MS;
const ROUNDS = 100;
const WARM_UP = 10;
const PAUSE_MS = 50;
const STORM_PODS_PER_SECOND = 100;
const [PERCENT, MS_PER_SECOND] = [100, 1_000];
/** Issue: one deployment for 200 control planes. */
const GOALS = {
  memory: { name: "goal: 420 MiB with 200", value: 420 },
  further: { name: "goal: 0.4 MiB", value: 0.4 },
  cpu: { name: "goal: 10 % of a core", value: 10 },
  /** A resident controller manager renews its Lease every 2 s. */
  requests: { name: "goal: a resident manager's Lease renewals", value: 1_800 },
  cold: { name: "goal: 60 s with 200", value: 60 },
} as const;

/** @throws {Error} when there is no redis-server. */
export async function bench({ rows = SIZES }: BenchOptions = {}): Promise<readonly BenchResult[]> {
  const reason = ensureRedisServer();
  if (reason !== undefined) throw new Error(reason);
  const sizes = rows.map(Number);
  const total = sizes.at(-1) ?? 0;
  if (!sizes.every((size, i) => Number.isInteger(size) && size > (sizes[i - 1] ?? 1)))
    throw new Error("--rows: write growing numbers of clusters, from 2");
  const [main, objects] = [await bundledCommand(), await rolledOutObjects(DEPLOYMENTS_EACH)];
  const measured = await measureResident(REAL_PLANES, DEPLOYMENTS_EACH);
  if ("missing" in measured) say(`not compared with resident controller managers: ${measured.missing}`);
  const resident = "missing" in measured ? undefined : measured;
  const hosts: Host[] = [];
  const fleets: Fleet[] = [];
  try {
    const host = async (count: number): Promise<Host> => {
      const started = await startHost(count, objects);
      hosts.push(started);
      return started;
    };
    const fleet = async (urls: readonly string[]): Promise<Fleet> => {
      const started = await startFleet(main, urls);
      fleets.push(started);
      return started;
    };
    const [alone, stormy] = [await host(1), await host(1)];
    const calm: Host[] = [];
    for (let i = 0; i < HOSTS; i++) calm.push(await host(Math.floor((total - 1 + i) / HOSTS)));
    const urls = [stormy, ...calm].flatMap((each) => each.urls);
    const results: BenchResult[] = [];
    results.push(...(await memory(await fleet(urls.slice(0, sizes[0])), sizes, urls)));
    await fleets.pop()?.stop();

    const many = await fleet(urls);
    results.push(benchResult(`${total} clusters, from nothing to open gates`, "s", [many.coldSeconds], GOALS.cold));
    results.push(...(await idle(many, [stormy, ...calm], total)));
    await fleet(alone.urls);
    results.push(...(await latencies({ alone, calm, stormy }, { total, cpu: async () => (await many.usage()).cpuSeconds })));
    return resident ? [...results, ...compared(resident, results, total)] : results;
  } finally {
    for (const each of fleets) await each.stop();
    for (const each of hosts) each.stop();
  }
}

/** The first size is served already. */
async function memory(fleet: Fleet, sizes: readonly number[], urls: readonly string[]): Promise<readonly BenchResult[]> {
  const results: BenchResult[] = [];
  const read: number[] = [];
  for (const [i, size] of sizes.entries()) {
    const before = sizes[i - 1];
    if (before !== undefined)
      say(`${size - before} further clusters served after ${(await fleet.add(urls.slice(before, size))).toFixed(1)} s`);
    await sleep(MEMORY_SETTLE_MS);
    const { rssMiB } = await fleet.usage();
    read.push(rssMiB);
    results.push(benchResult(`watcher and functions with ${size} clusters`, "MiB", [rssMiB], GOALS.memory));
  }
  const further = ((read.at(-1) ?? 0) - (read[0] ?? 0)) / ((sizes.at(-1) ?? 0) - (sizes[0] ?? 0));
  return sizes.length < 2 ? results : [...results, benchResult("for each further cluster", "MiB", [further], GOALS.further)];
}

async function idle(fleet: Fleet, hosts: readonly Host[], total: number): Promise<readonly BenchResult[]> {
  await sleep(SETTLE_MS);
  const requests = async () => (await Promise.all(hosts.map(async (host) => await host.ask({ verb: "requests" })))).flat();
  const [before, asked, fromMs] = [await fleet.usage(), await requests(), performance.now()];
  await sleep(IDLE_MS);
  const [after, askedLater] = [await fleet.usage(), await requests()];
  const share = ((after.cpuSeconds - before.cpuSeconds) * PERCENT * MS_PER_SECOND) / (performance.now() - fromMs);
  const perHour = (kind: "leases" | "others"): number[] => askedLater.map((each, i) => (each[kind] - (asked[i]?.[kind] ?? 0)) * PER_HOUR);
  const all = perHour("leases").map((leases, i) => leases + (perHour("others")[i] ?? 0));
  return [
    benchResult(IDLE_MEMORY(total), "MiB", [after.rssMiB], GOALS.memory),
    benchResult(IDLE_CPU(total), "% of a core", [share], GOALS.cpu),
    benchResult(IDLE_REQUESTS, "an hour", all, GOALS.requests),
    benchResult("of these, without Leases", "an hour", perHour("others")),
  ];
}

interface Hosts {
  readonly alone: Host;
  readonly calm: readonly Host[];
  readonly stormy: Host;
}

interface Measured {
  readonly total: number;
  /** CPU seconds so far of watcher and functions. */
  readonly cpu: () => Promise<number>;
}

async function latencies({ alone, calm, stormy }: Hosts, { total, cpu }: Measured): Promise<readonly BenchResult[]> {
  const random = createSeededRandom(1);
  let deployments = 0;
  const deployIn = async (host: Host, server: number): Promise<number> => {
    const ms = await host.ask({ verb: "deploy", server, name: `bench-${deployments++}` });
    await sleep(PAUSE_MS);
    return ms;
  };
  const deployInRandom = async (): Promise<number> => {
    const all = calm.flatMap((host) => host.urls.map((_, server) => ({ host, server })));
    const one = all[Math.floor(random.next() * all.length)];
    if (one === undefined) throw new Error("no cluster");
    return await deployIn(one.host, one.server);
  };
  const [one, many, others]: [number[], number[], number[]] = [[], [], []];
  const [cpuBefore, fromMs] = [await cpu(), performance.now()];
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const pair = [await deployIn(alone, 0), await deployInRandom()] as const;
    if (round < 0) continue;
    one.push(pair[0]);
    many.push(pair[1]);
  }
  const [used, tookMs] = [(await cpu()) - cpuBefore, performance.now() - fromMs];
  say(
    `${ROUNDS + WARM_UP} Deployments of 1 took ${used.toFixed(1)} CPU s in ${(tookMs / MS_PER_SECOND).toFixed(0)} s, idle clusters included`,
  );
  await stormy.ask({ verb: "storm", server: 0, podsPerSecond: STORM_PODS_PER_SECOND });
  for (let round = 0; round < ROUNDS; round++) others.push(await deployInRandom());
  say(`the storm created and deleted ${await stormy.ask({ verb: "calm" })} pods`);
  const of = (share: number, lags: readonly number[]): number =>
    lags.toSorted((a, b) => a - b)[Math.ceil(lags.length * share) - 1] ?? Number.NaN;
  const result = (name: string, share: number, lags: readonly number[], against?: BenchResult): BenchResult => ({
    ...{ name, value: of(share, lags), unit: "ms", n: lags.length, spread: [Math.min(...lags), Math.max(...lags)] },
    ...(against && { ratio: of(share, lags) / against.value, against: against.name }),
  });
  const [oneP50, oneP99] = [result("Deployment of 1 to its pod, one cluster, p50", 0.5, one), result("the same, p99", 0.99, one)];
  const manyP99 = result("the same, p99", 0.99, many, { ...oneP99, name: "one cluster" });
  return [
    benchResult(ROLLOUT_CPU, "s", [used / (ROUNDS + WARM_UP)]),
    ...[oneP50, oneP99],
    result(`Deployment of 1 to its pod, one of ${total}, p50`, 0.5, many, { ...oneP50, name: "one cluster (goal: 1.3×)" }),
    manyP99,
    result("the same in the others during a storm in one, p50", 0.5, others),
    result("the same, p99", 0.99, others, { ...manyP99, name: "without the storm (goal: 2×)" }),
  ];
}

/** The values of `total` resident controller managers, and ours against them. */
function compared(resident: Resident, results: readonly BenchResult[], total: number): readonly BenchResult[] {
  const times = (values: readonly number[]): readonly number[] => values.map((value) => value * total);
  const manager = {
    idle: benchResult(`${total} resident controller managers, idle`, "MiB", times(resident.idleMiB)),
    active: benchResult("the same after rollouts", "MiB", times(resident.activeMiB)),
    cpu: benchResult("CPU of the same, idle", "% of a core", times(resident.idleCpu)),
    rollout: benchResult("CPU of one for a Deployment of 1", "s", resident.rolloutCpu),
    requests: benchResult("requests of one to an idle API server", "an hour", resident.requestsPerHour),
  };
  const against = (name: string, theirs: BenchResult): readonly BenchResult[] => {
    const ours = results.find((result) => result.name === name);
    return ours ? [{ ...ours, ratio: ours.value / theirs.value, against: theirs.name }] : [];
  };
  return [
    ...Object.values(manager),
    ...against(IDLE_MEMORY(total), manager.idle),
    ...against(IDLE_CPU(total), manager.cpu),
    ...against(ROLLOUT_CPU, manager.rollout),
    ...against(IDLE_REQUESTS, manager.requests),
  ];
}

const IDLE_MEMORY = (total: number): string => `watcher and functions, cold start of ${total} and an idle minute`;
const IDLE_CPU = (total: number): string => `CPU of ${total} idle clusters`;
const IDLE_REQUESTS = "requests to an idle API server";
const ROLLOUT_CPU = "CPU for a Deployment of 1 in one of them, idle clusters included";

function say(text: string): void {
  process.stderr.write(`  ${text}\n`);
}
