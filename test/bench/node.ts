/**
 * The node agent compared with upstream's kubelet: `deltaloop node` as it is installed (dist/cli, bundled here) and the kubelet alternate
 * on one control plane, in the order kubelet, ours, ours, kubelet, so that a machine that becomes slower or faster affects both. Each turn
 * has a fresh process with its default settings and a fresh containerd, because leftover sandboxes of the other agent would cost idle CPU
 * time. After one warm-up round, each turn has rounds of 30 pods (one idle container with the default service account token), an idle
 * minute with the 30 pods of the last round, and 110 pods, the maximum of a node. A result is the median of both turns.
 *
 * Time is from the first POST (all at once, with the node's name set) until every pod is Running in the API server (polled every 50 ms).
 * CPU is user and system time of the agent's process alone, from the first POST until the last pod is deleted. Memory is the agent's
 * resident memory while the pods run and after they are deleted; PSS divides shared pages, such as those of a program that runs twice,
 * among the processes that share them. Needs root.
 *
 * `--profile FOLDER` runs only ours, which writes a CPU profile there for test/bench/flame.ts; with `--rows rounds`, `idle` or `full`, only
 * of that part.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { bundleCli } from "../../infra/build/bundle.ts";
import { startContainerd } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { NAME, startAgent } from "../harness/node-processes/compared-node.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";
import { ROOT, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import { othersAtWork } from "./others.ts";
import { cpuSeconds, memoryMiB } from "./process-usage.ts";
import { benchResult } from "./result.ts";
import type { BenchOptions, BenchResult } from "./result.ts";

const TURNS: readonly Side[] = ["kubelet", "ours", "ours", "kubelet"];
const ROUNDS = 3;
const PODS = 30;
const PODS_MAX = 110;
const IDLE_MS = 60_000;
const LOOK_MS = 50;
const ROUND_MS_MAX = 180_000;
/** Pause between the deletion of a round's last pod and the next round, for requests in flight. */
const PAUSE_MS = 2_000;
const PARTS = ["rounds", "idle", "full"];
const PODS_PATH = "/api/v1/namespaces/default/pods";

type Memory = Awaited<ReturnType<typeof memoryMiB>>;

interface Round {
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Memory in MiB while all pods run. */
  readonly memory: Memory;
}

interface Figures {
  readonly rounds: readonly Round[];
  readonly full: Round;
  /** CPU seconds during the idle minute. */
  readonly idle: number;
  /** Memory in MiB after the last pod was deleted. */
  readonly empty: Memory;
}

/** @throws {Error} with the reason why the benchmark cannot run here */
export async function bench({ rows = PARTS, profiles }: BenchOptions = {}): Promise<readonly BenchResult[]> {
  const unknown = rows.filter((row) => !PARTS.includes(row));
  if (unknown.length > 0) throw new Error(`no rows ${unknown.join(", ")}; there are ${PARTS.join(", ")}`);
  if (rows.length < PARTS.length && profiles === undefined) throw new Error("--rows is for --profile");
  const missing = ensureContainerd();
  if (missing !== undefined) throw new Error(missing);
  const upstream = await upstreamTests();
  if ("missing" in upstream) throw new Error(upstream.missing);
  // The folder of the bundled command.
  const program = join(ROOT, "dist", "cli");
  await bundleCli(ROOT, program);
  const deltaloop = join(program, "deltaloop.js");
  const cluster = await startCluster({ machines: false });
  try {
    await eventually(async () => (await cluster.get("/api/v1/namespaces/default/serviceaccounts/default")) !== undefined);
    const play = async (side: Side): Promise<Figures> => {
      const environment = profiles === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profiles}` };
      const containerd = await startContainerd();
      try {
        const agent = await startAgent(cluster, side, containerd, { ...upstream.programs, deltaloop }, { environment });
        try {
          process.stderr.write(`  ${side}: ${await othersAtWork()}\n`);
          return await playAll(cluster, side, agent.pid, rows);
        } finally {
          await agent.stop();
        }
      } finally {
        await containerd.stop();
      }
    };
    if (profiles !== undefined) {
      await play("ours");
      return [];
    }
    const played: (readonly [Side, Figures])[] = [];
    for (const side of TURNS) played.push([side, await play(side)]);
    const of = (wanted: Side): readonly Figures[] => played.filter(([side]) => side === wanted).map(([, figures]) => figures);
    return results(of("ours"), of("kubelet"));
  } finally {
    await cluster.stop();
  }
}

async function playAll(cluster: Cluster, side: Side, pid: number, parts: readonly string[]): Promise<Figures> {
  const tell = (what: string, { seconds, cpuSeconds: cpu, memory }: Round): void => {
    process.stderr.write(`  ${side} ${what}: ${seconds.toFixed(2)} s, ${cpu.toFixed(2)} s of CPU, ${told(memory)}\n`);
  };
  const rounds: Round[] = [];
  let idle = 0;
  const last = parts.includes("rounds") ? ROUNDS : 0;
  for (let round = 0; round <= last; round++) {
    const whileUp = async (): Promise<void> => {
      if (round === last && parts.includes("idle")) idle = await idleSeconds(pid);
    };
    const measured = await play(cluster, pid, PODS, whileUp);
    tell(`round ${round}${round === 0 ? " (warms up)" : ""}`, measured);
    if (round > 0) rounds.push(measured);
  }
  const full = await play(cluster, pid, parts.includes("full") ? PODS_MAX : 0);
  if (parts.includes("full")) tell(`${PODS_MAX} pods`, full);
  const empty = await memoryMiB(pid);
  process.stderr.write(`  ${side}: ${idle.toFixed(2)} s of CPU in a minute idle, ${told(empty)} in the end\n`);
  return { rounds, full, idle, empty };
}

/** Creates this number of pods at once and deletes them. The duration of `whileUp` is excluded. */
async function play(cluster: Cluster, pid: number, count: number, whileUp?: () => Promise<void>): Promise<Round> {
  const startCpu = await cpuSeconds(pid);
  const start = performance.now();
  await Promise.all(Array.from({ length: count }, (_, index) => cluster.client.request("POST", PODS_PATH, podOf(`pod-${index}`))));
  await eventually(async () => !(await areAny(cluster, "status.phase!=Running")));
  const seconds = (performance.now() - start) / 1_000;
  await sleep(PAUSE_MS);
  const memory = await memoryMiB(pid);
  const upCpu = await cpuSeconds(pid);
  await whileUp?.();
  const downCpu = await cpuSeconds(pid);
  await cluster.client.request("DELETE", PODS_PATH);
  await eventually(async () => !(await areAny(cluster, "")));
  await sleep(PAUSE_MS);
  return { seconds, cpuSeconds: upCpu - startCpu + (await cpuSeconds(pid)) - downCpu, memory };
}

function told({ rss, pss }: Memory): string {
  return `${rss.toFixed(0)} MiB resident (PSS ${pss.toFixed(0)})`;
}

async function idleSeconds(pid: number): Promise<number> {
  const before = await cpuSeconds(pid);
  await sleep(IDLE_MS);
  return (await cpuSeconds(pid)) - before;
}

function podOf(name: string): object {
  const spec = { nodeName: NAME, containers: [{ name: "main", image: IMAGES.pause }] };
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
}

async function areAny({ client }: Cluster, fieldSelector: string): Promise<boolean> {
  return (await client.list(PODS_PATH, { fieldSelector, limit: "1" })).items.length > 0;
}

async function eventually(look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + ROUND_MS_MAX;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`pods did not come or go within ${ROUND_MS_MAX / 1_000} s`);
    await sleep(LOOK_MS);
  }
}

function results(ours: readonly Figures[], theirs: readonly Figures[]): readonly BenchResult[] {
  const figure = (what: string, unit: string, of: (figures: Figures) => readonly number[]): readonly BenchResult[] => {
    const kubelet = benchResult(`${what}, kubelet`, unit, theirs.flatMap(of));
    return [benchResult(what, unit, ours.flatMap(of), { name: "the kubelet in the same run", value: kubelet.value }), kubelet];
  };
  return [
    ...figure(`${PODS} pods at once, until all run`, "s", ({ rounds }) => rounds.map(({ seconds }) => seconds)),
    ...figure(`CPU of ${PODS} pods that come and go`, "s", ({ rounds }) => rounds.map((round) => round.cpuSeconds)),
    ...figure(`resident with ${PODS} pods`, "MiB", ({ rounds }) => rounds.map(({ memory }) => memory.rss)),
    ...figure(`CPU of a minute idle with ${PODS} pods`, "s", ({ idle }) => [idle]),
    ...figure(`${PODS_MAX} pods at once, until all run`, "s", ({ full }) => [full.seconds]),
    ...figure(`CPU of ${PODS_MAX} pods that come and go`, "s", ({ full }) => [full.cpuSeconds]),
    ...figure(`resident with ${PODS_MAX} pods`, "MiB", ({ full }) => [full.memory.rss]),
    ...figure(`PSS with ${PODS_MAX} pods`, "MiB", ({ full }) => [full.memory.pss]),
    ...figure("resident after all pods are gone", "MiB", ({ empty }) => [empty.rss]),
  ];
}
