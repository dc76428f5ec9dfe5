/**
 * Catches: a sum of the wrong metric, histogram buckets that are added to the histogram's sum, heartbeats billed twice, and metrics of
 * another process.
 */
import { expect, it } from "vitest";

import { measuredIn, usageOfMeasured } from "../../../../cli/cost/metrics.ts";
import { createPrometheusMetrics } from "../../../../shared/base/prometheus/registry.ts";
import { COUNTS } from "./fixtures.ts";

async function measured(hours?: number) {
  const metrics = createPrometheusMetrics("functions");
  metrics.count("deltaloop_messages_total", { resource: "pods", verdict: "ack" }, 11_000); // heartbeats
  metrics.count("deltaloop_messages_total", { resource: "deployments", verdict: "ack" }, 150);
  for (let i = 0; i < 150; i++) metrics.observe("deltaloop_delta_lag_seconds", { resource: "deployments" }, 0.02);
  metrics.count("deltaloop_messages_total", { resource: "pods", verdict: "retry" }, 50);
  metrics.count("deltaloop_doorbells_total", { controller: "replicaset", result: "ok" }, 30);
  metrics.count("deltaloop_doorbells_total", { controller: "deployment", result: "empty" }, 10);
  metrics.observe("workqueue_work_duration_seconds", { name: "replicaset" }, 0.5);
  metrics.observe("workqueue_work_duration_seconds", { name: "deployment" }, 0.25);
  metrics.count("rest_client_requests_total", { code: "200", method: "GET", host: "h" }, 5);
  metrics.count("rest_client_requests_total", { code: "<error>", method: "GET", host: "h} 7" }, 2);
  return measuredIn("host", await metrics.text(), Date.now() + 3_600_000, hours);
}

it("sums the function host's metrics over labels since its process started", async () => {
  expect(await measured(2)).toEqual({ hours: 2, messages: 200, doorbells: 40, syncSeconds: 0.75, requests: 7 });
  const { hours } = await measured();
  expect(hours).toBeGreaterThan(1);
  expect(hours).toBeLessThan(1.5);
});

it("extrapolates a month: heartbeats when idle, one batch per message with changes and per doorbell, syncs as measured", async () => {
  const { idle, work, starts, workHours } = usageOfMeasured(COUNTS, await measured(2));
  expect(idle.fifo).toBe(730 * 400);
  const [messages, doorbells] = [100 * 730, 20 * 730];
  expect(work).toMatchObject({ fifo: messages * 3, standard: doorbells * 3, apiBytes: (messages + 3.5 * 730) * 6_000 });
  // The cost of a changed pod in the fixture: 10 ms of sync-replicaset, and nothing for apply-deltas.
  expect(work.functions).toEqual({
    "apply-deltas": { invocations: messages, ms: messages, atOnce: 1 },
    sync: { invocations: doorbells, ms: doorbells * 10 + 375 * 730, atOnce: 1 },
  });
  expect([starts, workHours]).toEqual([doorbells, 730]);
});

it.each([
  {
    name: "metrics of another process",
    text: "process_start_time_seconds 1\nworkqueue_depth 3\n",
    says: "x has no deltaloop_messages_total",
  },
  {
    name: "metrics without a start time",
    text: "deltaloop_messages_total 3\n",
    says: "x has no process_start_time_seconds: pass --over DURATION",
  },
  {
    name: "metrics with a start time in the future",
    text: "deltaloop_messages_total 3\nprocess_start_time_seconds 99\n",
    says: "covers a duration of 0: pass --over",
  },
])("rejects $name", ({ text, says }) => {
  expect(() => measuredIn("x", text, 10_000)).toThrow(says);
});
