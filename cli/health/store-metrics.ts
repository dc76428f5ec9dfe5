/** Metrics of the Store, read at each scrape by the leading watcher only, so that they are reported once. */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { WORK_QUEUES } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";
import type { Store } from "@deltaloop/store/ports";
import { FATES, stoppedNamespaces } from "@deltaloop/store/ports";

/** Reads the Store and sets its metrics. @throws when the Store does not answer */
export async function tellStore(
  store: Pick<Store, "gate" | "queued" | "parked" | "tallies" | "guard">,
  metrics: Metrics,
  nowMs: number,
): Promise<void> {
  const guard = await store.guard();
  metrics.set("deltaloop_stopped_namespaces", {}, stoppedNamespaces(guard).size);
  for (const controller of CONTROLLERS) {
    metrics.set("deltaloop_stopped", { controller }, guard.stop ? 1 : 0);
    const [gate, queued, parked] = await Promise.all([store.gate(controller), store.queued(controller), store.parked(controller)]);
    const due = queued.filter(({ readyAtMs }) => readyAtMs !== undefined && readyAtMs <= nowMs);
    metrics.set("deltaloop_gate_open", { controller }, gate.open ? 1 : 0);
    metrics.set("workqueue_depth", { name: WORK_QUEUES[controller] }, due.length);
    metrics.set("deltaloop_parked_keys", { controller }, parked.length);
  }
  // Reported by resource, because per lane there would be many more series.
  for (const [resource, lanes] of Map.groupBy(await store.tallies(), (tally) => tally.resource)) {
    metrics.set("deltaloop_items_received_total", { resource }, sum(lanes.map(({ received }) => received)));
    for (const fate of FATES) metrics.set("deltaloop_items_total", { resource, fate }, sum(lanes.map(({ fates }) => fates[fate])));
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}
