/**
 * Every minute, beside the watcher's own sweeps: rings the keys that are due and whose doorbell was lost, and tells which gates are open, for
 * CloudWatch, where the watcher's own word is not heard, and whether or not a watcher lives.
 */
import { CONTROLLERS } from "../../shared/api/resources.ts";
import { deployed } from "../../shared/lambda/deployed.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";

/** Of 500 keys each: what a store that was cut off for a while may hold. */
const PASSES_MAX = 20;

/** Answers how many doorbells it rang. A cluster whose cache has no epoch yet has nothing to sweep. */
export function createSweep(wiring: FunctionWiring): () => Promise<{ readonly rung: number }> {
  return async () => {
    let rung = 0;
    for (const cid of wiring.clusters) {
      const cluster = wiring.cluster(cid);
      if (cluster === undefined) continue;
      const epoch = await cluster.store.epoch();
      for (let pass = 0; epoch !== undefined && pass < PASSES_MAX; pass++) {
        const bells = await cluster.store.sweep(epoch.epoch);
        if (bells.length === 0) break;
        await cluster.doorbells.ring(bells);
        rung += bells.length;
      }
      for (const controller of CONTROLLERS)
        wiring.metrics?.set("deltaloop_gate_open", { controller }, (await cluster.store.gate(controller)).open ? 1 : 0);
    }
    if (rung > 0) wiring.log.info("rang lost doorbells", { rung });
    wiring.metrics?.count("deltaloop_sweeper_rings_total", {}, rung);
    wiring.metrics?.flush?.();
    return { rung };
  };
}

export const handler: () => Promise<{ readonly rung: number }> = deployed("sweep", createSweep);
