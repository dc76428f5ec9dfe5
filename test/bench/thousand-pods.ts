/**
 * 1,000 pods of one ReplicaSet on real control planes: the time from the POST until all pods exist (polled every 20 ms; no nodes, so no pod
 * starts). Ours: `deltaloop dev --act` (watcher, queue, Redis and functions, four processes, a service account per role) on a control plane
 * whose own workload controllers are off. Upstream's: a second control plane on the same machine with its own workload controllers and
 * raised client limits (5,000 requests/s). Rounds alternate, while the other side is idle.
 *
 * API requests are those for pods, ReplicaSets and Events, by the API servers' own counters, without the lists of this benchmark. CPU is
 * user and system time of the controller's processes: our four, or kube-controller-manager.
 */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ROLES } from "../../shared/controllers/registry/rights.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import type { ControlPlane } from "../envtest/control-plane.ts";
import { rawClientAt } from "../support/raw-client.ts";
import type { RawClient } from "../support/raw-client.ts";
import { cpuSeconds } from "./process-usage.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PODS = 1_000;
const ROUNDS = 5;
const LOOK_MS = 20;
const ROUND_MS_MAX = 120_000;
const READY_MS_MAX = 60_000;
/** Pause between a round's last pod and the next round, for requests in flight. */
const PAUSE_MS = 3_000;
const NO_LIMITS = { qps: 5_000, burst: 5_000 };
const NAMESPACE = "deltaloop";

interface Round {
  readonly seconds: number;
  readonly requests: number;
  readonly cpuSeconds: number;
}

interface Contestant {
  readonly name: string;
  readonly plane: ControlPlane;
  readonly client: RawClient;
  /** Processes whose CPU time counts, by name. */
  readonly pids: Readonly<Record<string, number>>;
  readonly rounds: Round[];
}

/** @throws {Error} if this machine has no control plane (see test/envtest) */
export async function bench(): Promise<readonly BenchResult[]> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-bench-"));
  const planes: ControlPlane[] = [];
  let dev: Dev | undefined;
  try {
    const start = async (controllers: "all" | "without-workloads"): Promise<ControlPlane> => {
      const plane = await startControlPlane({ controllers, kubeApi: NO_LIMITS });
      planes.push(plane);
      return plane;
    };
    const theirs = await start("all");
    const mine = await start("without-workloads");
    dev = await startDev(mine, directory);
    const manager = theirs.pids()["kube-controller-manager"] ?? 0;
    const contestants: readonly Contestant[] = [
      { name: "deltaloop", plane: mine, client: await rawClientAt(mine.adminKubeconfig, "bench"), pids: dev.pids, rounds: [] },
      {
        name: "upstream",
        plane: theirs,
        client: await rawClientAt(theirs.adminKubeconfig, "bench"),
        pids: { "kube-controller-manager": manager },
        rounds: [],
      },
    ];
    for (let round = 0; round <= ROUNDS; round++) {
      for (const contestant of contestants) {
        const measured = await play(contestant, `bench-${round}`);
        process.stderr.write(
          `  round ${round} ${contestant.name}: ${measured.seconds.toFixed(2)} s, ${measured.requests} requests, ${measured.cpuSeconds.toFixed(2)} s of CPU${round === 0 ? " (warms up)" : ""}\n`,
        );
        if (round > 0) contestant.rounds.push(measured);
      }
    }
    return results(contestants);
  } finally {
    await dev?.stop();
    for (const plane of planes) await plane.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

function results([ours, theirs]: readonly Contestant[]): readonly BenchResult[] {
  const figures = { seconds: ["", "s"], requests: ["API requests for ", "requests"], cpuSeconds: ["CPU time for ", "s"] } as const;
  return Object.entries(figures).flatMap(([figure, [what, unit]]) => {
    const of = (contestant: Contestant | undefined): readonly number[] =>
      contestant?.rounds.map((round) => round[figure as keyof Round]) ?? []; // a key of `figures`
    const upstream = benchResult(`${what}1,000 pods of a ReplicaSet, upstream`, unit, of(theirs));
    return [
      benchResult(`${what}1,000 pods of a ReplicaSet`, unit, of(ours), { name: "upstream in the same run", value: upstream.value }),
      upstream,
    ];
  });
}

/** Creates one ReplicaSet in a new namespace and deletes it afterwards. */
async function play({ plane, client, pids }: Contestant, namespace: string): Promise<Round> {
  await client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  await eventually(
    "the namespace has its service account",
    async () => (await client.list(`/api/v1/namespaces/${namespace}/serviceaccounts`)).items.length > 0,
  );
  const labels = { app: "bench" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "bench:1" }] } };
  const replicaSet = {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "bench" },
    spec: { replicas: PODS, selector: { matchLabels: labels }, template },
  };
  const collection = `/apis/apps/v1/namespaces/${namespace}/replicasets`;

  const before = { requests: await requestsOf(plane), cpu: await cpuOf(pids) };
  const start = performance.now();
  await client.request("POST", collection, replicaSet);
  await eventually(`${PODS} pods exist`, async () => (await podCount(client, namespace)) >= PODS);
  const seconds = (performance.now() - start) / 1_000;
  const after = { requests: await requestsOf(plane), cpu: await cpuOf(pids) };
  // One request is the user's POST.
  const round = { seconds, requests: after.requests - before.requests - 1, cpuSeconds: after.cpu - before.cpu };

  await client.request("DELETE", `${collection}/bench`);
  await eventually("its pods are gone", async () => (await podCount(client, namespace)) === 0);
  await sleep(PAUSE_MS);
  return round;
}

/** Counts pods with one page of one item, whose metadata has the number of remaining items. */
async function podCount(client: RawClient, namespace: string): Promise<number> {
  const { metadata, items } = (await client.request("GET", `/api/v1/namespaces/${namespace}/pods?limit=1`)) as unknown as PodPage; // a PodList
  return items.length + (metadata.remainingItemCount ?? 0);
}

interface PodPage {
  readonly metadata: { readonly remainingItemCount?: number };
  readonly items: readonly unknown[];
}

async function requestsOf(plane: ControlPlane): Promise<number> {
  const { stdout } = await plane.kubectl(["get", "--raw", "/metrics"]);
  let sum = 0;
  for (const line of stdout.matchAll(/^apiserver_request_total\{(.*)\} (\S+)$/gm)) {
    const label = (name: string): string => new RegExp(`\\b${name}="([^"]*)"`).exec(line[1] ?? "")?.[1] ?? "";
    if (["pods", "replicasets", "events"].includes(label("resource")) && !["LIST", "WATCH"].includes(label("verb"))) sum += Number(line[2]);
  }
  return sum;
}

async function cpuOf(pids: Contestant["pids"]): Promise<number> {
  return (await Promise.all(Object.values(pids).map(cpuSeconds))).reduce((sum, seconds) => sum + seconds, 0);
}

async function eventually(what: string, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + ROUND_MS_MAX;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within ${ROUND_MS_MAX / 1_000} s: ${what}`);
    await sleep(LOOK_MS);
  }
}

interface Dev {
  readonly pids: Readonly<Record<string, number>>;
  stop(): Promise<void>;
}

/** Starts `deltaloop dev --act` as a user would, with our RBAC manifests. */
async function startDev(plane: ControlPlane, directory: string): Promise<Dev> {
  const { code, stderr } = await plane.kubectl(["apply", "-f", join(ROOT, "infra/manifests/rbac.yaml")]);
  if (code !== 0) throw new Error(stderr);
  const kubeconfig = join(directory, "roles.kubeconfig");
  await writeFile(kubeconfig, await rolesKubeconfig(plane), { mode: 0o600 });
  const child = spawn(
    process.execPath,
    [join(ROOT, "cli/main.ts"), "dev", "--act", "--kubeconfig", kubeconfig, "--lease-namespace", NAMESPACE],
    { stdio: ["pipe", "pipe", "pipe"] },
  );
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await exited;
  };
  const end = performance.now() + READY_MS_MAX;
  while (!output.includes("ready:")) {
    if (child.exitCode !== null || performance.now() > end) {
      await stop();
      throw new Error(`deltaloop dev is not ready: ${output}`);
    }
    await sleep(LOOK_MS);
  }
  const pids = Object.fromEntries([...output.matchAll(/(\w+) started pid=(\d+)/g)].map(([, name = "", pid]) => [name, Number(pid)]));
  return { pids, stop };
}

interface KubeconfigFile {
  readonly clusters: readonly { readonly name: string }[];
  readonly users: readonly { readonly user: object }[];
}

/** Writes a kubeconfig with a context for each of our roles. */
async function rolesKubeconfig(plane: ControlPlane): Promise<string> {
  const files = await Promise.all(
    ROLES.map(async ({ name }) => ({
      name,
      file: JSON.parse(await readFile(await plane.serviceAccountKubeconfig(NAMESPACE, name), "utf8")) as KubeconfigFile,
    })), // written by test/envtest
  );
  const clusters = files[0]?.file.clusters ?? [];
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters,
    users: files.map(({ name, file }) => ({ name, user: file.users[0]?.user })),
    contexts: files.map(({ name }) => ({ name, context: { cluster: clusters[0]?.name, user: name } })),
    "current-context": files[0]?.name,
  });
}
