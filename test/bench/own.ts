/**
 * User controllers on a real API server (own/stage.ts): the example `website` with the Store and queue of the deployed functions, Redis,
 * and a function host. Each result is printed with its goal as soon as it is known; a part that takes too long is skipped. The controller
 * manager's controllers do not run, because those that write Endpoints for each Service would use a third of two cores.
 *
 * - created → both objects exist: from the POST of a Website until the responses to the creates of its Deployment and Service.
 * - 1,000 Websites: from the first POST until the last response to 2,000 creates and 1,000 status writes.
 * - resync: requests of the functions and Redis commands of their Store while all 1,000 are synced again.
 * - Store: the growth of its memory, per object.
 * - server-side apply on the in-memory API server: from request to response, in process.
 * - the packed command in an empty folder (own/project.ts): from `init` to the first sync, from a save to the sync of its code, `npm test`.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { website } from "../../examples/website/website.ts";
import { OWN_BUNDLE_KIB_MAX } from "../../infra/build/budgets.ts";
import { bundleFunction } from "../../infra/build/bundle.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { elsewhere } from "./own/elsewhere.ts";
import { embeddedApplies } from "./own/embedded-apply.ts";
import { projectTimes } from "./own/project.ts";
import { startOwnStage, WEBSITES } from "./own/stage.ts";
import type { OwnStage, RunningOwn } from "./own/stage.ts";
import { cpuSeconds, memoryMiB } from "./process-usage.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const FILES = { website: join(ROOT, "examples/website/website.ts"), elsewhere: join(import.meta.dirname, "own/elsewhere.ts") };
const [WARM_UP, EVENTS, WEBSITES_AT_ONCE, POSTERS] = [50, 200, 1_000, 16];
const KIB = 1024;
const PART_MS_MAX = 120_000;

interface Goal {
  readonly name: string;
  readonly unit: string;
  /** The goal: the result must not be greater; for the resync, it must be equal. */
  readonly most: number;
}

const GOALS = {
  p50: { name: "Website created → both objects exist, p50", unit: "ms", most: 40 },
  p99: { name: "Website created → both objects exist, p99", unit: "ms", most: 120 },
  thousand: { name: "1,000 Websites until all objects and statuses exist", unit: "s", most: 12 },
  requests: { name: "resync of 1,000 settled Websites, requests", unit: "requests", most: 0 },
  commands: { name: "resync of 1,000 settled Websites, Store commands", unit: "commands", most: 2_000 },
  store: { name: "Store per Website with its objects", unit: "KiB", most: 2.5 },
  outside: { name: "Store per primary outside `where`", unit: "bytes", most: 400 },
  host: { name: "function host", unit: "MB", most: 160 },
  bundle: { name: "function bundle without user code", unit: "KiB", most: OWN_BUNDLE_KIB_MAX },
  init: { name: "`deltaloop init` → first sync, npm install included", unit: "s", most: 60 },
  save: { name: "save → sync", unit: "s", most: 1 },
  test: { name: "`npm test` of the new project", unit: "s", most: 5 },
} as const satisfies Readonly<Record<string, Goal>>;

/** @throws {Error} if this machine has no control plane or Redis (see test/envtest) */
export async function bench(): Promise<readonly BenchResult[]> {
  const results: BenchResult[] = [];
  const figure = (goal: keyof typeof GOALS, rounds: readonly number[]): void => {
    const { name, unit, most } = GOALS[goal];
    const result = benchResult(name, unit, rounds, most === 0 ? undefined : { name: `goal: ${most} ${unit}`, value: most });
    results.push(result);
    const load = loadavg()[0]?.toFixed(1) ?? "";
    process.stderr.write(
      `  ${name}: ${result.value.toFixed(1)} ${unit}, goal ${most}${result.value > most ? ", MISSED" : ""} (load ${load})\n`,
    );
  };
  const part = async (what: string, act: () => Promise<void>): Promise<void> => {
    const late = sleep(PART_MS_MAX, undefined, { ref: false }).then(() => Promise.reject(new Error(`not within ${PART_MS_MAX / 1_000} s`)));
    await Promise.race([act(), late]).catch((error: unknown) => process.stderr.write(`  ${what}: no figure: ${String(error)}\n`));
  };
  await part("bundle", async () => figure("bundle", [(await bundleBytes()) / KIB]));
  results.push(...(await embeddedApplies()));
  await part("project", async () => {
    const { initToSyncSeconds, saveToSyncSeconds, npmTestSeconds } = await projectTimes();
    figure("init", [initToSyncSeconds]);
    figure("save", saveToSyncSeconds);
    figure("test", [npmTestSeconds]);
  });
  const stage = await startOwnStage();
  try {
    const before = await bytesOutside(stage, 0);
    const own = await stage.start([website], FILES.website);
    try {
      await part("latency", async () => {
        const lags = (await latencies(stage, own)).toSorted((a, b) => a - b);
        for (const [goal, share] of [
          ["p50", 0.5],
          ["p99", 0.99],
        ] as const)
          figure(goal, [lags[Math.floor(lags.length * share)] ?? Number.NaN]);
      });
      await own.settled("website");
      const bytes = await own.storeBytes();
      await part("1,000 Websites", async () => {
        const before = await cpuOf(stage, own);
        figure("thousand", [await thousand(stage, own)]);
        const after = await cpuOf(stage, own);
        for (const [name, seconds] of Object.entries(after)) {
          const result = benchResult(`CPU of ${name} for 1,000 Websites`, "s", [seconds - (before[name] ?? 0)]);
          results.push(result);
          process.stderr.write(`    ${result.name}: ${result.value.toFixed(2)} s\n`);
        }
      });
      await own.settled("website");
      figure("store", [((await own.storeBytes()) - bytes) / WEBSITES_AT_ONCE / KIB]);
      await part("resync", async () => {
        own.reset();
        await own.resync("website");
        await own.settled("website");
        figure("requests", [own.counts.requests]);
        figure("commands", [own.counts.commands]);
      });
      figure("host", [(await memoryMiB(own.hostPid)).rss]);
    } finally {
      await own.stop();
    }
    await part("outside", async () =>
      figure(
        "outside",
        [(await bytesOutside(stage, WEBSITES_AT_ONCE)) - before].map((all) => all / WEBSITES_AT_ONCE),
      ),
    );
  } finally {
    await stage.stop();
  }
  return results;
}

const site = (name: string): object => ({
  ...{ apiVersion: "demo.example.com/v1", kind: "Website", metadata: { name } },
  spec: { image: "nginx", replicas: 0 },
});

/** Creates one Website at a time and deletes them afterwards. Returns the latencies in ms. */
async function latencies({ user }: OwnStage, own: RunningOwn): Promise<readonly number[]> {
  const random = createSeededRandom(1);
  const lags: number[] = [];
  for (let event = -WARM_UP; event < EVENTS; event++) {
    const name = `one-${event + WARM_UP}`;
    const begun = performance.now();
    await user.request("POST", WEBSITES, site(name));
    const ends = await Promise.all(["deployments", "services"].map((plural) => own.answered(`create ${plural} ${name}`)));
    if (event >= 0) lags.push(Math.max(...ends) - begun);
    await sleep(50 + 100 * random.next());
    await user.request("DELETE", `${WEBSITES}/${name}`);
  }
  return lags;
}

/** Returns user plus system time of each process, in s. */
async function cpuOf({ pids }: OwnStage, { hostPid }: RunningOwn): Promise<Readonly<Record<string, number>>> {
  const all = { "watcher and functions": process.pid, "function host": hostPid, ...pids() };
  return Object.fromEntries(await Promise.all(Object.entries(all).map(async ([name, pid]) => [name, await cpuSeconds(pid)] as const)));
}

/** Returns the duration in seconds. */
async function thousand({ user }: OwnStage, own: RunningOwn): Promise<number> {
  const names = Array.from({ length: WEBSITES_AT_ONCE }, (_, n) => `many-${n}`);
  const begun = performance.now();
  const left = [...names];
  const posting = Array.from({ length: POSTERS }, async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await user.request("POST", WEBSITES, site(name));
  });
  const writes = names.flatMap((name) => [`create deployments ${name}`, `create services ${name}`, `patch websites/status ${name}`]);
  const [ends] = await Promise.all([Promise.all(writes.map((write) => own.answered(write))), ...posting]);
  const { items } = await user.list<{ readonly status?: object }>(WEBSITES);
  const done = items.filter(({ status }) => status !== undefined).length;
  if (done !== WEBSITES_AT_ONCE) throw new Error(`${done} statuses exist`);
  return (Math.max(...ends) - begun) / 1_000;
}

/** Returns the Store's memory after a controller that selects none of the Websites has cached all of them. */
async function bytesOutside({ user, start }: OwnStage, websites: number): Promise<number> {
  const own = await start([elsewhere], FILES.elsewhere);
  try {
    const { items } = await user.list(WEBSITES);
    if (items.length !== websites) throw new Error(`${items.length} Websites exist`);
    return await own.storeBytes();
  } finally {
    await own.stop();
  }
}

async function bundleBytes(): Promise<number> {
  const out = await mkdtemp(join(tmpdir(), "deltaloop-bundle-"));
  try {
    return (await bundleFunction(ROOT, "own", out, "", "test/harness/own/function.ts")).bytes;
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}
