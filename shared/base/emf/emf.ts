/**
 * Metrics of a function in CloudWatch's embedded metric format. CloudWatch reads them from the function's log, to which each invocation
 * writes one line per set of labels when it ends.
 *
 * CW1 a line has at most 100 metrics with 100 values each, which are CloudWatch's limits; more values go to further lines.
 * CW2 `flush` clears what it has written, so no value is reported twice.
 *
 * Source: AWS CloudWatch, Embedded metric format specification.
 */
import { METRICS } from "../metrics/metric-table.ts";
import type { MetricName, MetricRow } from "../metrics/metric-table.ts";
import type { Metrics } from "../metrics/metrics.ts";

export interface EmfOptions {
  readonly namespace: string;
  /** Dimensions of every metric: the function's name. */
  readonly dimensions: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly write: (line: string) => void;
  /** The metrics that are written; absent: all. */
  readonly only?: readonly MetricName[];
}

const VALUES_MAX = 100;
const METRICS_MAX = 100;
const UNITS = { count: "Count", seconds: "Seconds", ratio: "None", version: "None", state: "None" } as const;

interface Group {
  readonly labels: Readonly<Record<string, string>>;
  readonly values: Map<MetricName, number[]>;
}

export function createEmfMetrics({ namespace, dimensions, now, write, only }: EmfOptions): Metrics {
  const groups = new Map<string, Group>();
  const valuesOf = (name: MetricName, labels: Readonly<Record<string, string>>): number[] => {
    if (only !== undefined && !only.includes(name)) return [];
    const id = JSON.stringify(labels);
    const group = groups.get(id) ?? { labels, values: new Map<MetricName, number[]>() };
    groups.set(id, group);
    const values = group.values.get(name) ?? [];
    group.values.set(name, values);
    return values;
  };
  return {
    count(name, labels, by = 1) {
      const values = valuesOf(name, labels);
      values[0] = (values[0] ?? 0) + by;
    },
    set(name, labels, value) {
      valuesOf(name, labels)[0] = value;
    },
    observe(name, labels, value) {
      valuesOf(name, labels).push(value);
    },
    flush() {
      for (const { labels, values } of groups.values()) for (const line of linesOf({ ...dimensions, ...labels }, values)) write(line);
      groups.clear();
    },
  };

  function* linesOf(allDimensions: Readonly<Record<string, string>>, values: ReadonlyMap<MetricName, readonly number[]>): Iterable<string> {
    for (let rest = [...values]; rest.length > 0;) {
      const now_ = rest.slice(0, METRICS_MAX);
      yield JSON.stringify({
        _aws: {
          Timestamp: now(),
          CloudWatchMetrics: [
            {
              Namespace: namespace,
              Dimensions: [Object.keys(allDimensions)],
              Metrics: now_.map(([name]) => ({ Name: name, Unit: UNITS[(METRICS[name] satisfies MetricRow).unit] })),
            },
          ],
        },
        ...allDimensions,
        ...Object.fromEntries(now_.map(([name, list]) => [name, list.length === 1 ? list[0] : list.slice(0, VALUES_MAX)])),
      });
      rest = [
        ...now_.flatMap(([name, list]) => (list.length > VALUES_MAX ? [[name, list.slice(VALUES_MAX)] as [MetricName, number[]]] : [])),
        ...rest.slice(METRICS_MAX),
      ];
    }
  }
}
