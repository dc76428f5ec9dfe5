/**
 * The compared measurements. A row runs one system alone, from its start to its end; its rounds run one after the other, so the first one
 * is cold.
 */
import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { kubeHttpConfigFrom } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import { createKubeHttp } from "../../../shared/kube/http/kube-http.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { runScriptedNodes } from "../../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import type { Cluster } from "../../support/e2e.ts";
import { cpuSeconds, idleCoreSeconds } from "../process-usage.ts";
import { cpuOf, memoryOf } from "./parties.ts";
import type { AtWork, Party } from "./parties.ts";
import { clear, deploymentOf, deploymentsPath, makeNamespace, podCount, podsPath, until, watchPods, writesOf } from "./stage.ts";

/** Results by name, each with the values of its rounds. The last word of a name is the unit. */
export type Figures = Map<string, number[]>;

export interface Play {
  readonly cluster: Cluster;
  readonly party: Party;
  readonly figures: Figures;
}

/** Delay after which all statuses and Events of a round are written. */
const SETTLE_MS = 2_500;
const SINGLES = 60;
const BETWEEN_SINGLES_MS = 150;
const CROWD = 20_000;
const CROWD_NAMESPACE = "crowd";
const CROWD_OWNERS = 20;
const AT_ONCE_MAX = 50;

let namespaces = 0;

function note(figures: Figures, name: string, value: number): void {
  figures.set(name, [...(figures.get(name) ?? []), value]);
}

/** Measures CPU time and writes from the start of `act` until all its follow-up writes are done. */
async function used<T>(
  { cluster, party }: Play,
  work: AtWork,
  act: () => Promise<T>,
): Promise<{ readonly result: T; readonly own: number; readonly standIns: number; readonly writes: ReadonlyMap<string, number> }> {
  const [before, { size }] = await Promise.all([cpuOf(work), stat(cluster.auditLog)]);
  const result = await act();
  await sleep(SETTLE_MS);
  const after = await cpuOf(work);
  const writes = await writesOf(cluster.auditLog, size, party);
  return { result, own: after.own - before.own, standIns: after.standIns - before.standIns, writes };
}

/**
 * Measures the duration of `act` in seconds, and the machine's CPU utilisation meanwhile. On a saturated machine the duration depends on
 * all processes, mostly on the control plane.
 */
async function timed({ cluster, party }: Play, row: string, act: () => Promise<void>): Promise<number> {
  const plane = Object.values(cluster.plane.pids());
  const planeCpu = async (): Promise<number> => (await Promise.all(plane.map(cpuSeconds))).reduce((total, seconds) => total + seconds, 0);
  const [cpu, idle, start] = [await planeCpu(), idleCoreSeconds(), performance.now()];
  await act();
  const seconds = (performance.now() - start) / 1_000;
  const cores = availableParallelism();
  const busy = cores - (idleCoreSeconds() - idle) / seconds;
  const ofPlane = ((await planeCpu()) - cpu) / seconds;
  process.stderr.write(
    `  ${row}, ${party.name}: ${seconds.toFixed(2)} s with ${busy.toFixed(2)} of ${cores} cores busy, ${ofPlane.toFixed(2)} of them the control plane's\n`,
  );
  return seconds;
}

const sum = (writes: ReadonlyMap<string, number>): number => [...writes.values()].reduce((total, count) => total + count, 0);

function tellWrites({ party }: Play, row: string, writes: ReadonlyMap<string, number>): void {
  const kinds = [...writes].toSorted(([, a], [, b]) => b - a).map(([kind, count]) => `${count} ${kind}`);
  process.stderr.write(`  ${row}, ${party.name}: ${kinds.join(", ")}\n`);
}

async function noteMemory({ party, figures }: Play, row: string, work: AtWork): Promise<void> {
  const memory = await memoryOf(work);
  process.stderr.write(
    `  ${row}, ${party.name}: PSS ${Object.entries(memory)
      .map(([name, mib]) => `${name} ${mib.toFixed(0)} MiB`)
      .join(", ")}\n`,
  );
  const own = Object.keys(work.own).reduce((total, name) => total + (memory[name] ?? 0), 0);
  note(figures, `${row}: memory of its own processes, MiB`, own);
}

/** Creates one Deployment of 1,000, three times. */
async function thousand(play: Play): Promise<void> {
  await deployments(play, { row: "Deployment of 1,000", count: 1, replicas: 1_000, rounds: 3 });
}

/** Creates a hundred Deployments of 10 at once, twice. */
async function hundred(play: Play): Promise<void> {
  await deployments(play, { row: "100 Deployments of 10", count: 100, replicas: 10, rounds: 2 });
}

async function deployments(
  play: Play,
  { row, count, replicas, rounds }: { readonly row: string; readonly count: number; readonly replicas: number; readonly rounds: number },
): Promise<void> {
  const { cluster, party, figures } = play;
  const pods = count * replicas;
  const work = await party.start();
  try {
    for (let round = 0; round < rounds; round++) {
      const namespace = `bench-${++namespaces}`;
      await makeNamespace(cluster, namespace);
      const how = round === 0 ? "cold" : "warm";
      const go = async (): Promise<void> => {
        await Promise.all(
          Array.from({ length: count }, (_, i) =>
            cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(`web-${i}`, replicas)),
          ),
        );
        await until(`${pods} pods exist`, async () => (await podCount(cluster, namespace)) >= pods);
      };
      const { result, own, standIns, writes } = await used(play, work, () => timed(play, `${row}, ${how}`, go));
      note(figures, `${row}, ${how}: until ${pods} pods exist, s`, result);
      note(figures, `${row}, ${how}: own CPU per pod, ms`, (own / pods) * 1_000);
      note(figures, `${row}, ${how}: CPU of stand-ins per pod, ms`, (standIns / pods) * 1_000);
      note(figures, `${row}: writes`, sum(writes));
      if (round === 0) tellWrites(play, row, writes);
      await clear(cluster, namespace);
      await sleep(SETTLE_MS);
    }
    await noteMemory(play, row, work);
  } finally {
    await work.stop();
  }
}

/** Creates Deployments of 1 one after the other, then deletes pods of a Deployment of 10 one after the other. */
async function single(play: Play): Promise<void> {
  const { cluster, party, figures } = play;
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const work = await party.start();
  const watch = await watchPods(cluster, namespace);
  try {
    await one(cluster, namespace, watch, "warm-up");
    const row = "Deployment of 1";
    const { result, own, standIns, writes } = await used(play, work, async () => {
      const lags: number[] = [];
      for (let i = 0; i < SINGLES; i++) {
        lags.push(await one(cluster, namespace, watch, `web-${i}`));
        await sleep(BETWEEN_SINGLES_MS);
      }
      return lags;
    });
    notePercentiles(figures, `${row}: POST to pod`, result);
    note(figures, `${row}: own CPU, ms`, (own / SINGLES) * 1_000);
    note(figures, `${row}: CPU of stand-ins, ms`, (standIns / SINGLES) * 1_000);
    note(figures, `${row}: writes`, sum(writes) / SINGLES);
    tellWrites(play, row, writes);

    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("ten", 10));
    await until("its pods exist", async () => (await podCount(cluster, namespace)) === SINGLES + 11);
    await sleep(SETTLE_MS);
    const replacing = await used(play, work, async () => {
      const lags: number[] = [];
      for (let i = 0; i < SINGLES; i++) {
        const { items } = await cluster.client.list(podsPath(namespace), { labelSelector: "name=ten" });
        const { name } = (items[i % items.length]?.["metadata"] ?? {}) as { readonly name?: string }; // every object has metadata
        const next = watch.next("ten-");
        const start = performance.now();
        await cluster.client.request("DELETE", `${podsPath(namespace)}/${name}`);
        lags.push((await next) - start);
        await sleep(BETWEEN_SINGLES_MS);
      }
      return lags;
    });
    notePercentiles(figures, "a deleted pod: until its replacement", replacing.result);
    note(figures, "a deleted pod: own CPU, ms", (replacing.own / SINGLES) * 1_000);
    await noteMemory(play, row, work);
    await clear(cluster, namespace);
  } finally {
    watch.stop();
    await work.stop();
  }
}

/** Returns the time from the POST to the pod's watch event, in ms. */
async function one(cluster: Cluster, namespace: string, watch: Awaited<ReturnType<typeof watchPods>>, name: string): Promise<number> {
  const next = watch.next(`${name}-`);
  const start = performance.now();
  await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf(name, 1));
  return (await next) - start;
}

function notePercentiles(figures: Figures, what: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  note(figures, `${what}, p50, ms`, sorted[sorted.length >> 1] ?? Number.NaN);
  note(figures, `${what}, p99, ms`, sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN);
}

/** Rolls 200 pods to a new image twice, on nodes without delays. */
async function rolling(play: Play): Promise<void> {
  const { cluster, party, figures } = play;
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const nodes = new AbortController();
  const kube = createKubeHttp({
    ...(await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "nodes" })),
    userAgent: "bench-nodes",
  });
  const pace = { readyAfterMs: [0, 1], deleteAfterMs: [0, 1] } as const;
  const fleet = runScriptedNodes(
    kube,
    { count: 2, clock: createSystemClock(), random: createSystemRandom(), bindPods: true, ...pace },
    nodes.signal,
  );
  fleet.catch((error: unknown) => nodes.signal.aborted || process.stderr.write(`the scripted nodes ended: ${String(error)}\n`));
  const work = await party.start();
  try {
    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("web", 200));
    await until("it is complete", () => isComplete(cluster, namespace, 200));
    await sleep(SETTLE_MS);
    for (const round of [1, 2]) {
      const go = async (): Promise<void> => {
        const patch = { spec: { template: { spec: { containers: [{ name: "main", image: `bench:${round + 1}` }] } } } };
        await cluster.client.request("PATCH", `${deploymentsPath(namespace)}/web`, patch, "application/strategic-merge-patch+json");
        await until("it has rolled", () => isComplete(cluster, namespace, 200));
      };
      const { result, own, standIns, writes } = await used(play, work, () => timed(play, "rolling update of 200", go));
      note(figures, "rolling update of 200: until it is complete, s", result);
      note(figures, "rolling update of 200: own CPU, s", own);
      note(figures, "rolling update of 200: CPU of stand-ins, s", standIns);
      note(figures, "rolling update of 200: writes", sum(writes));
      if (round === 1) tellWrites(play, "rolling update of 200", writes);
    }
    await clear(cluster, namespace);
  } finally {
    await work.stop();
    nodes.abort();
    await fleet.catch(() => undefined);
  }
}

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
 * the start, and then of Deployments of 1.
 */
async function crowd(play: Play): Promise<void> {
  const { cluster, party, figures } = play;
  await makeCrowd(cluster);
  const namespace = `bench-${++namespaces}`;
  await makeNamespace(cluster, namespace);
  const watch = await watchPods(cluster, namespace);
  let work: AtWork | undefined;
  try {
    const start = performance.now();
    const first = watch.next("first-");
    await cluster.client.request("POST", deploymentsPath(namespace), deploymentOf("first", 1));
    work = await party.launch();
    note(figures, "20,000 pods: from the start until the first pod, s", ((await first) - start) / 1_000);
    await sleep(SETTLE_MS);
    const lags: number[] = [];
    for (let i = 0; i < SINGLES / 2; i++) {
      lags.push(await one(cluster, namespace, watch, `web-${i}`));
      await sleep(BETWEEN_SINGLES_MS);
    }
    notePercentiles(figures, "20,000 pods: POST to pod of a Deployment of 1", lags);
    await noteMemory(play, "20,000 pods", work);
    await clear(cluster, namespace);
  } finally {
    watch.stop();
    await work?.stop();
  }
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

/** The rows in the order in which they run. */
export const ROWS = { thousand, hundred, single, rolling, crowd } as const satisfies Readonly<
  Record<string, (play: Play) => Promise<void>>
>;
