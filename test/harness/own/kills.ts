/** Kills `deltaloop dev FILE --act`, which has watcher, queues and Store in memory, and its function host, with SIGKILL while trials run. */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { deltaloop, killHard } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { SCENES } from "./scenes.ts";
import { inTurns, open, playAll, STAGES_MAX, wrongWrites } from "./trials.ts";
import type { Outcome, Trial } from "./trials.ts";

/** Trials that begin while the processes are killed. */
const KILLS_PER_TRIAL = 2;
const PAUSE_MS_MAX = 2_500;
const READY_MS_MAX = 60_000;
/** In real time a pod that has ended is kept for an hour. */
const PLAYED = SCENES.filter(({ controller }) => controller !== "pod-janitor");

export async function killProcesses(cluster: Cluster, kills: number, seed: number): Promise<Outcome> {
  const random = createSeededRandom(seed);
  const files = PLAYED.map(({ controller }) => `examples/${controller}/${controller}.ts`);
  const args = ["dev", ...files, "--act", "--yes", "--kubeconfig", cluster.plane.adminKubeconfig];
  const trials = Array.from({ length: Math.ceil(kills / KILLS_PER_TRIAL) }, (_, index): Trial => {
    const scene = PLAYED[index % PLAYED.length] ?? SCENES[0];
    return { id: `killed-${index}`, scene: scene as Trial["scene"], faults: [], startMs: (index * KILLS_PER_TRIAL * PAUSE_MS_MAX) / 2 }; // PLAYED is not empty
  });
  await inTurns(trials, (trial) => open(cluster.client, trial));
  let dev = deltaloop(args);
  await dev.line("ready: ", READY_MS_MAX);
  const killing = async (): Promise<void> => {
    for (let n = 0; n < kills; n++) {
      await new Promise((resolve) => setTimeout(resolve, random.next() * PAUSE_MS_MAX));
      const host = [...dev.output().matchAll(/function host started pid=(\d+)/g)].at(-1)?.[1];
      if (random.next() < 0.5 && host !== undefined) {
        // It may have ended already, and is started again after a second.
        await Promise.resolve(Number(host))
          .then(killHard)
          .catch(() => undefined);
        continue;
      }
      killHard(dev.pid);
      await dev.exited;
      dev = deltaloop(args);
    }
  };
  let failures: string[];
  try {
    failures = await playAll(cluster, trials, STAGES_MAX, killing());
  } finally {
    await dev.stop();
  }
  failures.push(...(await wrongWrites(cluster, trials)));
  await inTurns(trials, ({ id }) => cluster.client.request("DELETE", `/api/v1/namespaces/${id}`));
  return { failures, trials: trials.length, faultsOccurred: kills, calls: new Map() };
}
