/** Metrics of one process in Prometheus' exposition format. The only user of prom-client. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

import { METRICS } from "../metrics/metric-table.ts";
import type { MetricName, MetricProcess, MetricRow } from "../metrics/metric-table.ts";
import type { Metrics } from "../metrics/metrics.ts";

export interface PrometheusMetrics extends Metrics {
  readonly contentType: string;
  /** All metrics of the process in the exposition format, process_* and nodejs_* included. */
  text(): Promise<string>;
  /** Removes all series of a metric. */
  reset(name: MetricName): void;
  /** Removes the leader's metrics. */
  forgetLeading(): void;
}

/** Gauges named like counters, which promtool rejects; nodejs_active_resources has the same data by type. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Sampling interval of the event loop's delay. The default of 100 samples a second would keep an idle process busy. */
const LAG_LOOKED_AT_MS = 100;

/** Registers the metrics that `process` counts; other metrics are ignored. */
export function createPrometheusMetrics(process: MetricProcess): PrometheusMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_LOOKED_AT_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge>();
  const histograms = new Map<string, Histogram>();
  for (const [name, row] of Object.entries<MetricRow>(METRICS)) {
    if (!row.processes.includes(process)) continue;
    const options = { name, help: row.help, labelNames: Object.keys(row.labels), registers: [registry] };
    if (row.type === "histogram") histograms.set(name, new Histogram({ ...options, ...(row.buckets && { buckets: [...row.buckets] }) }));
    else if (row.type === "gauge") gauges.set(name, new Gauge(options));
    else counters.set(name, new Counter(options));
  }
  const forgetLeading = (): void => {
    const rows: Readonly<Record<string, MetricRow>> = METRICS;
    for (const [name, each] of [...gauges, ...counters]) {
      if (!rows[name]?.leader) continue;
      each.reset();
      each.remove({}); // removes the value, because a metric without labels would be exposed as 0 before it is set
    }
  };
  forgetLeading();
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    reset: (name) => gauges.get(name)?.reset(),
    forgetLeading,
    count: (name, labels, by = 1) => counters.get(name)?.inc(labels, by),
    set(name: MetricName, labels: Readonly<Record<string, string>>, value) {
      gauges.get(name)?.set(labels, value);
      const kept = counters.get(name);
      kept?.remove(labels);
      kept?.inc(labels, value);
    },
    observe: (name, labels, value) => histograms.get(name)?.observe(labels, value),
  };
}
