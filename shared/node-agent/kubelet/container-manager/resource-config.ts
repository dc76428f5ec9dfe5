/** Limits of pods, QoS classes and the node (node-agent §7.6.1). */
import { numericQuantity } from "@deltaloop/kube/quantity";
import { podLimits, podRequests, qosClass, wholeAmount, pageSizeName, type QosClass, type Requests } from "../types/pod-requests.ts";
import { cpuQuota, cpuShares, QUOTA_PERIOD, SHARES_MIN } from "./cpu-limits.ts";
import type { NodeResources, Reserved } from "../types/node-options.ts";
import { initContainersOf, type NodePod } from "../types/pod.ts";

/** Limits to set; absent ones stay unchanged. Source: pkg/kubelet/cm/types.go ResourceConfig. */
export interface ResourceConfig {
  /** Shares as in cgroup v1: 2 to 262144, 1024 for one CPU. */
  readonly cpuShares?: number;
  /** Microseconds per period; −1 means unlimited. */
  readonly cpuQuota?: number;
  /** The CFS period in microseconds. */
  readonly cpuPeriod?: number;
  /** −1 means unlimited. */
  readonly memoryBytes?: number;
  readonly pidsMax?: number;
  /** CPUs in the kernel's list format: `0-3,8`. */
  readonly cpus?: string;
  /** Limits by page size, in cgroup notation. Page sizes that are not listed are limited to 0. */
  readonly hugePageBytes?: Readonly<Record<string, bigint>>;
}

/** A limit that exceeds the memory of any machine. Source: qos_container_manager_linux.go setHugePagesUnbounded. */
const UNBOUNDED = 1n << 62n;
const HUGE_PAGES_PREFIX = "hugepages-";

/**
 * Returns the limits of a pod. A limit is set only if every container has one.
 *
 *     a: requests 500m, limit 1 CPU; b: requests 250m → shares 768, no quota
 *
 * Source: pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod, pod_container_manager_linux.go EnsureExists; with MemoryQoS off.
 */
export function resourceConfigForPod(pod: NodePod, { podMaxPids }: { readonly podMaxPids: number }): ResourceConfig {
  const qos = qosClass(pod);
  const [requests, limits] = [podRequests(pod), podLimits(pod)];
  const isLimited = (resource: "cpu" | "memory"): boolean => qos === "Guaranteed" || (qos === "Burstable" && everyLimit(pod, resource));
  return {
    cpuShares: qos === "BestEffort" ? SHARES_MIN : cpuShares(wholeAmount(requests, "cpu")),
    ...(isLimited("cpu") && { cpuQuota: cpuQuota(wholeAmount(limits, "cpu")), cpuPeriod: QUOTA_PERIOD }),
    ...(isLimited("memory") && { memoryBytes: wholeAmount(limits, "memory") }),
    ...(podMaxPids > 0 && { pidsMax: podMaxPids }),
    hugePageBytes: hugePagesOf(requests),
  };
}

/**
 * Returns the limits of each QoS class. The weight of Burstable is the sum of its pods' requests, that of BestEffort the minimum.
 * Guaranteed stands for `kubepods` itself, whose huge pages are unlimited. Source: qos_container_manager_linux.go UpdateCgroups,
 * setCPUCgroupConfig, setHugePagesConfig.
 */
export function qosConfigs(activePods: readonly NodePod[], machine: NodeResources): Readonly<Record<QosClass, ResourceConfig>> {
  const burstable = activePods.filter((pod) => qosClass(pod) === "Burstable");
  const cpuMilli = burstable.reduce((sum, pod) => sum + wholeAmount(podRequests(pod), "cpu"), 0);
  const hugePageBytes = Object.fromEntries((machine.hugePageSizes ?? []).map((size) => [size, UNBOUNDED]));
  return {
    Guaranteed: { hugePageBytes },
    Burstable: { cpuShares: cpuShares(cpuMilli), hugePageBytes },
    BestEffort: { cpuShares: SHARES_MIN, hugePageBytes },
  };
}

/**
 * The limits of all pods: capacity minus enforced reservations. Hard eviction thresholds are not subtracted, so that eviction acts first.
 * Source: node_container_manager_linux.go enforceNodeAllocatableCgroups, getNodeAllocatableInternalAbsolute, getCgroupConfig.
 */
export function kubepodsConfig(machine: NodeResources, { enforced }: { readonly enforced: boolean }): ResourceConfig {
  const kept = enforced ? (machine.reserved ?? {}) : {};
  const left = (capacity: number, reserved = 0): number => Math.max(0, capacity - reserved);
  return {
    memoryBytes: left(machine.memoryBytes, kept.memoryBytes),
    cpuShares: cpuShares(left(machine.cpuMilli, kept.cpuMilli)),
    ...(machine.pids !== undefined && { pidsMax: left(machine.pids, kept.pids) }),
    ...(machine.cpus !== undefined && { cpus: machine.cpus }),
    hugePageBytes: Object.fromEntries(Object.entries(machine.hugePageBytes ?? {}).map(([size, bytes]) => [size, BigInt(bytes)])),
  };
}

/** The limits of a reserved cgroup. Source: node_container_manager_linux.go enforceExistingCgroup. */
export function reservedConfig(
  { cpuMilli, memoryBytes, pids }: Reserved,
  cpus: string | undefined,
  compressibleOnly: boolean,
): ResourceConfig {
  return {
    ...(!compressibleOnly && memoryBytes !== undefined && { memoryBytes }),
    ...(cpuMilli !== undefined && { cpuShares: cpuShares(cpuMilli) }),
    ...(!compressibleOnly && pids !== undefined && { pidsMax: pids }),
    ...(cpus !== undefined && { cpus }),
    hugePageBytes: {},
  };
}

/** Limits of a terminated pod whose volumes remain. Source: cgroup_manager_linux.go ReduceCPULimits. */
export const LEAST: ResourceConfig = { cpuShares: SHARES_MIN, hugePageBytes: {} };

/** Whether every container has this limit; a limit of 0 means unset. */
function everyLimit(pod: NodePod, resource: "cpu" | "memory"): boolean {
  const limits = [...pod.spec.containers, ...initContainersOf(pod)].map(({ resources }) =>
    numericQuantity(resources?.limits?.[resource] ?? "0"),
  );
  return limits.every((limit) => limit !== undefined && limit !== "0");
}

function hugePagesOf(requests: Requests): Readonly<Record<string, bigint>> {
  return Object.fromEntries(
    [...requests.keys()]
      .filter((name) => name.startsWith(HUGE_PAGES_PREFIX))
      .map((name) => [pageSizeName(name.slice(HUGE_PAGES_PREFIX.length)), BigInt(wholeAmount(requests, name))]),
  );
}
