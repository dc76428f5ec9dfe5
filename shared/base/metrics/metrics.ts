/**
 * Metrics for monitoring from outside. No decision ever depends on them.
 *
 * ME1 no call throws, waits or fails: who counts is never held up by who looks.
 * ME2 names, labels and where they may be counted are those of metric-table.ts; the compiler checks them.
 *
 * Absent when metrics are off: `ports.metrics?.count(…)`.
 */
import type { METRICS, MetricName } from "./metric-table.ts";

type Table = typeof METRICS;
type Named<T extends string> = { [N in MetricName]: Table[N]["type"] extends T ? N : never }[MetricName];

/** One value for each label of the row; of the listed ones, where they are listed. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in keyof Table[N]["labels"]]: Table[N]["labels"][L] extends readonly (infer V extends string)[] ? V : string;
};

export interface Metrics {
  count<N extends Named<"counter">>(name: N, labels: LabelsOf<N>, by?: number): void;
  /** Of `kept` counters: the sum as it is kept, which only falls when who keeps it has lost it. */
  set<N extends Named<"gauge" | "kept">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** In the row's unit: seconds, not milliseconds. */
  observe<N extends Named<"histogram">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** Publishes the counts at the end of an invocation where no server exposes them. */
  flush?(): void;
}
