/**
 * `npm run counts [-- --idle-minutes N] [--only clusters|resident]`: counts the AWS requests and bytes that typical workloads cause on the embedded stack, and writes
 * cli/cost/counts.json. Subtracts the idle counts of the same duration (heartbeats, bookmarks, sweeps). Counts hardly depend on the
 * machine's speed. Durations do, and here they include only loopback and an in-memory API server, so `deltaloop cost` assumes longer ones.
 */
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createSweep } from "../../functions/sweep/handler.ts";
import { bundleFunction } from "../../infra/build/bundle.ts";
import { importMs } from "../../infra/build/import-time.ts";
import { added, NOTHING, parseCounts, scaled, SUMS } from "../../cli/cost/counts.ts";
import type { Counts, CountsFile } from "../../cli/cost/counts.ts";
import type { FunctionWiring } from "../../shared/controllers/lambda/wiring.ts";
import { podTemplate, startStack, until } from "../bench/embedded.ts";
import type { Stack } from "../bench/embedded.ts";
import { idleHourOf } from "./idle-clusters.ts";
import { Meter } from "./meter.ts";
import { measureResident } from "./resident.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const FILE = join(ROOT, "cli", "cost", "counts.json");
const HOUR_MS = 3_600_000;
const SWEEP_MS = 60_000;
/** Time until all follow-ups are written: the functions batch their writes for 0.3 s, and statuses and Events take up to a second. */
const SETTLE_MS = 4_000;
const ROLLOUTS = [
  { pods: 1, times: 10 },
  { pods: 10, times: 5 },
  { pods: 200, times: 3 },
] as const;
const TIMES = 20;
/** Clusters beside the first. */
const FURTHER = 8;
/** The delay between concurrent changes, so that they share no more messages than in a real cluster. */
const BETWEEN_MS = 500;
const AT_ONCE = { readyAfterMs: [500, 1_500], deleteAfterMs: [500, 1_000] } as const;
const [DEPLOYMENTS, PODS] = ["/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods"];
const MERGE = "application/merge-patch+json";

interface Named {
  readonly metadata: { readonly name: string; readonly generation: number };
  readonly spec: { readonly replicas: number };
  readonly status?: Readonly<Record<string, number>>;
}

const { values } = parseArgs({ options: { "idle-minutes": { type: "string", default: "5" }, only: { type: "string" } } });
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const idleMinutes = Number(values["idle-minutes"]);

if (values.only === undefined) {
  const one = await countOneCluster();
  await write({ ...one, ...(await furtherIdleHour(one)), resident: await measureResident() });
} else {
  const before = parseCounts(FILE, JSON.parse(await readFile(FILE, "utf8")));
  if (values.only === "resident") await write({ ...before, resident: await measureResident() });
  else await write({ ...before, ...(await furtherIdleHour(before)) });
}
process.exit();

async function write(file: CountsFile): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(file, undefined, 2)}\n`);
}

/** What each of FURTHER clusters adds to the first. Both run behind one set of queues, so that both share what clusters share. */
async function furtherIdleHour({ idleHour }: Pick<CountsFile, "idleHour">): Promise<Pick<CountsFile, "furtherIdleHour" | "clustersOf">> {
  const one = await idleHourOf(1, idleMinutes);
  told("an idle hour of one cluster among several", one);
  const all = await idleHourOf(1 + FURTHER, idleMinutes);
  const each = scaled(without(all, one), 1 / FURTHER);
  told("an idle hour of each further cluster", each);
  // Several API servers in this process slow every invocation down, so its time is that of the one-cluster counts. Further clusters share
  // the sandboxes of the first.
  const functions = Object.entries(each.functions).map(([name, { invocations }]) => {
    const { invocations: of, ms } = idleHour.functions[name] ?? { invocations: 1, ms: 1 };
    return [name, { invocations, ms: invocations * (ms / of), atOnce: 0 }] as const;
  });
  return { furtherIdleHour: rounded({ ...each, functions: Object.fromEntries(functions) }), clustersOf: { date: today(), commit: head() } };
}

async function countOneCluster(): Promise<Omit<CountsFile, "furtherIdleHour" | "clustersOf" | "resident">> {
  const meter = new Meter();
  const stack = await startStack({
    log: meter.log,
    pace: AT_ONCE,
    metrics: meter.metrics,
    observeSqs: meter.sqs,
    onInvocation: meter.onInvocation,
  });
  if (stack.redisUrl === undefined) throw new Error("redis-server is missing on this machine, and the counts need one");
  await meter.started([stack.url], stack.redisUrl);
  const sweep = createSweep(sweepWiring(stack, meter));
  const sweeping = setInterval(() => void swept(sweep, meter), SWEEP_MS);
  try {
    return await counted(stack, meter);
  } finally {
    clearInterval(sweeping);
    meter.stop();
    await stack.stop();
  }
}

async function counted(stack: Stack, meter: Meter): Promise<Omit<CountsFile, "furtherIdleHour" | "clustersOf" | "resident">> {
  // Starts halfway between two sweeps, so that the number of sweeps in the counted time does not vary.
  await sleep(1.5 * SWEEP_MS);
  const idleFrom = await meter.read();
  await sleep(idleMinutes * 60_000);
  const idleTo = await meter.read();
  const idleHour = scaled(meter.between(idleFrom, idleTo), HOUR_MS / (idleTo.atMs - idleFrom.atMs));
  const idleSeries = meter.series.size;
  told("an idle hour", idleHour);
  const of = async (what: string, times: number, act: () => Promise<void>): Promise<Counts> => {
    const from = await meter.read();
    await act();
    await sleep(SETTLE_MS);
    const to = await meter.read();
    const one = scaled(without(meter.between(from, to), scaled(idleHour, (to.atMs - from.atMs) / HOUR_MS)), 1 / times);
    told(what, one);
    return rounded(one);
  };
  const created = await of("a Deployment of 1 that is created", TIMES, async () => {
    for (let i = 0; i < TIMES; i++) await create(stack, `one-${i}`, 1);
  });
  const rollouts: CountsFile["rollouts"] = [];
  for (const { pods, times } of ROLLOUTS) {
    const name = `web-${pods}`;
    await create(stack, name, pods);
    await sleep(SETTLE_MS);
    const counts = await of(`a rollout of ${pods}`, times, async () => {
      for (let i = 0; i < times; i++) await rollOut(stack, name, i + 2);
    });
    rollouts.push({ pods, counts });
  }
  const lostPod = await of("a pod that is lost", TIMES, async () => {
    for (const pod of (await podsOf(stack, "web-200")).slice(0, TIMES)) {
      await stack.person.request("DELETE", `${PODS}/${pod}`);
      await sleep(BETWEEN_MS);
    }
    await until("they are replaced", () => complete(stack, "web-200"));
  });
  const podChange = await of("a pod that changes", TIMES, async () => {
    for (const pod of (await podsOf(stack, "web-200")).slice(-TIMES)) {
      await stack.person.request("PATCH", `${PODS}/${pod}`, { metadata: { annotations: { "cost/change": "1" } } }, MERGE);
      await sleep(BETWEEN_MS);
    }
  });
  const otherPod = await of("another's pod that comes and goes", TIMES, async () => {
    for (let i = 0; i < TIMES; i++) {
      await stack.person.request("POST", PODS, {
        apiVersion: "v1",
        kind: "Pod",
        ...podTemplate(`job-${i}`),
        metadata: { name: `job-${i}` },
      });
      await sleep(2_000);
      await stack.person.request("DELETE", `${PODS}/job-${i}`);
    }
  });
  return {
    date: today(),
    commit: head(),
    how: "npm run counts: embedded stack with redis-server and fauxqs over loopback, an in-memory API server, two cores with other work on them",
    idleHour: rounded(idleHour),
    series: { idle: idleSeries, work: meter.series.size - idleSeries },
    coldStartMs: Math.ceil(await coldStartMs()),
    rollouts,
    created,
    lostPod,
    podChange,
    otherPod,
  };
}

async function create(stack: Stack, name: string, replicas: number): Promise<void> {
  const spec = { replicas, selector: { matchLabels: { app: name } }, template: podTemplate(name) };
  await stack.person.request("POST", DEPLOYMENTS, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec });
  await until(`${name} is complete`, () => complete(stack, name));
}

async function rollOut(stack: Stack, name: string, version: number): Promise<void> {
  const containers = [{ name: "main", image: `${name}:${version}` }];
  const body = { spec: { template: { spec: { containers } } } };
  await stack.person.request("PATCH", `${DEPLOYMENTS}/${name}`, body, "application/strategic-merge-patch+json");
  await until(`${name} is rolled out`, () => complete(stack, name));
}

/** Reports whether the rollout is complete, by the rules of `kubectl rollout status`. */
async function complete(stack: Stack, name: string): Promise<boolean> {
  const { metadata, spec, status = {} } = (await stack.person.request("GET", `${DEPLOYMENTS}/${name}`)) as unknown as Named; // a Deployment
  return (
    (status["observedGeneration"] ?? 0) >= metadata.generation &&
    ["replicas", "updatedReplicas", "availableReplicas"].every((field) => status[field] === spec.replicas)
  );
}

async function podsOf(stack: Stack, app: string): Promise<readonly string[]> {
  const { items } = await stack.person.list(PODS, { labelSelector: `app=${app}` });
  return items.map((pod) => (pod as unknown as Named).metadata.name); // pods
}

async function swept(sweep: ReturnType<typeof createSweep>, meter: Meter): Promise<void> {
  const from = Date.now();
  await sweep();
  meter.ran("sweep", from, Date.now());
}

/** A sweep only calls the Store; a leader that finishes its sweeps leaves no doorbell to send. */
function sweepWiring({ store }: Stack, meter: Meter): FunctionWiring {
  const doorbells = { ring: () => Promise.resolve() };
  const cluster = { store, doorbells };
  // A sweep uses no other part of the wiring.
  return { log: meter.log, metrics: meter.metrics("sweep"), clusters: ["0"], cluster: () => cluster } as unknown as FunctionWiring;
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function head(): string {
  return execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
}

async function coldStartMs(): Promise<number> {
  const out = await mkdtemp(join(tmpdir(), "deltaloop-cost-"));
  try {
    return await importMs((await bundleFunction(ROOT, "sync-deployment", out)).bundle);
  } finally {
    await rm(out, { recursive: true });
  }
}

/** Returns `counts` minus the idle counts, at least 0. */
function without(counts: Counts, idle: Counts): Counts {
  const left = added(counts, scaled(idle, -1));
  const functions = Object.entries(left.functions).flatMap(([name, { invocations, ms }]) =>
    invocations < 0.5 ? [] : [[name, { invocations, ms: Math.max(0, ms), atOnce: counts.functions[name]?.atOnce ?? 0 }] as const],
  );
  const sums = SUMS.map((sum) => [sum, Math.max(0, left[sum])] as const);
  return { ...NOTHING, ...Object.fromEntries(sums), functions: Object.fromEntries(functions) };
}

/** Rounds to two decimals; more digits would suggest false precision. */
function rounded(counts: Counts): Counts {
  return JSON.parse(
    JSON.stringify(counts, (_, value: unknown) => (typeof value === "number" ? Math.round(value * 100) / 100 : value)),
  ) as Counts; // has the same fields
}

function told(what: string, { functions, ...sums }: Counts): void {
  const invoked = Object.entries(functions).map(
    ([name, { invocations, ms, atOnce }]) => `${name} ${invocations.toFixed(1)} in ${ms.toFixed(0)} ms, ${atOnce} at once`,
  );
  say(`${what}: ${invoked.join("; ")}; ${SUMS.map((sum) => `${sum} ${sums[sum].toFixed(1)}`).join(", ")}`);
}
