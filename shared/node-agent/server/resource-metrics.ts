/**
 * Generates `/metrics/resource`, the usage of the node, its pods and containers (node-agent §15), for metrics-server and autoscalers. The
 * metric names are upstream's.
 *
 * Differs from upstream: has neither swap metrics nor `scrape_error`, which upstream hides since 1.29. A pod's usage is the sum of its
 * containers, as in upstream without a pod cgroup.
 */
import { LABELS } from "../kubelet/types/labels.ts";
import type { Cri } from "../ports/cri.ts";
import type { Container, ContainerStats } from "../ports/cri-types.ts";

/** CPU and memory usage of the whole machine. */
export interface NodeUsage {
  readonly timestampMs: number;
  /** CPU time of all processors together since boot, in seconds. */
  readonly cpuSeconds: number;
  readonly workingSetBytes: number;
}

export const RESOURCE_METRICS = {
  node_cpu_usage_seconds_total: { type: "counter", labels: [], help: "Cumulative cpu time consumed by the node in core-seconds" },
  node_memory_working_set_bytes: { type: "gauge", labels: [], help: "Current working set of the node in bytes" },
  container_start_time_seconds: {
    type: "gauge",
    labels: ["container", "pod", "namespace"],
    help: "Start time of the container since unix epoch in seconds",
  },
  container_cpu_usage_seconds_total: {
    type: "counter",
    labels: ["container", "pod", "namespace"],
    help: "Cumulative cpu time consumed by the container in core-seconds",
  },
  container_memory_working_set_bytes: {
    type: "gauge",
    labels: ["container", "pod", "namespace"],
    help: "Current working set of the container in bytes",
  },
  pod_cpu_usage_seconds_total: {
    type: "counter",
    labels: ["pod", "namespace"],
    help: "Cumulative cpu time consumed by the pod in core-seconds",
  },
  pod_memory_working_set_bytes: { type: "gauge", labels: ["pod", "namespace"], help: "Current working set of the pod in bytes" },
  resource_scrape_error: {
    type: "gauge",
    labels: [],
    help: "1 if there was an error while getting container metrics, 0 otherwise",
  },
} as const;

type Name = keyof typeof RESOURCE_METRICS;

interface Sample {
  readonly name: Name;
  readonly of: readonly string[];
  readonly value: number;
  readonly atMs?: number;
}

export const RESOURCE_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const NANOSECONDS_PER_SECOND = 1e9;

/** If the runtime or the machine returns an error, the page has only `resource_scrape_error`. */
export async function resourceMetrics(
  cri: Pick<Cri, "listContainers" | "listContainerStats">,
  usage: () => Promise<NodeUsage>,
): Promise<string> {
  try {
    const [node, containers, stats] = await Promise.all([
      usage(),
      cri.listContainers({ state: "CONTAINER_RUNNING" }),
      cri.listContainerStats(),
    ]);
    return page([...samplesOf(node, containers, stats), { name: "resource_scrape_error", of: [], value: 0 }]);
  } catch {
    return page([{ name: "resource_scrape_error", of: [], value: 1 }]);
  }
}

/** Returns the samples of the running containers in pods. */
function samplesOf(node: NodeUsage, containers: readonly Container[], stats: readonly ContainerStats[]): readonly Sample[] {
  const statsOf = new Map(stats.map((one) => [one.id, one]));
  const named = containers.flatMap((container) => {
    const { [LABELS.podName]: pod, [LABELS.podNamespace]: namespace, [LABELS.containerName]: name } = container.labels;
    if (pod === undefined || namespace === undefined || name === undefined) return [];
    return [{ container, of: [name, pod, namespace], pod: [pod, namespace], stats: statsOf.get(container.id) }];
  });
  const each = named.flatMap(({ container, of, stats: has }): readonly Sample[] => [
    { name: "container_start_time_seconds", of, value: container.createdAtMs / 1000 },
    ...cpuOf("container_cpu_usage_seconds_total", of, has === undefined ? [] : [has]),
    ...memoryOf("container_memory_working_set_bytes", of, has === undefined ? [] : [has]),
  ]);
  const pods = [...Map.groupBy(named, ({ pod }) => pod.join("/")).values()].flatMap((inPod): readonly Sample[] => {
    const of = inPod[0]?.pod ?? [];
    const known = inPod.flatMap(({ stats: has }) => has ?? []);
    return [...cpuOf("pod_cpu_usage_seconds_total", of, known), ...memoryOf("pod_memory_working_set_bytes", of, known)];
  });
  const { timestampMs: atMs, cpuSeconds, workingSetBytes } = node;
  return [
    { name: "node_cpu_usage_seconds_total", of: [], value: cpuSeconds, atMs },
    { name: "node_memory_working_set_bytes", of: [], value: workingSetBytes, atMs },
    ...each,
    ...pods,
  ];
}

function cpuOf(name: Name, of: readonly string[], stats: readonly ContainerStats[]): readonly Sample[] {
  const known = stats.flatMap(({ cpu }) => cpu ?? []);
  if (known.length === 0) return [];
  const value = known.reduce((sum, { usageCoreNanoSeconds }) => sum + usageCoreNanoSeconds, 0) / NANOSECONDS_PER_SECOND;
  return [{ name, of, value, atMs: Math.max(...known.map(({ timestampMs }) => timestampMs)) }];
}

function memoryOf(name: Name, of: readonly string[], stats: readonly ContainerStats[]): readonly Sample[] {
  const known = stats.flatMap(({ memory }) => memory ?? []);
  if (known.length === 0) return [];
  const value = known.reduce((sum, { workingSetBytes }) => sum + workingSetBytes, 0);
  return [{ name, of, value, atMs: Math.max(...known.map(({ timestampMs }) => timestampMs)) }];
}

/** Formats samples as Prometheus text, grouped by metric. Names of pods and containers need no escaping. */
function page(samples: readonly Sample[]): string {
  const names = Object.keys(RESOURCE_METRICS) as readonly Name[]; // Name is the type of the keys
  return names
    .flatMap((name) => {
      const { type, labels, help } = RESOURCE_METRICS[name];
      const ofName = samples.filter((sample) => sample.name === name);
      if (ofName.length === 0) return [];
      return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...ofName.map((sample) => line(sample, labels))];
    })
    .map((text) => `${text}\n`)
    .join("");
}

function line({ name, of, value, atMs }: Sample, labels: readonly string[]): string {
  const pairs = labels.map((label, i) => `${label}="${of[i] ?? ""}"`).join(",");
  return `${name}${pairs === "" ? "" : `{${pairs}}`} ${value}${atMs === undefined ? "" : ` ${Math.floor(atMs)}`}`;
}
