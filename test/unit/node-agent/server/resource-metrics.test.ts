// Would catch: metrics of the wrong container, pod or unit, metrics of containers that do not run, and a failed runtime call that yields
// empty metrics.
import { expect, it } from "vitest";

import { machineUsage, processesOf } from "../../../../shared/node-agent/system/node-usage.ts";
import { resourceMetrics } from "../../../../shared/node-agent/server/resource-metrics.ts";
import type { Container, ContainerStats } from "../../../../shared/node-agent/ports/cri-types.ts";

const NODE = { timestampMs: 1_700_000_000_500, cpuSeconds: 12.5, workingSetBytes: 4_096 };
const labelsOf = (name: string, pod: string) => ({
  "io.kubernetes.container.name": name,
  "io.kubernetes.pod.name": pod,
  "io.kubernetes.pod.namespace": "shop",
  "io.kubernetes.pod.uid": pod,
});
const container = (id: string, labels: Readonly<Record<string, string>>): Container => ({
  id,
  podSandboxId: "s",
  metadata: { name: "c", attempt: 0 },
  image: "",
  imageRef: "",
  state: "CONTAINER_RUNNING",
  createdAtMs: 1_700_000_000_250,
  labels,
  annotations: {},
});
const stats = (id: string, seconds: number, bytes: number, timestampMs: number): ContainerStats => ({
  id,
  metadata: { name: "c", attempt: 0 },
  labels: {},
  cpu: { timestampMs, usageCoreNanoSeconds: seconds * 1e9 },
  memory: { timestampMs, workingSetBytes: bytes },
});

it("[node-agent §15] exposes metrics of node, containers and pods as upstream does; a pod's values are sums", async () => {
  const containers = [container("1", labelsOf("main", "web")), container("2", labelsOf("side", "web")), container("4", {})];
  const cri = {
    listContainers: async () => containers,
    listContainerStats: async () => [stats("1", 1.5, 1_000, 7_000), stats("2", 2, 24, 9_000), stats("3", 9, 9, 9), stats("4", 9, 9, 9)],
  };
  const lines = (await resourceMetrics(cri, async () => NODE)).split("\n").filter((line) => !line.startsWith("#"));
  expect(lines).toEqual([
    "node_cpu_usage_seconds_total 12.5 1700000000500",
    "node_memory_working_set_bytes 4096 1700000000500",
    'container_start_time_seconds{container="main",pod="web",namespace="shop"} 1700000000.25',
    'container_start_time_seconds{container="side",pod="web",namespace="shop"} 1700000000.25',
    'container_cpu_usage_seconds_total{container="main",pod="web",namespace="shop"} 1.5 7000',
    'container_cpu_usage_seconds_total{container="side",pod="web",namespace="shop"} 2 9000',
    'container_memory_working_set_bytes{container="main",pod="web",namespace="shop"} 1000 7000',
    'container_memory_working_set_bytes{container="side",pod="web",namespace="shop"} 24 9000',
    'pod_cpu_usage_seconds_total{pod="web",namespace="shop"} 3.5 9000',
    'pod_memory_working_set_bytes{pod="web",namespace="shop"} 1024 9000',
    "resource_scrape_error 0",
    "",
  ]);
});

it("[node-agent §15] exposes only the scrape error if the runtime does not respond", async () => {
  const cri = { listContainers: async () => [], listContainerStats: () => Promise.reject(new Error("away")) };
  expect((await resourceMetrics(cri, async () => NODE)).split("\n").filter((line) => !line.startsWith("#"))).toEqual([
    "resource_scrape_error 1",
    "",
  ]);
});

it("parses the kernel's statistics", () => {
  const stat = "cpu  100 20 30 9999 9999 4 6 0 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
  const meminfo = "MemTotal:       1000 kB\nMemFree:         300 kB\nInactive:        250 kB\nInactive(file):  200 kB\n";
  expect(machineUsage(stat, meminfo)).toEqual({ cpuSeconds: 1.6, memoryBytes: expect.any(Number) as number, workingSetBytes: 500 * 1024 });
});

it.each([
  { loadavg: "1.36 3.49 4.53 2/3518 3715089\n", limits: ["32768\n", "20000\n"], want: { processes: { count: 3518, max: 20_000 } } },
  { loadavg: "1.36 3.49 4.53 2/3518 3715089\n", limits: ["", "20000\n"], want: { processes: { count: 3518, max: 20_000 } } },
  { loadavg: "", limits: ["1\n"], want: {} },
  { loadavg: "0 0 0 1/2 3\n", limits: [""], want: {} },
])("[node-agent 227] reads the number of processes from $loadavg, and the maximum from $limits", ({ loadavg, limits, want }) => {
  expect(processesOf(loadavg, limits)).toEqual(want);
});
