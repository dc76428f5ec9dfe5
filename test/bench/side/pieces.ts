/**
 * `npm run bench -- --only side --pieces`: accounts for a Deployment of 1 and a replaced pod, with our system only. The pieces of their
 * time are the steps between timestamps of the API server and of Redis; the pieces of the CPU time are those of each process, divided by
 * the shares in its CPU profile. The profiles are of the sources in a second `dev`, because bundled functions have no names.
 */
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { Cluster } from "../../support/e2e.ts";
import { ROOT } from "../../support/e2e.ts";
import { parseConfiguration } from "../../../shared/controllers/configuration.ts";
import type { Configuration } from "../../../shared/controllers/configuration.ts";
import { openCache, redisStore } from "../../../shared/controllers/lambda.ts";
import { createSqsDoorbells, sqsCalls } from "../../../shared/store/sqs.ts";
import { threadSeconds } from "../process-usage.ts";
import { sharesOf } from "./cpu-pieces.ts";
import type { Where } from "./cpu-pieces.ts";
import { measureRedis, requestMarks, stepsOf } from "./hops.ts";
import type { MeasuredRedis, Step } from "./hops.ts";
import { partiesOn } from "./parties.ts";
import type { AtWork, PartyOptions } from "./parties.ts";
import { clear, deploymentOf, deploymentsPath, makeNamespace, podCount, podsPath, until, watchPods } from "./stage.ts";
import type { PodWatch } from "./stage.ts";

const TIMES = 40;
const BETWEEN_MS = 150;
const SETTLE_MS = 2_000;
/** Deployments of 10 before the measurement, as in the compared rows. */
const WARM_UP = 50;

const TO_SYNC: readonly Step[] = [
  { title: "watch event, watcher, delta queue, invocation, until the applier calls Redis", until: "applyPack" },
  { title: "Redis step of the applier, doorbell queue, invocation, until the sync calls Redis", until: "take" },
];
const CREATED: readonly Step[] = [
  { title: "API server: POST of the Deployment", until: "create deployments answered" },
  ...TO_SYNC,
  { title: "sync of the Deployment until its ReplicaSet's POST, with live reads", until: "create replicasets received" },
  { title: "API server: POST of the ReplicaSet", until: "create replicasets answered" },
  { title: "write-through, follow-up sync of the ReplicaSet, intent, until the pod's POST", until: "create pods received" },
  { title: "API server: POST of the pod", until: "create pods answered" },
];
const REPLACED: readonly Step[] = [
  { title: "API server: DELETE of the pod", until: "delete pods answered" },
  ...TO_SYNC,
  { title: "sync of the ReplicaSet until the pod's POST, with intent and live read", until: "create pods received" },
  { title: "API server: POST of the pod", until: "create pods answered" },
];
const LAST = "API server: watch event to the benchmark";

interface Measured {
  readonly cluster: Cluster;
  readonly work: AtWork;
  readonly namespace: string;
  readonly watch: PodWatch;
}

/** Prints the tables on standard output. */
export async function pieces(cluster: Cluster): Promise<void> {
  const cpu = await withSystem(cluster, "pieces", {}, async (measured) => {
    const ofSingles = await cpuOfSingles(measured);
    process.stdout.write(`${await steps(measured)}\n`);
    return ofSingles;
  });
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-profiles-"));
  try {
    const environment = { NODE_OPTIONS: `--import ${join(import.meta.dirname, "profiler.ts")}`, PROFILES_FOLDER: folder };
    const shares = await withSystem(cluster, "profiled", { environment, main: join(ROOT, "cli", "main.ts") }, async (measured) => {
      const { redis: _redis, ...pids } = { ...measured.work.own, ...measured.work.standIns };
      const signal = (): void => {
        for (const pid of Object.values(pids)) process.kill(pid, "SIGUSR2");
      };
      signal();
      await createOneByOne(measured);
      await sleep(SETTLE_MS);
      signal();
      const written = Object.entries(pids).map(async ([name, pid]) => {
        const file = join(folder, `${pid}.cpuprofile`);
        await until(`${name} has written its profile`, async () => existsSync(file));
        return [name, await sharesOf(file)] as const;
      });
      return new Map(await Promise.all(written));
    });
    process.stdout.write(cpuTable(cpu, shares));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Starts our system and warms it up as the compared rows do. */
async function withSystem<T>(
  cluster: Cluster,
  namespace: string,
  options: PartyOptions,
  act: (measured: Measured) => Promise<T>,
): Promise<T> {
  const [ours] = await partiesOn(cluster, options);
  const work = await ours?.start();
  if (work === undefined) throw new Error("our system is missing");
  try {
    await makeNamespace(cluster, namespace);
    const post = async (_: unknown, i: number) =>
      await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(`warm-${i}`, 10));
    await Promise.all(Array.from({ length: WARM_UP }, post));
    await until("the pods of the warm-up exist", async () => (await podCount(cluster, namespace)) === WARM_UP * 10);
    await clear(cluster, namespace);
    await sleep(SETTLE_MS);
    const watch = await watchPods(cluster, namespace);
    try {
      return await act({ cluster, work, namespace, watch });
    } finally {
      watch.stop();
    }
  } finally {
    await work.stop();
  }
}

let singles = 0;

/** The span of each request, from the POST of a Deployment of 1 to its pod, in ms since 1970. */
async function createOneByOne({ cluster, namespace, watch }: Measured): Promise<readonly Span[]> {
  return await oneByOne(watch, async () => {
    const name = `web-${singles++}`;
    const post = () => cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(name, 1));
    return { prefix: `${name}-`, act: post };
  });
}

async function replaceOneByOne({ cluster, namespace, watch }: Measured): Promise<readonly Span[]> {
  await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("ten", 10));
  const before = await podCount(cluster, namespace);
  await until("its pods exist", async () => (await podCount(cluster, namespace)) >= Math.max(10, before));
  await sleep(SETTLE_MS);
  let next = 0;
  return await oneByOne(watch, async () => {
    const { items } = await cluster.client.list(podsPath(namespace), { labelSelector: "name=ten" });
    const { name } = (items[next++ % items.length]?.["metadata"] ?? {}) as { readonly name?: string }; // every object has metadata
    return { prefix: "ten-", act: () => cluster.client.request("DELETE", `${podsPath(namespace)}/${name}`) };
  });
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

const now = (): number => performance.timeOrigin + performance.now();

async function oneByOne(
  watch: PodWatch,
  prepare: () => Promise<{ readonly prefix: string; readonly act: () => Promise<unknown> }>,
): Promise<readonly Span[]> {
  const spans: Span[] = [];
  for (let i = 0; i < TIMES; i++) {
    const { prefix, act } = await prepare();
    const pod = watch.next(prefix);
    const fromMs = now();
    await act();
    spans.push({ fromMs, toMs: performance.timeOrigin + (await pod) });
    await sleep(BETWEEN_MS);
  }
  return spans;
}

async function configurationOf(pid: number): Promise<Configuration> {
  const lines = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0");
  return parseConfiguration(Object.fromEntries(lines.map((line) => [line.replace(/=.*/s, ""), line.replace(/^[^=]*=/, "")])));
}

/** The tables of the time. */
async function steps(measured: Measured): Promise<string> {
  const { cluster, work, namespace } = measured;
  const configuration = await configurationOf(work.own["functions"] ?? 0);
  const redis = await measureRedis(configuration.redis.url, { marks: true });
  try {
    const { size } = await stat(cluster.auditLog);
    const created = await createOneByOne(measured);
    const replaced = await replaceOneByOne(measured);
    await sleep(SETTLE_MS);
    const marks = [...redis.marks, ...(await requestMarks(cluster.auditLog, size, namespace))];
    const hop = await doorbellMs(configuration, redis);
    return [
      stepTable("Deployment of 1, POST to pod", CREATED, created, marks),
      stepTable("deleted pod until its replacement", REPLACED, replaced, marks),
      `A queue alone, from a doorbell's sending to the call of Redis in its invocation: ${hop.toFixed(1)} ms. Each request has two.\n`,
    ].join("\n");
  } finally {
    redis.stop();
  }
}

function stepTable(title: string, expected: readonly Step[], spans: readonly Span[], marks: MeasuredRedis["marks"]): string {
  const durations = spans.flatMap(({ fromMs, toMs }) => {
    const found = stepsOf(expected, marks, fromMs, toMs);
    return found ? [found] : [];
  });
  const titles = [...expected.map((step) => step.title), LAST];
  const sumOf = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  // Means of the half around the median: medians of the steps would not add up.
  const sorted = durations.toSorted((a, b) => sumOf(a) - sumOf(b));
  const middle = sorted.slice(sorted.length >> 2, sorted.length - (sorted.length >> 2));
  const rows = titles.map((step, i) => ({ step, ms: sumOf(middle.map((each) => each[i] ?? Number.NaN)) / middle.length }));
  const sum = sumOf(rows.map(({ ms }) => ms));
  const total = median(spans.map(({ fromMs, toMs }) => toMs - fromMs));
  const lines = rows.map(({ step, ms }) => `${ms.toFixed(1).padStart(7)} ms  ${step}`);
  return [
    `${title}: median ${total.toFixed(1)} ms, its steps in the middle half of ${durations.length} requests:`,
    ...lines,
    `${sum.toFixed(1).padStart(7)} ms  sum, ${((sum / total) * 100).toFixed(0)} % of the median\n`,
  ].join("\n");
}

/** Median time from the sending of a doorbell to the call of Redis in its invocation, for a key that is not due. */
async function doorbellMs(configuration: Configuration, redis: MeasuredRedis): Promise<number> {
  const { store } = openCache(configuration, redisStore(configuration.redis));
  const calls = sqsCalls({ ...(configuration.queues.endpoint !== undefined && { endpoint: configuration.queues.endpoint }) });
  try {
    const epoch = (await store.epoch())?.epoch;
    if (epoch === undefined) throw new Error("there is no epoch");
    const doorbells = createSqsDoorbells(calls, { queueUrls: configuration.queues.doorbells, cid: configuration.cluster });
    const sent: number[] = [];
    for (let i = 0; i < TIMES; i++) {
      sent.push(now());
      await doorbells.ring([{ controller: "replicaset", key: "none/none", epoch, delayMs: 0 }]);
      await sleep(BETWEEN_MS);
    }
    await sleep(SETTLE_MS);
    return median(
      sent.map((fromMs) => (redis.marks.find(({ name, atMs }) => name === "take" && atMs >= fromMs)?.atMs ?? Number.NaN) - fromMs),
    );
  } finally {
    calls.close();
    await store.close();
  }
}

interface Cpu {
  /** ms of CPU per Deployment of the main thread and of the helper threads, by process. */
  readonly processes: ReadonlyMap<string, { readonly main: number; readonly helpers: number }>;
  /** The part of it that an idle system uses in the same time. */
  readonly idle: ReadonlyMap<string, number>;
  /** ms of Redis' scripts. */
  readonly scripts: number;
}

async function cpuOfSingles(measured: Measured): Promise<Cpu> {
  const { work } = measured;
  const { redis: options } = await configurationOf(work.own["functions"] ?? 0);
  const redis = await measureRedis(options.url, { marks: false });
  const look = async () => {
    const threads = Object.entries({ ...work.own, ...work.standIns }).map(async ([name, pid]) => [name, await threadSeconds(pid)] as const);
    return { atMs: now(), threads: new Map(await Promise.all(threads)), scripts: await redis.scriptSeconds() };
  };
  type Look = Awaited<ReturnType<typeof look>>;
  const each = (from: Look, to: Look, by: number) =>
    [...to.threads].map(([name, { main, helpers }]) => {
      const before = from.threads.get(name) ?? { main: 0, helpers: 0 };
      return [name, { main: (main - before.main) * by, helpers: (helpers - before.helpers) * by }] as const;
    });
  try {
    const quiet = await look();
    await sleep(TIMES * BETWEEN_MS + SETTLE_MS);
    const start = await look();
    await createOneByOne(measured);
    await sleep(SETTLE_MS);
    const end = await look();
    const perSingle = 1_000 / TIMES;
    const longer = (end.atMs - start.atMs) / (start.atMs - quiet.atMs);
    return {
      processes: new Map(each(start, end, perSingle)),
      idle: new Map(each(quiet, start, perSingle * longer).map(([name, { main, helpers }]) => [name, main + helpers])),
      scripts: (end.scripts - start.scripts) * perSingle,
    };
  } finally {
    redis.stop();
  }
}

function cpuTable({ processes, idle, scripts }: Cpu, shares: ReadonlyMap<string, Awaited<ReturnType<typeof sharesOf>>>): string {
  const rows: { readonly ms: number; readonly where: Where; readonly title: string }[] = [];
  for (const [name, { main, helpers }] of processes) {
    const isLocal = name === "queue";
    for (const [title, { where, share }] of [...(shares.get(name) ?? [])].toSorted(([, a], [, b]) => b.share - a.share))
      rows.push({ ms: main * share, where: isLocal ? "local" : where, title: `${name}: ${title}` });
    if (helpers > 0 && name !== "redis")
      rows.push({ ms: helpers, where: isLocal ? "local" : "aws", title: `${name}: V8's compiler and garbage collector, other threads` });
    if (name === "redis") {
      const ofScripts = Math.min(scripts, main + helpers); // Redis reports elapsed time, which exceeds CPU time on a busy machine
      rows.push({ ms: ofScripts, where: "aws", title: "redis: scripts" });
      rows.push({ ms: main + helpers - ofScripts, where: "aws", title: "redis: sockets and protocol" });
    }
  }
  const sumOf = (where: Where): number => rows.reduce((total, row) => total + (row.where === where ? row.ms : 0), 0);
  const total = [...processes.values()].reduce((sum, { main, helpers }) => sum + main + helpers, 0);
  const lines = rows.map(({ ms, where, title }) => `${ms.toFixed(2).padStart(7)} ms  ${where.padEnd(5)}  ${title}`);
  const idles = [...idle].map(([name, ms]) => `${name} ${ms.toFixed(2)}`).join(", ");
  return [
    `CPU of a Deployment of 1: ${total.toFixed(1)} ms`,
    ...lines,
    `${(sumOf("aws") + sumOf("local")).toFixed(1).padStart(7)} ms  sum: ${sumOf("aws").toFixed(1)} that AWS would bill as functions, watcher and Redis, ${sumOf("local").toFixed(1)} only for the local queue and event source mapping`,
    `        an idle system uses of it in the same time, in ms: ${idles}\n`,
  ].join("\n");
}

function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}
