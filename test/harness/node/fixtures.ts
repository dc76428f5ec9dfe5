/** The facts and the capacity of a node at the start of its agent. */
import { deepFreeze } from "../../../shared/base/freeze.ts";
import { DEFAULT_EVICTION } from "../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import { DEFAULT_IMAGE_PULLS } from "../../../shared/node-agent/kubelet/images/pull-policy.ts";
import type { MachineFacts } from "../../../shared/node-agent/kubelet/node/node-object.ts";
import type { NodeOptions, NodeResources } from "../../../shared/node-agent/kubelet/types/node-options.ts";

export const OPTIONS: NodeOptions = deepFreeze({
  nodeName: "n1",
  hostIps: ["192.168.1.5"],
  rootDir: "/var/lib/kubelet",
  podLogsDir: "/var/log/pods",
  containerLogsDir: "/var/log/containers",
  cgroupRoot: "/",
  cgroupDriver: "cgroupfs",
  port: 10250,
  maxPods: 110,
  clusterDns: ["10.1.0.10"],
  clusterDomain: "cluster.local",
  imageGc: { highThresholdPercent: 85, lowThresholdPercent: 80, minAgeMs: 120_000 },
  cgroups: { perQos: true, enforce: ["pods"], kubeReserved: { resources: {} }, systemReserved: { resources: {} }, podMaxPids: -1 },
  imagePulls: DEFAULT_IMAGE_PULLS,
  eviction: DEFAULT_EVICTION,
});

/** A machine's identity, without its capacity. */
export const FACTS = {
  hostname: "box",
  os: "linux",
  architecture: "amd64",
  kernelVersion: "6.1.0",
  osImage: "Debian GNU/Linux 12 (bookworm)",
  machineId: "m",
  systemUuid: "s",
  bootId: "b",
  runningInUserNamespace: false,
} as const satisfies Omit<MachineFacts, "resources">;

/** 4 CPUs, 8 GB. */
export const MACHINE: NodeResources = deepFreeze({ cpuMilli: 4000, memoryBytes: 8_000_000_000, ephemeralStorageBytes: 2 ** 40, pods: 110 });
