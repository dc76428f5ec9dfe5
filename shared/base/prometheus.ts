export { createPrometheusMetrics } from "./prometheus/registry.ts";
export type { PrometheusMetrics } from "./prometheus/registry.ts";
