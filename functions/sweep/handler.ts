/** Runs every minute, in addition to the watcher's sweeps: sends lost doorbells again, and reports the gates to CloudWatch. */
import { deployed, reportClusterHealth } from "@deltaloop/controllers/lambda";
import type { FunctionWiring } from "@deltaloop/controllers/lambda";

/** Maximum number of passes. A pass handles up to 500 keys, so this covers the backlog after a short outage of the store. */
const PASSES_MAX = 20;

/** Returns the number of doorbells sent. Skips a cluster whose cache has no epoch yet. */
export function createSweep(wiring: FunctionWiring): () => Promise<{ readonly rung: number }> {
  return async () => {
    await reportClusterHealth(wiring);
    // Flushes the metrics first, because the alarm on missing gate metrics must not fire if only a queue is unreachable.
    wiring.metrics?.flush?.();
    let rung = 0;
    for (const cid of wiring.clusters) rung += await ringDue(wiring, cid);
    if (rung > 0) wiring.log.info("resent lost doorbells", { rung });
    wiring.metrics?.count("deltaloop_sweeper_rings_total", {}, rung);
    wiring.metrics?.flush?.();
    return { rung };
  };
}

async function ringDue({ cluster }: FunctionWiring, cid: string): Promise<number> {
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

export const handler: () => Promise<{ readonly rung: number }> = deployed("sweep", createSweep);
