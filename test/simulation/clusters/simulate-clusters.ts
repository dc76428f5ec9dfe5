/**
 * Several clusters of one deployment in one process, from one seed, on a virtual clock. Each is a world of ../world.ts with its own API
 * server, users, faults and checks; they share queues, functions and the process of their watchers (deployment.ts). All have the same names, and
 * in most runs the same uids. One of them is hostile. One starts late, as a copy of the first one, and its objects have the same uids.
 */
import type { JsonObject } from "../../../shared/base/json.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { Random } from "../../../shared/base/random.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import type { Violation } from "../checks.ts";
import { drawMix } from "../faults.ts";
import { LOSSES } from "../losses.ts";
import { backUp } from "../second-cluster.ts";
import type { Backup } from "../second-cluster.ts";
import { MERGE } from "../users.ts";
import { simulate } from "../world.ts";
import type { SimulationResult } from "../world.ts";
import { Deployment } from "./deployment.ts";
import type { DeployedCluster } from "./deployment.ts";
import { Forger } from "./forger.ts";
import { PLANTS } from "./plants.ts";
import type { Plant } from "./plants.ts";

export interface ClustersOptions {
  readonly seed: number;
  /** The run ends when this mistake is found. */
  readonly plant?: Plant;
  readonly trace?: (line: string) => void;
}

const CLUSTER_FAULTS = ["unreachable", "slow", "expired", "streams", "stolenLease", "deletedLease", "restored"] as const;
type ClusterFault = (typeof CLUSTER_FAULTS)[number];

const START_MS = Date.UTC(2026, 2, 1, 10);
/** The bursts of each world, and their faults, as in ../world.ts. */
const [BUSY_MS, CYCLE_MS, BURSTS_MS] = [30_000, 75_000, 180_000];
const STEP_MS = 1_000;
const FAULT_MS = 12_000;
const BACKUP_AGE_MS = 8_000;
const COPIED_MS = 35_000;
const END_MS = 3_600_000;

export async function simulateClusters({ seed, plant, trace }: ClustersOptions): Promise<SimulationResult> {
  const random = createSeededRandom(seed * 86_028_121 + 17);
  const fork = (): Random => createSeededRandom(Math.floor(random.next() * 2 ** 32));
  const clock = createVirtualClock(START_MS);
  const violations: Violation[] = [];
  const stats: Record<string, number> = {};
  const count = (what: string, by = 1): void => void (stats[what] = (stats[what] ?? 0) + by);
  const isBusy = (): boolean => {
    const sinceMs = clock.now() - START_MS;
    return sinceMs > 1_500 && sinceMs < BURSTS_MS && sinceMs % CYCLE_MS < BUSY_MS;
  };
  const mix = drawMix(fork());
  const loss = LOSSES[Math.floor(random.next() * LOSSES.length * 3)];
  const deployment = new Deployment({
    ...{ clock, random: fork(), mix, loss, isFaulty: isBusy, plant, seed },
    onViolation: (violation) => {
      trace?.(`!! ${violation.rule} ${violation.what}`);
      violations.push({ ...violation, atMs: violation.atMs - START_MS });
    },
    onCount: count,
  });
  const equalUids = random.next() < 0.7 ? Math.floor(random.next() * 2 ** 32) : undefined;
  const clusters: DeployedCluster[] = [];
  const runs: Promise<void>[] = [];

  function start(index: number, copied: Backup = []): void {
    const cid = String(index).repeat(32);
    const cluster = deployment.add(cid, equalUids === undefined ? fork() : createSeededRandom(equalUids), copied);
    clusters.push(cluster);
    const name = `c${index}`;
    const run = async (): Promise<void> => {
      const result = await cluster.run(
        async () =>
          await simulate({
            seed: seed * 10 + index,
            part: cluster.part,
            ...(trace && { trace: (line: string) => trace(`${name} ${line}`) }),
          }),
      );
      violations.push(...result.violations.map((each) => ({ ...each, what: `${name} (${result.mix}): ${each.what}` })));
      for (const [what, value] of Object.entries(result.stats)) count(what, value);
    };
    runs.push(run().catch((error: unknown) => void violations.push({ rule: "simulation", atMs: 0, what: `${name}: ${String(error)}` })));
  }

  async function strike(cluster: DeployedCluster, fault: ClusterFault, faults: Random): Promise<void> {
    count(`cluster fault: ${fault}`);
    const { server, mirror, lease, lost, restored } = cluster.started();
    const lasts = clock.after(2_000 + faults.next() * FAULT_MS);
    const path = `/apis/coordination.k8s.io/v1/namespaces/${lease.namespace}/leases/${lease.name}`;
    const person = rawClientIn(server, "kubectl");
    switch (fault) {
      case "unreachable":
      case "slow":
      case "expired":
        cluster.outages.begin(fault);
        await lasts;
        return cluster.outages.end();
      case "streams":
        return cluster.outages.breakStreams();
      case "stolenLease": {
        const spec = { holderIdentity: "another", renewTime: new Date(clock.now()).toISOString().replace("Z", "000Z") };
        return void (await person.request<JsonObject>("PATCH", path, { spec }, MERGE).catch(() => undefined));
      }
      case "deletedLease":
        return void (await person.request("DELETE", path).catch(() => undefined));
      case "restored": {
        const restore = server.backup();
        await clock.after(BACKUP_AGE_MS);
        mirror.update();
        restore();
        lost("restore");
        await mirror.restart(server);
        return await restored();
      }
    }
  }

  /** Repeats `act` during the bursts. */
  function repeat(everyMs: () => number, act: () => Promise<void>): void {
    const go = async (): Promise<void> => {
      while (clock.now() - START_MS < BURSTS_MS) {
        await clock.after(everyMs());
        if (isBusy()) await act();
      }
    };
    runs.push(go().catch((error: unknown) => void violations.push({ rule: "simulation", atMs: 0, what: String(error) })));
  }

  const size = 2 + Math.floor(random.next() * 3);
  for (let index = 1; index <= size; index++) start(index);
  const [faults, lies, deaths] = [fork(), fork(), fork()];
  // The first cluster never fails, and must not notice that the others do.
  repeat(
    () => 2_000 + faults.next() * 8_000,
    async () => {
      const cluster = clusters[1 + Math.floor(faults.next() * (size - 1))];
      const fault = CLUSTER_FAULTS[Math.floor(faults.next() * CLUSTER_FAULTS.length)];
      if (cluster && fault) await strike(cluster, fault, faults);
    },
  );
  const hostile = clusters.at(-1);
  if (hostile) {
    const forger = new Forger(deployment, hostile, lies);
    repeat(
      () => 100 + lies.next() * 1_000,
      async () => {
        const victim = clusters[Math.floor(lies.next() * (size - 1))];
        count("forged messages");
        if (victim) await forger.act(victim);
      },
    );
  }
  repeat(
    () => 10_000 + deaths.next() * 30_000,
    async () => {
      count("the process of all watchers was killed");
      for (const { part } of clusters) for (const fate of [...part.processes]) fate.die();
      await Promise.resolve();
    },
  );

  runs.push(
    clock.after(COPIED_MS).then(async () => {
      const [first] = clusters;
      if (first && random.next() < 0.5) start(size + 1, await backUp(first.started().server));
    }),
  );

  let isOver = false;
  const over = allOf(runs).then(() => (isOver = true));
  const isFound = (): boolean => plant !== undefined && violations.some(({ rule }) => rule === PLANTS[plant].crosses);
  while (!isOver && !isFound() && clock.now() - START_MS < END_MS) await clock.advance(STEP_MS);
  if (!isOver && !isFound()) violations.push({ rule: "simulation", atMs: END_MS, what: "the run does not end" });
  else if (isOver) await over;
  count("clusters", clusters.length);
  return {
    seed,
    violations,
    stats,
    mix: `${clusters.length} clusters, ${mix.name}${mix.fifo ? " fifo" : ""}${loss ? ` ${loss}` : ""}${equalUids === undefined ? "" : " equal uids"}`,
  };
}

/** Waits for all runs, including those that earlier runs add. */
async function allOf(runs: readonly Promise<void>[]): Promise<void> {
  for (let i = 0; i < runs.length; i++) await runs[i];
}
