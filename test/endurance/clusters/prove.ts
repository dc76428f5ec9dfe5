/** The proof of `npm run prove-clusters` (run.ts): starts everything, injects one fault after the other, and inspects all clusters at the end. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { JsonObject } from "../../../shared/base/json.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { bundledCommand, rolledOutObjects, startFleet, startHost } from "../../bench/clusters/stage.ts";
import type { Fleet, Host } from "../../bench/clusters/stage.ts";
import { deploymentOf, DEPLOYMENTS, NAMESPACE } from "../../bench/clusters/workload.ts";
import { eventually, OWN_NAMESPACE, startCluster } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { CHURNING, faultsOf } from "./faults.ts";
import type { Fault, Proved } from "./faults.ts";

export interface ProofOptions {
  readonly minutes: number;
  readonly clusters: number;
  /** Real control planes. */
  readonly real: number;
  readonly seed: number;
  /** Injects only the faults whose name contains this. */
  readonly only: string;
}

const HOSTS = 2;
const DEPLOYMENTS_EACH = 2;
const BASELINE = 30;
const CHURN_PAUSE_MS = 500;
const PROBE_PAUSE_MS = 200;
/** A cluster loses its Lease in a longer outage; its watcher may then wait for a minute (informer §11.11). */
const RECOVERED_MS_MAX = 150_000;
/** Limit of a rollout in one cluster while another one has a fault. */
const OTHERS_MS_MAX = 20_000;
const MINUTE_MS = 60_000;
const HELD_MS = { min: 12_000, max: 40_000 };
const READY_MS_MAX = 300_000;
const LINES = 12;
/** Names in the objects that all clusters begin with, and of the pods of the storm. */
const COMMON = ["web-", "storm-"];

/** @returns what was found */
export async function prove({ minutes, clusters: total, real, seed, only }: ProofOptions): Promise<readonly string[]> {
  const found: string[] = [];
  const random = createSeededRandom(seed);
  const [main, objects] = [await bundledCommand(), await rolledOutObjects(DEPLOYMENTS_EACH)];
  const hosts: Host[] = [];
  const planes: Cluster[] = [];
  let fleet: Fleet | undefined;
  const ends = new AbortController();
  const churns: Promise<void>[] = [];
  try {
    const start = async (count: number): Promise<Host> => {
      const host = await startHost(count, [...objects, OWN]);
      hosts.push(host);
      return host;
    };
    const churningHost = await start(CHURNING);
    const calmHosts: Host[] = [];
    for (let i = 0; i < HOSTS; i++) calmHosts.push(await start(Math.floor((total - CHURNING + i) / HOSTS)));
    const clusters: Proved[] = [churningHost, ...calmHosts]
      .flatMap((host) => host.urls.map((url, server) => ({ host, url, server })))
      .map((each, i) => ({ ...each, name: `c${i}`, tokens: [`c${i}`], prefixes: [`c${i}-`] }));
    const [churning, calm] = [clusters.slice(0, CHURNING), clusters.slice(CHURNING)];
    const started = await startFleet(
      main,
      clusters.map(({ url }) => url),
      ["--lease-namespace", OWN_NAMESPACE],
    );
    fleet = started;
    say(`${total} clusters were served after ${started.coldSeconds.toFixed(1)} s`);
    for (let i = 0; i < real; i++) {
      const plane = await startCluster();
      planes.push(plane);
      await plane.kubectl("create", "namespace", NAMESPACE);
      await writeFile(join(started.folder, `real-${i}`), readFileSync(plane.rolesKubeconfig, "utf8"), { mode: 0o600 });
      await started.dev.line(`ready: cluster real-${i}`, READY_MS_MAX);
    }
    if (real > 0) say(`${real} real control planes are served too`);

    let names = 0;
    const deployIn = async ({ host, server, prefixes }: Proved): Promise<number> =>
      await host.ask({ verb: "deploy", server, name: `${prefixes.at(-1)}${names++}` });
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T; // `of` is not empty
    const probe = async (times: number[]): Promise<void> => {
      const cluster = pick(calm);
      times.push(
        await deployIn(cluster).catch((error: unknown) => {
          found.push(`${cluster.name}: ${String(error)}`);
          return Number.NaN;
        }),
      );
      await sleep(PROBE_PAUSE_MS);
    };
    for (const cluster of churning) churns.push(churn(async () => await deployIn(cluster), ends.signal));
    for (const [i, plane] of planes.entries()) churns.push(churn(async () => await rollOut(plane, `real-${i}-${names++}`), ends.signal));
    const alone: number[] = [];
    while (alone.length < BASELINE) await probe(alone);
    say(`POST to pod in the others before the faults: ${summary(alone)}`);

    const faults = faultsOf({
      ...{ fleet: started, churning },
      startServer: async () => {
        const host = await start(1);
        return { host, server: 0, url: host.urls[0] ?? "" };
      },
      onClone: (clone) => clusters.push(clone),
    }).filter(({ name }) => name.includes(only));
    const untilMs = performance.now() + minutes * MINUTE_MS;
    const heldMs = Math.max(HELD_MS.min, Math.min(HELD_MS.max, (minutes * MINUTE_MS) / faults.length / 2));
    for (let round = 0; round === 0 || performance.now() < untilMs; round++) {
      for (const fault of faults.toSorted(() => random.next() - 0.5)) {
        const line = await inject(fault, { probe, heldMs, deployIn, anyOf: () => pick(calm), found });
        say(`${((performance.now() - untilMs) / MINUTE_MS + minutes).toFixed(1)} min  ${line}`);
        if (round > 0 && performance.now() > untilMs) break;
      }
    }
    ends.abort(new Error("the faults are over"));
    await Promise.all(churns);
    await Promise.all(clusters.map(async (cluster) => await inspect(cluster, found)));
    for (const [i, plane] of planes.entries()) await inspectReal(plane, `real-${i}`, found);
    say(`${clusters.length} API servers in memory and ${planes.length} control planes inspected, ${names} Deployments rolled out`);
    return found.flatMap((line) => [line, ...lastLines(started, line.split(/[: ]/)[0] ?? "")]);
  } finally {
    ends.abort(new Error("the proof has ended"));
    await fleet?.stop();
    for (const host of hosts) host.stop();
    for (const plane of planes) await plane.stop();
  }
}

interface Injection {
  readonly probe: (times: number[]) => Promise<void>;
  readonly heldMs: number;
  readonly deployIn: (cluster: Proved) => Promise<number>;
  readonly anyOf: () => Proved;
  readonly found: string[];
}

/** Holds a fault while the other clusters are measured, and waits until its cluster, or for a fault of the deployment every cluster, works. */
async function inject(fault: Fault, { probe, heldMs, deployIn, anyOf, found }: Injection): Promise<string> {
  const others: number[] = [];
  await fault.begin();
  if (fault.cluster) {
    const from = performance.now();
    while (performance.now() - from < heldMs) await probe(others);
    await fault.end?.();
    const worst = Math.max(...others);
    if (!(worst <= OTHERS_MS_MAX))
      found.push(`while ${fault.cluster.name} was ${fault.name}, a rollout elsewhere took ${worst.toFixed(0)} ms`);
  }
  const affected = fault.cluster ?? anyOf();
  const from = performance.now();
  for (;;) {
    const works = await deployIn(affected).then(
      () => true,
      () => false,
    );
    const ms = performance.now() - from;
    if (works) {
      const said = fault.cluster ? `others: ${summary(others)}; ` : "";
      return `${fault.cluster ? `${fault.cluster.name} ` : ""}${fault.name}: ${said}${affected.name} converges ${(ms / 1_000).toFixed(1)} s later`;
    }
    if (ms > RECOVERED_MS_MAX) {
      found.push(`${affected.name} has not recovered ${(ms / 1_000).toFixed(0)} s after: ${fault.name}`);
      return `${fault.name}: ${affected.name} does not converge`;
    }
  }
}

/** Repeats rollouts until the signal aborts; failures in a cluster with a fault are expected. */
async function churn(act: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await act().catch(() => undefined);
    await sleep(CHURN_PAUSE_MS);
  }
}

/** Rolls out a Deployment of 1 on a real control plane, and deletes it. */
async function rollOut({ client }: Cluster, name: string): Promise<void> {
  await client.request("POST", DEPLOYMENTS, deploymentOf(name, 1));
  try {
    const isDone = async (): Promise<boolean> => {
      const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/${name}`);
      return status?.availableReplicas === 1;
    };
    await eventually(`${name} is available`, isDone, MINUTE_MS);
  } finally {
    await client.request("DELETE", `${DEPLOYMENTS}/${name}`, { propagationPolicy: "Background" });
  }
}

/** Every Deployment has its pods, and neither a name nor a token of another cluster is found. */
async function inspect({ name, host, server, tokens, prefixes }: Proved, found: string[]): Promise<void> {
  let inspection = await host.ask({ verb: "inspect", server });
  const untilMs = performance.now() + RECOVERED_MS_MAX;
  while (inspection.unconverged.length > 0 && performance.now() < untilMs) {
    await sleep(CHURN_PAUSE_MS);
    inspection = await host.ask({ verb: "inspect", server });
  }
  if (inspection.unconverged.length > 0) found.push(`${name}: did not converge: ${inspection.unconverged.join(", ")}`);
  const own = [...prefixes, ...COMMON];
  for (const other of inspection.names) if (!own.some((prefix) => other.startsWith(prefix))) found.push(`${name} has an object ${other}`);
  for (const token of inspection.tokens) if (!tokens.includes(token)) found.push(`${name} got a request with the token ${token}`);
}

async function inspectReal({ client }: Cluster, name: string, found: string[]): Promise<void> {
  const { items } = await client.list<{ readonly metadata: { readonly name: string } }>(DEPLOYMENTS);
  for (const { metadata } of items) if (!metadata.name.startsWith(`${name}-`)) found.push(`${name} has a Deployment ${metadata.name}`);
  await rollOut({ client } as Cluster, `${name}-last`).catch((error: unknown) => found.push(`${name}: ${String(error)}`)); // it uses only the client
}

/** What our processes logged last about a cluster. */
function lastLines({ dev }: Fleet, name: string): readonly string[] {
  const about = new RegExp(`\\b${name}\\b`);
  return dev
    .output()
    .split("\n")
    .filter((line) => about.test(line) && !line.includes("Deployment"))
    .slice(-LINES)
    .map((line) => `    ${line}`);
}

function summary(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN).toFixed(0);
  return `p50 ${at(0.5)}, p99 ${at(0.99)} ms (${times.length})`;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** The namespace of the watcher's Lease. */
const OWN: readonly [string, JsonObject] = [
  "namespaces",
  { apiVersion: "v1", kind: "Namespace", metadata: { name: OWN_NAMESPACE, uid: "own", resourceVersion: "1" }, status: { phase: "Active" } },
];
