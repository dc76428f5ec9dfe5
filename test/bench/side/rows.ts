/**
 * The compared rows. All run in one process of a system, in this order, so the first is cold; `crowd` starts a process of its own. In all
 * but `rolling`, pods only come to exist; nothing makes them ready.
 */
import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import type { Cluster } from "../../support/e2e.ts";
import { cpuSeconds, idleCoreSeconds, memoryKinds } from "../process-usage.ts";
import type { MeasurementName, Samples } from "./measurements.ts";
import { cpuOf, memoryOf } from "./parties.ts";
import type { AtWork, Party } from "./parties.ts";
import {
  clear,
  deploymentOf,
  deploymentsPath,
  makeNamespace,
  podCount,
  podsPath,
  readyAtOnce,
  until,
  watchPods,
  podListsOf,
  writesOf,
} from "./stage.ts";

/** One system in one round. */
export interface Play {
  readonly cluster: Cluster;
  readonly party: Party;
  readonly samples: Samples;
}

/** Delay after which all statuses and Events of a step are written. */
const SETTLE_MS = 2_000;
const SINGLES = 40;
const BETWEEN_SINGLES_MS = 150;
const ROLLED = 200;
const CROWD = 20_000;
const CROWD_NAMESPACE = "crowd";
const CROWD_OWNERS = 20;
const AT_ONCE_MAX = 50;

let namespaces = 0;

/** Measures CPU time and writes from the start of `act` until all its follow-up writes are done. */
async function used<T>(
  { cluster, party }: Play,
  work: AtWork,
  act: () => Promise<T>,
): Promise<{ readonly result: T; readonly cpu: number; readonly writes: ReadonlyMap<string, number> }> {
  const [before, { size }] = await Promise.all([cpuOf(work), stat(cluster.auditLog)]);
  const result = await act();
  await sleep(SETTLE_MS);
  const after = await cpuOf(work);
  const byProcess = Object.entries(after).map(([name, seconds]) => [name, seconds - (before[name] ?? 0)] as const);
  process.stderr.write(`  CPU of ${party.name}: ${byProcess.map(([name, seconds]) => `${name} ${seconds.toFixed(2)} s`).join(", ")}\n`);
  const cpu = byProcess.reduce((total, [, seconds]) => total + seconds, 0);
  return { result, cpu, writes: await writesOf(cluster.auditLog, size, party) };
}

/**
 * Measures the duration of `act` in seconds, and prints who used the cores meanwhile. On a saturated machine the duration is the sum of
 * these core-seconds, divided by the number of cores.
 */
async function timed({ cluster, party }: Play, work: () => AtWork | undefined, row: string, act: () => Promise<void>): Promise<number> {
  const plane = Object.entries(cluster.plane.pids())
    .filter(([name]) => name !== "workload-loops")
    .map(([name, pid]) => [name === "kube-controller-manager" ? "its other controllers" : name, pid] as const);
  const usedBy = async (one: AtWork | undefined): Promise<Readonly<Record<string, number>>> => (one ? await cpuOf(one) : {});
  const coreSeconds = async (): Promise<Readonly<Record<string, number>>> => ({
    ...Object.fromEntries(await Promise.all(plane.map(async ([name, pid]) => [name, await cpuSeconds(pid)] as const))),
    ...(await usedBy(work())),
    "this benchmark": await cpuSeconds(process.pid),
    idle: idleCoreSeconds(),
  });
  const [before, start] = [await coreSeconds(), performance.now()];
  await act();
  const seconds = (performance.now() - start) / 1_000;
  const after = await coreSeconds();
  const used = Object.entries(after).map(([name, total]) => [name, total - (before[name] ?? 0)] as const);
  const cores = availableParallelism();
  const others = seconds * cores - used.reduce((total, [, each]) => total + each, 0);
  const parts = [...used, ["others", Math.max(0, others)] as const].filter(([, each]) => each >= 0.005);
  process.stderr.write(
    `  ${row}, ${party.name}: ${seconds.toFixed(2)} s on ${cores} cores are ${(seconds * cores).toFixed(2)} core-seconds: ${parts
      .map(([name, each]) => `${name} ${each.toFixed(2)}`)
      .join(", ")}\n`,
  );
  return seconds;
}

function tellWrites({ party }: Play, row: string, writes: ReadonlyMap<string, number>): void {
  const kinds = [...writes].toSorted(([, a], [, b]) => b - a).map(([kind, count]) => `${count} ${kind}`);
  process.stderr.write(`  ${row}, ${party.name}: ${kinds.join(", ")}\n`);
}

/** Creates one Deployment of 1,000, in a system that has just started and again in a warm one. */
async function thousand(play: Play, work: AtWork): Promise<void> {
  const steps = [
    { how: "cold", time: "thousandCold", cpu: "thousandColdCpu" },
    { how: "warm", time: "thousandWarm", cpu: "thousandWarmCpu" },
  ] as const;
  for (const { how, ...names } of steps)
    await deployments(play, work, { row: `Deployment of 1,000, ${how}`, count: 1, replicas: 1_000, ...names });
}

/** Creates a hundred Deployments of 10 at once. */
async function hundred(play: Play, work: AtWork): Promise<void> {
  await deployments(play, work, { row: "100 Deployments of 10", count: 100, replicas: 10, time: "hundred", cpu: "hundredCpu" });
}

interface Deployments {
  readonly row: string;
  readonly count: number;
  readonly replicas: number;
  readonly time: MeasurementName;
  readonly cpu: MeasurementName;
}

async function deployments(play: Play, work: AtWork, { row, count, replicas, time, cpu }: Deployments): Promise<void> {
  const { cluster, samples } = play;
  const pods = count * replicas;
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const go = async (): Promise<void> => {
    await Promise.all(
      Array.from({ length: count }, (_, i) =>
        cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(`web-${i}`, replicas)),
      ),
    );
    await until(`${pods} pods exist`, async () => (await podCount(cluster, namespace)) >= pods);
  };
  const measured = await used(play, work, () => timed(play, () => work, row, go));
  samples.add(time, measured.result);
  samples.add(cpu, (measured.cpu / pods) * 1_000);
  tellWrites(play, row, measured.writes);
  await clear(cluster, namespace);
  await sleep(SETTLE_MS);
}

/** Creates Deployments of 1 one after the other, then deletes pods of a Deployment of 10 one after the other. */
async function single(play: Play, work: AtWork): Promise<void> {
  const { cluster, samples } = play;
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const watch = await watchPods(cluster, namespace);
  try {
    await one(cluster, namespace, watch, "warm-up");
    const created = await used(play, work, () => oneByOne((i) => one(cluster, namespace, watch, `web-${i}`)));
    samples.add("singleP50", ...created.result);
    samples.add("singleP99", ...created.result);
    samples.add("singleCpu", (created.cpu / SINGLES) * 1_000);
    tellWrites(play, "Deployment of 1", created.writes);

    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("ten", 10));
    await until("its pods exist", async () => (await podCount(cluster, namespace)) === SINGLES + 11);
    await sleep(SETTLE_MS);
    const replaced = await oneByOne(async (i) => {
      const { items } = await cluster.client.list(podsPath(namespace), { labelSelector: "name=ten" });
      const { name } = (items[i % items.length]?.["metadata"] ?? {}) as { readonly name?: string }; // every object has metadata
      const next = watch.next("ten-");
      const start = performance.now();
      await cluster.client.request("DELETE", `${podsPath(namespace)}/${name}`);
      return (await next) - start;
    });
    samples.add("deletedP50", ...replaced);
    samples.add("deletedP99", ...replaced);
    await clear(cluster, namespace);
  } finally {
    watch.stop();
  }
}

async function oneByOne(measure: (nth: number) => Promise<number>): Promise<readonly number[]> {
  const lags: number[] = [];
  for (let i = 0; i < SINGLES; i++) {
    lags.push(await measure(i));
    await sleep(BETWEEN_SINGLES_MS);
  }
  return lags;
}

/** Returns the time from the POST to the pod's watch event, in ms. */
async function one(cluster: Cluster, namespace: string, watch: Awaited<ReturnType<typeof watchPods>>, name: string): Promise<number> {
  const next = watch.next(`${name}-`);
  const start = performance.now();
  await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(name, 1));
  return (await next) - start;
}

/** Rolls 200 pods to a new image. Pods become ready at once. Its writes are without pod deletes and Events. */
async function rolling(play: Play, work: AtWork): Promise<void> {
  const { cluster, samples } = play;
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const stopNodes = await readyAtOnce(cluster, namespace);
  try {
    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("web", ROLLED));
    await until("it is complete", () => isComplete(cluster, namespace, ROLLED));
    await sleep(SETTLE_MS);
    const go = async (): Promise<void> => {
      const patch = { spec: { template: { spec: { containers: [{ name: "main", image: "bench:2" }] } } } };
      await cluster.client.request("PATCH", `${deploymentsPath(namespace)}/web`, patch, "application/strategic-merge-patch+json");
      await until("it has rolled", () => isComplete(cluster, namespace, ROLLED));
    };
    const { result, cpu, writes } = await used(play, work, () => timed(play, () => work, "rolling update of 200", go));
    samples.add("rolling", result);
    samples.add("rollingCpu", cpu);
    samples.add(
      "rollingWrites",
      countOf(writes, (kind) => !/ events$|^delete pods$/.test(kind)),
    );
    tellWrites(play, "rolling update of 200", writes);
    await clear(cluster, namespace);
  } finally {
    stopNodes();
  }
}

const countOf = (writes: ReadonlyMap<string, number>, counts: (kind: string) => boolean): number =>
  [...writes].reduce((total, [kind, count]) => total + (counts(kind) ? count : 0), 0);

interface Rolled {
  readonly metadata: { readonly generation: number };
  readonly status?: Readonly<Record<"observedGeneration" | "replicas" | "updatedReplicas" | "availableReplicas", number | undefined>>;
}

async function isComplete({ client }: Cluster, namespace: string, replicas: number): Promise<boolean> {
  const { metadata, status } = (await client.request("GET", `${deploymentsPath(namespace)}/web`)) as unknown as Rolled; // a Deployment
  return (
    status?.observedGeneration === metadata.generation &&
    [status.replicas, status.updatedReplicas, status.availableReplicas].every((count) => count === replicas)
  );
}

/**
 * Starts the system with 20,000 unrelated pods in the cluster. Measures the time to the first pod of a Deployment that was created before
 * the start, and memory when all is done.
 */
export async function crowd(play: Play): Promise<void> {
  const { cluster, party, samples } = play;
  await makeCrowd(cluster);
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const watch = await watchPods(cluster, namespace);
  let launched: AtWork | undefined;
  try {
    const first = watch.next("first-");
    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("first", 1));
    const { size } = await stat(cluster.auditLog);
    const launching = Promise.withResolvers<AtWork>();
    const start = performance.now();
    await timed(
      play,
      () => launched,
      "start with 20,000 pods",
      async () => {
        launched = await party.launch();
        launching.resolve(launched);
        await first;
      },
    );
    const [work, createdMs] = [await launching.promise, await first];
    samples.add("start", (createdMs - start) / 1_000);
    await sleep(SETTLE_MS);
    const pages = (await podListsOf(cluster.auditLog, size, party)).filter((atMs) => atMs < createdMs).toSorted((a, b) => a - b);
    const lists = pages.map((atMs, i) => ({ what: `page ${i + 1} of the pods`, atMs }));
    const listed = lists.filter((_, i) => i === 0 || i === lists.length - 1);
    process.stderr.write(
      `  start of ${party.name}: ${stepsOfStart([...work.milestones, ...listed, { what: "first pod", atMs: createdMs }], start)}\n`,
    );
    const memory = await memoryOf(work);
    process.stderr.write(
      `  20,000 pods, ${party.name}: PSS ${Object.entries(memory)
        .map(([name, mib]) => `${name} ${mib.toFixed(0)} MiB`)
        .join(", ")}\n`,
    );
    for (const [name, pid] of Object.entries(work.own)) process.stderr.write(`  ${name}: ${await memoryKinds(pid)}\n`);
    samples.add(
      "memory",
      Object.keys(work.own).reduce((total, name) => total + (memory[name] ?? 0), 0),
    );
    await clear(cluster, namespace);
  } finally {
    watch.stop();
    await launched?.stop();
  }
}

/** The durations of the steps of a start, in the order in which they ended. */
function stepsOfStart(milestones: AtWork["milestones"], startMs: number): string {
  const sorted = milestones.toSorted((a, b) => a.atMs - b.atMs);
  return sorted.map(({ what, atMs }, i) => `${what} +${(atMs - (sorted[i - 1]?.atMs ?? startMs)).toFixed(0)} ms`).join(", ");
}

/** Creates pods that their ReplicaSets own and desire, so that no controller has to change anything. */
async function makeCrowd(cluster: Cluster): Promise<void> {
  const { client } = cluster;
  if (
    (await client.list("/api/v1/namespaces")).items.some((item) => (item["metadata"] as { readonly name: string }).name === CROWD_NAMESPACE)
  )
    return;
  await makeNamespace(cluster, CROWD_NAMESPACE);
  const each = CROWD / CROWD_OWNERS;
  const bodies: object[] = [];
  for (let i = 0; i < CROWD_OWNERS; i++) {
    const labels = { app: `crowd-${i}` };
    const podSpec = { containers: [{ name: "main", image: "crowd:1" }] };
    const { metadata } = (await client.request("POST", `/apis/apps/v1/namespaces/${CROWD_NAMESPACE}/replicasets`, {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: `crowd-${i}` },
      spec: { replicas: each, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec } },
    })) as unknown as { readonly metadata: { readonly name: string; readonly uid: string } }; // a ReplicaSet
    const owner = {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      ...{ name: metadata.name, uid: metadata.uid },
      controller: true,
      blockOwnerDeletion: true,
    };
    for (let nth = 0; nth < each; nth++)
      bodies.push({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `crowd-${i}-${nth}`, labels, ownerReferences: [owner] },
        spec: podSpec,
      });
  }
  const create = async (): Promise<void> => {
    for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) await client.request("POST", podsPath(CROWD_NAMESPACE), body);
  };
  await Promise.all(Array.from({ length: AT_ONCE_MAX }, create));
}

/** The rows of one process, in the order in which they run. */
export const ROWS = { thousand, hundred, single, rolling } as const satisfies Readonly<
  Record<string, (play: Play, work: AtWork) => Promise<void>>
>;
