/**
 * Metrics for monitoring. No decision depends on them.
 *
 * ME1 no call throws or waits, so monitoring never delays the caller.
 * ME2 names and labels, and the processes that may count them, are defined in metric-table.ts; the compiler checks them.
 *
 * Absent when metrics are off: `ports.metrics?.count(…)`.
 */
import type { OwnName } from "../own-name.ts";
import type { METRICS, MetricName } from "./metric-table.ts";

type Table = typeof METRICS;
type Named<T extends string> = { [N in MetricName]: Table[N]["type"] extends T ? N : never }[MetricName];

/** A value for each label of the metric; if metric-table.ts lists the values of a label, the value is one of these. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in keyof Table[N]["labels"]]: Table[N]["labels"][L] extends readonly (infer V extends string)[] ? V | OwnLabel : string;
};

/** Label value of a user controller or its view. The registry limits the number of values. */
type OwnLabel = OwnName | `${string}~${string}~${string}`;

export interface Metrics {
  count<N extends Named<"counter">>(name: N, labels: LabelsOf<N>, by?: number): void;
  /** Sets a gauge, or a `kept` counter to the sum in the Store, which decreases only if the Store has lost the counter. */
  set<N extends Named<"gauge" | "kept">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** `value` is in the unit of the metric's name: seconds, not milliseconds. */
  observe<N extends Named<"histogram">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** Publishes the counts at the end of an invocation if no server exposes them. */
  flush?(): void;
}
