import type { Metrics } from "../../shared/base/metrics/metrics.ts";

/** Metrics that keep their values: `name{label=value,…}` to the sum, the last value, or all observations. */
export function countedMetrics(): Metrics & {
  readonly sums: Readonly<Record<string, number>>;
  readonly observed: Readonly<Record<string, readonly number[]>>;
} {
  const sums: Record<string, number> = {};
  const observed: Record<string, number[]> = {};
  const id = (name: string, labels: Readonly<Record<string, string>>): string =>
    `${name}{${Object.entries(labels)
      .map(([label, value]) => `${label}=${value}`)
      .join(",")}}`;
  return {
    sums,
    observed,
    count: (name, labels, by = 1) => void (sums[id(name, labels)] = (sums[id(name, labels)] ?? 0) + by),
    set: (name, labels, value) => void (sums[id(name, labels)] = value),
    observe: (name, labels, value) => void (observed[id(name, labels)] ??= []).push(value),
  };
}
