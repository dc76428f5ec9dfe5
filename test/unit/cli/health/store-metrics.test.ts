// Would catch: an item outcome that the sum omits, a lane that is not counted, and waiting keys of a queue that count as due.
import { expect, it } from "vitest";
import { RunningSyncs } from "../../../../cli/health/running-syncs.ts";
import { tellStore } from "../../../../cli/health/store-metrics.ts";
import { FATES } from "../../../../shared/store/ports/tallies.ts";
import type { LaneTally, Store } from "../../../../shared/store/ports/store.ts";
import { countedMetrics } from "../../../support/counted.ts";

const lane = (lane: number, received: number): LaneTally => ({
  resource: "pods",
  lane,
  received,
  fates: { applied: received - 1, superseded: 1, duplicate: 0, fenced: 0, otherEpoch: 0, quarantined: 0, dead: 0 },
});

it("exposes gates, due keys, parked keys, and the item counts of all lanes", async () => {
  const metrics = countedMetrics();
  const store: Pick<Store, "gate" | "queued" | "parked" | "tallies" | "guard"> = {
    guard: async () => ({ acceptedMs: 0, namespaces: new Map([["shop", { acceptedMs: 0, stop: { kind: "unbelieved" } }]]) }),
    gate: async (controller) => (controller === "deployment" ? { open: false, reason: "pods are SYNCING" } : { open: true }),
    queued: async () => [
      { key: "shop/due", readyAtMs: 900, failures: 0 },
      { key: "shop/waits", readyAtMs: 1_100, failures: 2 },
      { key: "shop/runs", leaseUntilMs: 5_000, failures: 0 },
    ],
    parked: async () => [{ key: "shop/parked", sinceMs: 0, failures: 16 }],
    tallies: async () => [lane(0, 10), lane(3, 5)],
  };
  await tellStore(store, metrics, 1_000);
  expect(metrics.sums).toMatchObject({
    "deltaloop_stopped{controller=deployment}": 0,
    "deltaloop_stopped_namespaces{}": 1,
    "deltaloop_gate_open{controller=deployment}": 0,
    "deltaloop_gate_open{controller=replicaset}": 1,
    "workqueue_depth{name=replicationmanager}": 1,
    "deltaloop_parked_keys{controller=replicaset}": 1,
    "deltaloop_items_received_total{resource=pods}": 15,
    "deltaloop_items_total{resource=pods,fate=applied}": 13,
    "deltaloop_items_total{resource=pods,fate=superseded}": 2,
  });
  expect(FATES.reduce((all, fate) => all + (metrics.sums[`deltaloop_items_total{resource=pods,fate=${fate}}`] ?? 0), 0)).toBe(15);
});

it("exposes the elapsed time of syncs in progress", () => {
  const [metrics, running] = [countedMetrics(), new RunningSyncs()];
  running.trace("c1", { controller: "replicaset", key: "shop/a", kind: "started" }, 1_000);
  running.trace("c1", { controller: "replicaset", key: "shop/b", kind: "started" }, 3_000);
  running.trace("c1", { controller: "deployment", key: "shop/a", kind: "started" }, 0);
  running.trace("c1", { controller: "deployment", key: "shop/a", kind: "ended", outcome: "ok" }, 3_500);
  running.tell(metrics, 4_000);
  expect(metrics.sums).toMatchObject({
    "workqueue_unfinished_work_seconds{name=replicaset}": 4,
    "workqueue_longest_running_processor_seconds{name=replicaset}": 3,
    "workqueue_unfinished_work_seconds{name=deployment}": 0,
    "workqueue_longest_running_processor_seconds{name=deployment}": 0,
  });
});

it("counts syncs of the same key in two clusters separately", () => {
  const [metrics, running] = [countedMetrics(), new RunningSyncs()];
  for (const cluster of ["c1", "c2"]) running.trace(cluster, { controller: "replicaset", key: "shop/a", kind: "started" }, 1_000);
  running.trace("c2", { controller: "replicaset", key: "shop/a", kind: "ended", outcome: "ok" }, 2_000);
  running.tell(metrics, 4_000);
  expect(metrics.sums).toMatchObject({ "workqueue_unfinished_work_seconds{name=replicaset}": 3 });
});
