export { METRICS, RUNTIME_OPERATIONS, WORK_QUEUES } from "./metrics/metric-table.ts";
export type { MetricName, MetricProcess, MetricRow } from "./metrics/metric-table.ts";
export type { LabelsOf, Metrics } from "./metrics/metrics.ts";
