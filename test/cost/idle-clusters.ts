/** Counts what a further idle cluster adds to a deployment that serves several. */
import { createSweep } from "../../functions/sweep/handler.ts";
import { startEmbeddedClusters } from "../../cli/dev/embedded-clusters.ts";
import type { EmbeddedClusters } from "../../cli/dev/embedded-clusters.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { scaled } from "../../cli/cost/counts.ts";
import type { Counts } from "../../cli/cost/counts.ts";
import type { FunctionWiring } from "../../shared/controllers/lambda/wiring.ts";
import { Meter } from "./meter.ts";

const HOUR_MS = 3_600_000;
const SWEEP_MS = 60_000;

/** Returns the counts of an hour of `count` clusters without objects, measured for `minutes`. */
export async function idleHourOf(count: number, minutes: number): Promise<Counts> {
  const meter = new Meter();
  const embedded = await startEmbeddedClusters({
    names: Array.from({ length: count }, (_, i) => `c${i}`),
    nodes: 0,
    logOf: () => meter.log,
    metrics: meter.metrics("functions"),
    observeSqs: meter.sqs,
    onInvocation: meter.onInvocation,
    onSync: () => undefined,
    onChanges: () => undefined,
  });
  let sweeping: NodeJS.Timeout | undefined;
  try {
    if (embedded.redisUrl === undefined) throw new Error("redis-server is missing on this machine, and the counts need one");
    await embedded.ready();
    await meter.started(
      embedded.clusters.map(({ url }) => url),
      embedded.redisUrl,
    );
    const sweep = createSweep(sweepWiring(embedded, meter));
    sweeping = setInterval(() => void swept(sweep, meter), SWEEP_MS);
    // Starts halfway between two sweeps, so that the number of sweeps in the counted time does not vary.
    await sleep(1.5 * SWEEP_MS);
    const from = await meter.read();
    await sleep(minutes * SWEEP_MS);
    const to = await meter.read();
    return scaled(meter.between(from, to), HOUR_MS / (to.atMs - from.atMs));
  } finally {
    clearInterval(sweeping);
    meter.stop();
    await embedded.stop();
  }
}

async function swept(sweep: ReturnType<typeof createSweep>, meter: Meter): Promise<void> {
  const from = Date.now();
  await sweep();
  meter.ran("sweep", from, Date.now());
}

/** One sweep of all clusters. It only calls their Stores. */
function sweepWiring(embedded: EmbeddedClusters, meter: Meter): FunctionWiring {
  const stores = embedded.stores();
  const doorbells = { ring: () => Promise.resolve() };
  const cluster = (cid: string) => ({ store: stores.get(cid), doorbells });
  // A sweep uses no other part of the wiring.
  return { log: meter.log, metrics: meter.metrics("sweep"), clusters: [...stores.keys()], cluster } as unknown as FunctionWiring;
}
