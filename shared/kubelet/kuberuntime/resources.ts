/** Requests and limits as the kernel takes them (node-agent §7.6). */
import { parseQuantity, quantityNanos } from "../../api/quantity.ts";
import type { LinuxContainerResources } from "../../ports/cri-types.ts";
import { isMirrorPod, isStaticPod } from "../labels.ts";
import type { NodeResources } from "../node-options.ts";
import { podRequests, qosClass, wholeAmount } from "../config/pod-requests.ts";
import { initContainersOf, isSidecar } from "../pod.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";

/** The kernel's limits of `cpu.shares`. */
const SHARES_MIN = 2;
const SHARES_MAX = 262_144;
const SHARES_PER_CPU = 1024;
const MILLI_PER_CPU = 1000;
/** Microseconds. */
export const QUOTA_PERIOD = 100_000;
/** Microseconds; the kernel takes no less. */
const QUOTA_MIN = 1000;

/** Source: pkg/kubelet/qos/policy.go. */
const OOM_SCORE_GUARANTEED = -997;
const OOM_SCORE_BEST_EFFORT = 1000;
const OOM_SCORE_BURSTABLE_MIN = OOM_SCORE_BEST_EFFORT + OOM_SCORE_GUARANTEED;
const OOM_SCORE_BURSTABLE_MAX = OOM_SCORE_BEST_EFFORT - 1;
/** From here on a priority is the system's own. Source: pkg/apis/scheduling/types.go SystemCriticalPriority. */
const SYSTEM_CRITICAL_PRIORITY = 2_000_000_000;

const HUGE_PAGES_PREFIX = "hugepages-";
/** Each 1024 of the one before. */
const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"] as const;

type Quantities = Readonly<Record<string, string>>;
interface CpuAndMemory {
  /** Milli-CPUs; absent: whatever the limit is. */
  readonly cpuRequest: number | undefined;
  /** Milli-CPUs. */
  readonly cpuLimit: number;
  readonly memoryLimitBytes: number;
}

/**
 * What one container may use.
 *
 *     requests cpu 500m, limits cpu 1, memory 64Mi → shares 512, quota 100000 of 100000 µs, memory 67108864
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go generateLinuxContainerResources.
 * Differs from upstream: nothing is said of swap. containerd allows none where there is a memory limit, and a node of ours is
 * expected to have none.
 */
export function containerResources(pod: NodePod, container: ContainerSpec, machine: NodeResources): LinuxContainerResources {
  const { limits = {}, requests = {} } = container.resources ?? {};
  const given = {
    cpuRequest: amountOf(requests, "cpu"),
    cpuLimit: amountOf(limits, "cpu") ?? 0,
    memoryLimitBytes: amountOf(limits, "memory") ?? 0,
  };
  return {
    ...linuxResources(given, machine),
    oomScoreAdj: oomScoreAdj(pod, container, machine.memoryBytes),
    hugepageLimits: hugepageLimits(limits, machine),
  };
}

/**
 * What the containers of a pod may use together, for runtimes that make a machine for it. A limit counts for those that have one.
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_sandbox_linux.go calculateSandboxResources.
 */
export function sandboxResources(pod: NodePod, machine: NodeResources): LinuxContainerResources {
  const requests = sumOf(pod, "requests");
  const limits = sumOf(pod, "limits");
  const cpuRequest = requests.has("cpu") ? wholeAmount(requests, "cpu") : undefined;
  return linuxResources({ cpuRequest, cpuLimit: wholeAmount(limits, "cpu"), memoryLimitBytes: wholeAmount(limits, "memory") }, machine);
}

/** What the sandbox itself needs, as request and limit; empty if nothing. Source: convertOverheadToLinuxResources. */
export function overheadResources({ spec: { overhead } }: NodePod, machine: NodeResources): LinuxContainerResources {
  if (overhead === undefined) return {};
  const cpu = amountOf(overhead, "cpu") ?? 0;
  return linuxResources({ cpuRequest: cpu, cpuLimit: cpu, memoryLimitBytes: amountOf(overhead, "memory") ?? 0 }, machine);
}

/**
 * Milli-CPUs as the kernel's relative weight.
 *
 *     0 → 2        10m → 10        500m → 512        1 → 1024        300 → 262144
 *
 * Source: pkg/kubelet/cm/helpers_linux.go MilliCPUToShares.
 */
export function cpuShares(milliCpu: number): number {
  return Math.min(Math.max(Math.trunc((milliCpu * SHARES_PER_CPU) / MILLI_PER_CPU), SHARES_MIN), SHARES_MAX);
}

/**
 * Milli-CPUs as microseconds in each period of 100 ms; 0 is no limit.
 *
 *     0 → 0        1m → 1000 (the least)        500m → 50000        300 → 30000000
 *
 * Source: pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota.
 */
export function cpuQuota(milliCpu: number): number {
  return milliCpu === 0 ? 0 : Math.max(Math.trunc((milliCpu * QUOTA_PERIOD) / MILLI_PER_CPU), QUOTA_MIN);
}

/**
 * How readily the kernel kills the container when memory runs out: −1000 never, 1000 first. Among Burstable ones, who asked for
 * more is safer; a sidecar is at least as safe as the regular container that asked for least.
 *
 *     Burstable, 4 GiB asked for of 16 GiB → 1000 − 1000 × 4 ÷ 16 = 750
 *
 * Source: pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust.
 */
export function oomScoreAdj(pod: NodePod, container: ContainerSpec, memoryCapacityBytes: number): number {
  if (isNodeCritical(pod)) return OOM_SCORE_GUARANTEED;
  const qos = qosClass(pod);
  if (qos !== "Burstable") return qos === "Guaranteed" ? OOM_SCORE_GUARANTEED : OOM_SCORE_BEST_EFFORT;
  const own = memoryRequestOf(container);
  const counted = isSidecarOf(pod, container) ? Math.max(own, Math.min(...pod.spec.containers.map(memoryRequestOf))) : own;
  // Upstream divides whole numbers: what is subtracted is rounded down.
  const score = OOM_SCORE_BEST_EFFORT - Math.trunc((1000 * counted) / memoryCapacityBytes);
  return Math.min(Math.max(score, OOM_SCORE_BURSTABLE_MIN), OOM_SCORE_BURSTABLE_MAX);
}

function linuxResources({ cpuLimit, cpuRequest, memoryLimitBytes }: CpuAndMemory, machine: NodeResources): LinuxContainerResources {
  return {
    cpuShares: cpuShares(cpuRequest ?? cpuLimit),
    cpuPeriod: QUOTA_PERIOD,
    cpuQuota: cpuQuota(cpuLimit),
    ...(memoryLimitBytes > 0 && { memoryLimitInBytes: memoryLimitBytes }),
    // A process of its own is of little use when the one beside it was killed: all of a container go together.
    ...(machine.killsGroupOnOom === true && { unified: { "memory.oom.group": "1" } }),
  };
}

/** Undefined: it is not there. CPUs in thousandths, the rest in whole units, both rounded up. */
export function amountOf(quantities: Quantities, name: string): number | undefined {
  const quantity = parseQuantity(quantities[name] ?? "");
  return quantity === undefined ? undefined : wholeAmount(new Map([[name, quantityNanos(quantity)]]), name);
}

function sumOf({ spec: { overhead: _overhead, ...spec }, ...pod }: NodePod, kind: "requests" | "limits"): ReturnType<typeof podRequests> {
  const counting = (container: ContainerSpec): ContainerSpec => ({
    ...container,
    resources: { requests: container.resources?.[kind] ?? {} },
  });
  const containers = spec.containers.map(counting);
  return podRequests({ ...pod, spec: { ...spec, containers, initContainers: (spec.initContainers ?? []).map(counting) } });
}

/** An unset request is the limit. */
function memoryRequestOf({ resources }: ContainerSpec): number {
  return amountOf(resources?.requests ?? {}, "memory") ?? amountOf(resources?.limits ?? {}, "memory") ?? 0;
}

function isSidecarOf(pod: NodePod, { name }: ContainerSpec): boolean {
  return initContainersOf(pod).some((container) => container.name === name && isSidecar(container));
}

/** Source: pkg/kubelet/types/pod_update.go IsNodeCriticalPod. */
function isNodeCritical(pod: NodePod): boolean {
  const isCritical = isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= SYSTEM_CRITICAL_PRIORITY;
  return isCritical && pod.spec.priorityClassName === "system-node-critical";
}

/** Every size that the machine has is limited: to nothing, unless the container asks for it. */
function hugepageLimits(limits: Quantities, { hugePageSizes = [] }: NodeResources): NonNullable<LinuxContainerResources["hugepageLimits"]> {
  const wanted = new Map(
    Object.keys(limits)
      .filter((name) => name.startsWith(HUGE_PAGES_PREFIX))
      .map((name) => [pageSizeName(name.slice(HUGE_PAGES_PREFIX.length)), amountOf(limits, name) ?? 0]),
  );
  return hugePageSizes.map((pageSize) => ({ pageSize, limit: wanted.get(pageSize) ?? 0 }));
}

/** `2Mi` → `2MB`, as cgroups name it. Source: pkg/apis/core/v1/helper/helpers.go HugePageUnitSizeFromByteSize. */
export function pageSizeName(quantity: string): string {
  const bytes = amountOf({ size: quantity }, "size") ?? 0;
  const power = BYTE_UNITS.findLastIndex((_unit, index) => bytes >= 1024 ** index && bytes % 1024 ** index === 0);
  return `${bytes / 1024 ** Math.max(power, 0)}${BYTE_UNITS[Math.max(power, 0)]}`;
}
