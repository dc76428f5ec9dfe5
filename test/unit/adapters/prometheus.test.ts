// Prometheus metrics: registered rows, values and leader-only metrics.
import { expect, it } from "vitest";
import { createPrometheusMetrics } from "../../../shared/base/prometheus/registry.ts";
import { METRICS, type MetricRow } from "../../../shared/base/metrics/metric-table.ts";

const told = async (metrics: ReturnType<typeof createPrometheusMetrics>): Promise<readonly string[]> =>
  (await metrics.text()).split("\n").filter((line) => /^(deltaloop|workqueue)_\w+(\{[^}]*\})? \d/.test(line) && !line.includes("_bucket"));

it("registers only the metrics of its process, with their types and help", async () => {
  const text = await createPrometheusMetrics("watcher").text();
  const types = [...text.matchAll(/^# TYPE (?!nodejs_|process_)(\w+) (\w+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  const rows: readonly (readonly [string, MetricRow])[] = Object.entries(METRICS);
  const mine = rows.filter(([, row]) => row.processes.includes("watcher"));
  expect(types.toSorted()).toEqual(mine.map(([name, { type }]) => `${name} ${type === "kept" ? "counter" : type}`).toSorted());
  for (const [name, { help }] of mine) expect(text).toContain(`# HELP ${name} ${help}\n`);
});

it("exposes counters, gauges and histograms of this process, and no metrics of other processes", async () => {
  const metrics = createPrometheusMetrics("functions");
  metrics.count("deltaloop_syncs_total", { controller: "replicaset", outcome: "ok" });
  metrics.count("deltaloop_syncs_total", { controller: "replicaset", outcome: "ok" }, 2);
  metrics.observe("workqueue_work_duration_seconds", { name: "replicaset" }, 0.5);
  metrics.set("deltaloop_stopped", { controller: "replicaset" }, 1);
  expect(await told(metrics)).toEqual([
    'workqueue_work_duration_seconds_sum{name="replicaset"} 0.5',
    'workqueue_work_duration_seconds_count{name="replicaset"} 1',
    'deltaloop_syncs_total{controller="replicaset",outcome="ok"} 3',
    "deltaloop_sweeper_rings_total 0",
    "deltaloop_unproven 0",
    "deltaloop_unhealthy_clusters 0",
  ]);
});

it("drops leader-only metrics after a loss of leadership", async () => {
  const metrics = createPrometheusMetrics("watcher");
  metrics.set("deltaloop_gate_open", { controller: "replicaset" }, 1);
  metrics.count("deltaloop_terms_total", { end: "raise" });
  metrics.forgetLeading();
  expect(await told(metrics)).toEqual(['deltaloop_terms_total{end="raise"} 1', "deltaloop_sweeper_rings_total 0"]);
});
