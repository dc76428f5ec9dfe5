/**
 * How much each cluster used the functions of this process in the last minute. At most CLUSTERS_MAX clusters have series of their own: those
 * with the most invocations. The others are added up, so that the number of series does not grow with the clusters.
 */
import type { Clock } from "@deltaloop/base";
import type { PrometheusMetrics } from "@deltaloop/base/prometheus";
import type { LoadKind } from "@deltaloop/controllers/clusters";

export interface ClusterLoad {
  count(cluster: string, kind: LoadKind, by: number): void;
  /** Removes a cluster that is no longer served. */
  forget(cluster: string): void;
  /** Sets the metrics, at each scrape. */
  tell(metrics: Pick<PrometheusMetrics, "set" | "reset">): void;
}

export const CLUSTERS_MAX = 20;
/** The label value of all other clusters. A cluster's name has no parentheses. */
const REST = "(rest)";
const [SLOT_MS, SLOTS] = [10_000, 6];
const KINDS: readonly LoadKind[] = ["invocations", "failures", "postponed"];

type Counts = Record<LoadKind, number>;

export function createClusterLoad(clock: Pick<Clock, "now">): ClusterLoad {
  /** Counts of each cluster by the number of their slot of time. */
  const clusters = new Map<string, Map<number, Counts>>();

  function recent(slots: ReadonlyMap<number, Counts>): Counts {
    const from = Math.floor(clock.now() / SLOT_MS) - SLOTS;
    return add([...slots].flatMap(([slot, counts]) => (slot > from ? [counts] : [])));
  }

  return {
    count(cluster, kind, by) {
      const slot = Math.floor(clock.now() / SLOT_MS);
      const slots = clusters.get(cluster) ?? new Map<number, Counts>();
      clusters.set(cluster, slots);
      for (const old of slots.keys()) if (old <= slot - SLOTS) slots.delete(old);
      const counts = slots.get(slot) ?? add([]);
      counts[kind] += by;
      slots.set(slot, counts);
    },
    forget: (cluster) => void clusters.delete(cluster),
    tell(metrics) {
      metrics.reset("deltaloop_cluster_load");
      const sorted = [...clusters]
        .map(([cluster, slots]) => [cluster, recent(slots)] as const)
        .filter(([, counts]) => KINDS.some((kind) => counts[kind] > 0))
        .toSorted(([, a], [, b]) => b.invocations + b.postponed - (a.invocations + a.postponed));
      const rest = sorted.slice(CLUSTERS_MAX).map(([, counts]) => counts);
      for (const [cluster, counts] of [...sorted.slice(0, CLUSTERS_MAX), [REST, add(rest)] as const])
        for (const kind of KINDS) metrics.set("deltaloop_cluster_load", { cluster, kind }, counts[kind]);
    },
  };
}

function add(all: readonly Counts[]): Counts {
  const sum: Counts = { invocations: 0, failures: 0, postponed: 0 };
  for (const counts of all) for (const kind of KINDS) sum[kind] += counts[kind];
  return sum;
}
