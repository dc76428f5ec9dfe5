/** Kills processes of user controllers with SIGKILL while trials run, and starts them again. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { deltaloop, killHard, ROOT } from "../../support/e2e.ts";
import type { Cluster, Running } from "../../support/e2e.ts";
import { startBehind } from "../../support/redis-faults.ts";
import { startRedis } from "../../support/redis.ts";
import { EXAMPLE_FILES, SCENES } from "./scenes.ts";
import { inTurns, open, playAll, STAGES_MAX, wrongWrites } from "./trials.ts";
import type { Outcome, Trial } from "./trials.ts";

/** Kills per trial: the number of kills determines how many trials run. */
const KILLS_PER_TRIAL = 2;
const PAUSE_MS_MAX = 2_500;
const READY_MS_MAX = 60_000;
/** Time limit of a stage; on a busy machine, process starts take most of it. */
const STAGE_MS_MAX = 600_000;
/** The scenes to play, without those of pod-janitor: in real time, it keeps an ended pod for an hour. */
const PLAYED = SCENES.filter(({ controller }) => controller !== "pod-janitor");

/** Processes that can be killed. */
interface Victims {
  readonly name: string;
  /** The process of watcher and functions, which starts the function host. */
  start(): Running;
  /** Kills Redis and starts it again, with its data. */
  readonly restartRedis?: () => Promise<void>;
}

/** Kills `deltaloop dev FILE --act`, which has watcher, queues and Store in memory, and its function host. */
export async function killDev(cluster: Cluster, kills: number, seed: number): Promise<Outcome> {
  const args = ["dev", ...EXAMPLE_FILES, "--act", "--yes", "--kubeconfig", cluster.plane.adminKubeconfig];
  return await kill(cluster, { name: "dev", start: () => deltaloop(args) }, kills, seed);
}

/** Kills a watcher with its functions, their function host, and Redis, whose append-only file keeps what was written. */
export async function killOnRedis(cluster: Cluster, kills: number, seed: number): Promise<Outcome> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-own-"));
  const redis = await startBehind();
  const restartRedis = (): Promise<void> => redis.replace(() => startRedis("--dir", directory, "--appendonly", "yes"));
  try {
    await restartRedis();
    const start = (): Running => deltaloop([cluster.plane.adminKubeconfig, redis.url], {}, join(ROOT, "test/own-crashes/on-redis.ts"));
    return await kill(cluster, { name: "redis", start, restartRedis }, kills, seed);
  } finally {
    await redis.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

async function kill(cluster: Cluster, { name, start, restartRedis }: Victims, kills: number, seed: number): Promise<Outcome> {
  const random = createSeededRandom(seed);
  const trials = Array.from({ length: Math.ceil(kills / KILLS_PER_TRIAL) }, (_, index): Trial => {
    const scene = PLAYED[index % PLAYED.length] ?? SCENES[0];
    return {
      id: `killed-${name}-${index}`,
      scene: scene as Trial["scene"],
      faults: [],
      startMs: (index * KILLS_PER_TRIAL * PAUSE_MS_MAX) / 2,
    }; // PLAYED is not empty
  });
  await inTurns(trials, (trial) => open(cluster.client, trial));
  let running = start();
  await running.line("ready: ", READY_MS_MAX);
  const killHost = async (): Promise<void> => {
    const pid = [...running.output().matchAll(/function host started pid=(\d+)/g)].at(-1)?.[1];
    // The process may have ended already; `dev` restarts it after a second.
    if (pid !== undefined)
      await Promise.resolve(Number(pid))
        .then(killHard)
        .catch(() => undefined);
  };
  const killAll = async (): Promise<void> => {
    killHard(running.pid);
    await running.exited;
    running = start();
    // Waits until it is ready: killing a process during its start tests nothing, and on a busy machine it would never sync.
    await running.line("ready: ", READY_MS_MAX);
  };
  const strikes = [killHost, killAll, ...(restartRedis ? [restartRedis] : [])] as const;
  const killing = async (): Promise<void> => {
    for (let n = 0; n < kills; n++) {
      await new Promise((resolve) => setTimeout(resolve, random.next() * PAUSE_MS_MAX));
      await strikes[Math.floor(random.next() * strikes.length)]?.();
    }
  };
  let failures: string[];
  try {
    failures = await playAll(cluster, trials, STAGES_MAX, killing(), STAGE_MS_MAX);
  } finally {
    await running.stop();
  }
  failures.push(...(await wrongWrites(cluster, trials)));
  await inTurns(trials, ({ id }) => cluster.client.request("DELETE", `/api/v1/namespaces/${id}`));
  return { failures, trials: trials.length, faultsOccurred: kills, calls: new Map() };
}
