/**
 * 5,000 objects and three rollouts on a real control plane, during which watcher, API server and Redis have all tested faults. Takes about
 * ten minutes; run it with `npm run endure`.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, it } from "vitest";

import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { eventually, isRunning, killHard, measured, whereRealPartsAre } from "../support/e2e.ts";
import type { Running } from "../support/e2e.ts";
import { startLossRig } from "../support/loss-rig.ts";
import type { Limits, LossRig } from "../support/loss-rig.ts";
import { REDIS_FAULTS, rollBack } from "../support/redis-faults.ts";

/** Number of Deployments, and pods of each. With their ReplicaSets and the three rolling Deployments, the cluster has 5,000 objects. */
const [DEPLOYMENTS, PODS_EACH] = [60, 81];
const NODES = 6;
const NAMESPACE = "crowd";
const FILLED_SECONDS_MAX = 300;
/** The time until the Lease of a killed leader expires, and two seconds until the next leader has resumed. */
const TAKEN_OVER_MS_MAX = 20_000;
/** The same with an additional list, because a leader that resumes without a confirmed checkpoint cannot continue from the Store. */
const TAKEN_OVER_AND_LISTED_MS_MAX = 30_000;
/** Duration in ms for which a worker is stopped: as long as the lease of a key. */
const STOPPED_MS = 25_000;
const random = createSeededRandom(1);

interface Fault {
  readonly name: string;
  readonly strike: (rig: LossRig) => Promise<void>;
  readonly limits?: Limits;
}

const FAULTS: readonly Fault[] = [
  { name: "no fault", strike: () => Promise.resolve() },
  { name: "watches cut 50 times", strike: ({ road }) => often(50, 400, road.cut) },
  {
    name: "watcher killed with SIGKILL ten times",
    strike: ({ dev }) => often(10, 3_000, () => killWatcher(dev)),
    limits: { pauseMsMax: TAKEN_OVER_MS_MAX, settledMsMax: TAKEN_OVER_MS_MAX },
  },
  {
    name: "Redis: rolled back 2 s while no watcher leads",
    strike: async ({ dev, redis }) => {
      await killWatcher(dev);
      await rollBack(redis);
    },
    limits: { pauseMsMax: TAKEN_OVER_AND_LISTED_MS_MAX, settledMsMax: TAKEN_OVER_AND_LISTED_MS_MAX },
  },
  { name: "functions suspended for 25 s", strike: ({ dev }) => stopFunctions(dev) },
  { name: "API server restarted", strike: ({ cluster }) => cluster.plane.restartApiServer(), limits: { breaksTheWatch: true } },
  ...REDIS_FAULTS.map(({ name, strike, pauseMsMax }) => ({
    name: `Redis: ${name}`,
    strike: ({ redis }: LossRig) => strike(redis),
    limits: pauseMsMax === undefined ? {} : { pauseMsMax },
  })),
];

/** Calls `strike` at random times, at most `msMax` apart. */
async function often(times: number, msMax: number, strike: () => unknown): Promise<void> {
  for (let i = 0; i < times; i++) {
    await sleep(random.next() * msMax);
    await strike();
  }
}

/** Kills the watcher; `dev` starts a new one a second later. */
async function killWatcher(dev: Running): Promise<void> {
  const pid = await eventually("a watcher runs", () => {
    const { watcher = 0 } = dev.pids();
    return watcher !== 0 && isRunning(watcher) && watcher;
  });
  killHard(pid);
}

async function stopFunctions(dev: Running): Promise<void> {
  const { functions = 0 } = dev.pids();
  process.kill(functions, "SIGSTOP");
  await sleep(STOPPED_MS);
  process.kill(functions, "SIGCONT");
}

await whereRealPartsAre("faults among 5,000 objects", () => {
  describe("in a cluster of 5,000 objects, three rollouts complete after", () => {
    let rig: LossRig;
    beforeAll(async () => {
      rig = await startLossRig({ nodes: NODES });
      const { cluster } = rig;
      await cluster.kubectl("create", "namespace", NAMESPACE);
      const from = performance.now();
      const names = Array.from({ length: DEPLOYMENTS }, (_, index) => `crowd-${index}`);
      await cluster.apply(...names.map(deployment));
      for (const name of names) await cluster.rolledOut(NAMESPACE, name, FILLED_SECONDS_MAX);
      const took = ((performance.now() - from) / 1000).toFixed(1);
      measured(`${DEPLOYMENTS} Deployments of ${PODS_EACH} pods rolled out in ${took} s`);
    });
    afterAll(async () => await rig?.stop());

    for (const { name, strike, limits } of FAULTS) it(name, async () => await rig.settles(name, strike, limits));
  });
});

function deployment(name: string): object {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      replicas: PODS_EACH,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
    },
  };
}
