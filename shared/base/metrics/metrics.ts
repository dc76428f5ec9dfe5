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

/** One value per label of the row, from the row's list where it has one. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in keyof Table[N]["labels"]]: Table[N]["labels"][L] extends readonly (infer V extends string)[] ? V | OwnLabel : string;
};

/** An additional controller, or a view: a registry bounds their number. */
type OwnLabel = OwnName | `${string}~${string}~${string}`;

export interface Metrics {
  count<N extends Named<"counter">>(name: N, labels: LabelsOf<N>, by?: number): void;
  /** Sets a `kept` counter to the stored sum, which falls only when the Store has lost it. */
  set<N extends Named<"gauge" | "kept">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** `value` is in the row's unit: seconds, not milliseconds. */
  observe<N extends Named<"histogram">>(name: N, labels: LabelsOf<N>, value: number): void;
  /** Publishes the counts at the end of an invocation if no server exposes them. */
  flush?(): void;
}
