/**
 * Runs every minute, in addition to the watcher's sweeps: rings due keys whose doorbell was lost.
 * Publishes the open gates to CloudWatch, independent of a watcher.
 */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { deployed } from "@deltaloop/controllers/lambda";
import type { FunctionWiring } from "@deltaloop/controllers/lambda";

/** Of 500 keys each: what a store that was cut off for a while may hold. */
const PASSES_MAX = 20;

/** Answers how many doorbells it rang. A cluster whose cache has no epoch yet has nothing to sweep. */
export function createSweep(wiring: FunctionWiring): () => Promise<{ readonly rung: number }> {
  return async () => {
    for (const cid of wiring.clusters) await tellGates(wiring, cid);
    // At once: the silence of a gate is an alarm of its own, and a queue that is away must not look like it.
    wiring.metrics?.flush?.();
    let rung = 0;
    for (const cid of wiring.clusters) rung += await ringDue(wiring, cid);
    if (rung > 0) wiring.log.info("rang lost doorbells", { rung });
    wiring.metrics?.count("deltaloop_sweeper_rings_total", {}, rung);
    wiring.metrics?.flush?.();
    return { rung };
  };
}

async function tellGates({ cluster, metrics }: FunctionWiring, cid: string): Promise<void> {
  const store = cluster(cid)?.store;
  if (store === undefined) return;
  for (const controller of CONTROLLERS) metrics?.set("deltaloop_gate_open", { controller }, (await store.gate(controller)).open ? 1 : 0);
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
