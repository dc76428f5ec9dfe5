/** Runs every minute, in addition to the watcher's sweeps: sends lost doorbells again, and reports the gates to CloudWatch. */
import { deployedSchedule } from "@deltaloop/controllers/clusters";
import { reportClusterHealth } from "@deltaloop/controllers/lambda";
import type { FunctionWiring } from "@deltaloop/controllers/lambda";

type SweepWiring = Pick<FunctionWiring, "log" | "metrics" | "cluster" | "clusters">;

/** Maximum number of passes. A pass handles up to 500 keys, so this covers the backlog after a short outage of the store. */
const PASSES_MAX = 20;

/** Returns the number of doorbells sent. Skips a cluster whose cache has no epoch yet. One that fails delays no other. */
export function createSweep(wiring: SweepWiring): () => Promise<{ readonly rung: number }> {
  return async () => {
    await reportClusterHealth(wiring);
    // Flushes the metrics first, because the alarm on missing gate metrics must not fire if only a queue is unreachable.
    wiring.metrics?.flush?.();
    const all = await Promise.allSettled(wiring.clusters.map(async (cid) => await ringDue(wiring, cid)));
    const errors = all.flatMap((one): unknown[] => (one.status === "rejected" ? [one.reason] : []));
    const rung = all.reduce((sum, one) => sum + (one.status === "fulfilled" ? one.value : 0), 0);
    if (rung > 0) wiring.log.info("resent lost doorbells", { rung });
    if (rung > 0 || errors.length === 0) wiring.metrics?.count("deltaloop_sweeper_rings_total", {}, rung);
    wiring.metrics?.flush?.();
    if (errors.length > 0) throw errors[0];
    return { rung };
  };
}

async function ringDue({ cluster }: SweepWiring, cid: string): Promise<number> {
  const { store, doorbells } = cluster(cid) ?? {};
  const epoch = await store?.epoch();
  let rung = 0;
  for (let pass = 0; store && doorbells && epoch !== undefined && pass < PASSES_MAX; pass++) {
    const bells = await store.sweep(epoch.epoch);
    if (bells.length === 0) break;
    await doorbells.ring(bells);
    rung += bells.length;
  }
  return rung;
}

export const handler: () => Promise<{ readonly rung: number }> = deployedSchedule("sweep", createSweep);
