/** Converts requests and limits to kernel settings (node-agent §7.6). */
import type { LinuxContainerResources } from "../../ports/cri-types.ts";
import { isCriticalPod } from "../types/critical-pod.ts";
import type { NodeResources } from "../types/node-options.ts";
import { amountOf, pageSizeName, podRequests, qosClass, wholeAmount } from "../types/pod-requests.ts";
import { initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { cpuShares, cpuQuota, QUOTA_PERIOD } from "../container-manager/cpu-limits.ts";

/** Source: pkg/kubelet/qos/policy.go. */
const OOM_SCORE_GUARANTEED = -997;
const OOM_SCORE_BEST_EFFORT = 1000;
const OOM_SCORE_BURSTABLE_MIN = OOM_SCORE_BEST_EFFORT + OOM_SCORE_GUARANTEED;
const OOM_SCORE_BURSTABLE_MAX = OOM_SCORE_BEST_EFFORT - 1;

const HUGE_PAGES_PREFIX = "hugepages-";

type Quantities = Readonly<Record<string, string>>;
interface CpuAndMemory {
  /** The CPU request in millicores; if absent, the limit applies. */
  readonly cpuRequest: number | undefined;
  /** The CPU limit in millicores. */
  readonly cpuLimit: number;
  readonly memoryLimitBytes: number;
}

/**
 * Computes the limits of one container.
 *
 *     requests cpu 500m, limits cpu 1, memory 64Mi → shares 512, quota 100000 of 100000 µs, memory 67108864
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go generateLinuxContainerResources. Differs from upstream: sets no swap
 * limit. With a memory limit, containerd allows no swap by default, and nodes should have no swap.
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
 * Computes the totals of the pod, for runtimes that create a VM per pod. A container without a limit does not count. Source:
 * pkg/kubelet/kuberuntime/kuberuntime_sandbox_linux.go calculateSandboxResources.
 */
export function sandboxResources(pod: NodePod, machine: NodeResources): LinuxContainerResources {
  const requests = sumOf(pod, "requests");
  const limits = sumOf(pod, "limits");
  const cpuRequest = requests.has("cpu") ? wholeAmount(requests, "cpu") : undefined;
  return linuxResources({ cpuRequest, cpuLimit: wholeAmount(limits, "cpu"), memoryLimitBytes: wholeAmount(limits, "memory") }, machine);
}

/** Returns the overhead of the sandbox as request and limit; empty if there is none. Source: convertOverheadToLinuxResources. */
export function overheadResources({ spec: { overhead } }: NodePod, machine: NodeResources): LinuxContainerResources {
  if (overhead === undefined) return {};
  const cpu = amountOf(overhead, "cpu") ?? 0;
  return linuxResources({ cpuRequest: cpu, cpuLimit: cpu, memoryLimitBytes: amountOf(overhead, "memory") ?? 0 }, machine);
}

/**
 * The OOM score, from −1000 (never killed) to 1000 (killed first). The score of a sidecar is at most that of the regular container with
 * the lowest request.
 *
 *     Burstable, 4 GiB requested of 16 GiB → 1000 − 1000 × 4 ÷ 16 = 750
 *
 * Source: pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust.
 */
export function oomScoreAdj(pod: NodePod, container: ContainerSpec, memoryCapacityBytes: number): number {
  if (isNodeCritical(pod)) return OOM_SCORE_GUARANTEED;
  const qos = qosClass(pod);
  if (qos !== "Burstable") return qos === "Guaranteed" ? OOM_SCORE_GUARANTEED : OOM_SCORE_BEST_EFFORT;
  const own = memoryRequestOf(container);
  const counted = isSidecarOf(pod, container) ? Math.max(own, Math.min(...pod.spec.containers.map(memoryRequestOf))) : own;
  // Rounds the subtracted amount down, because upstream uses integer division.
  const score = OOM_SCORE_BEST_EFFORT - Math.trunc((1000 * counted) / memoryCapacityBytes);
  return Math.min(Math.max(score, OOM_SCORE_BURSTABLE_MIN), OOM_SCORE_BURSTABLE_MAX);
}

function linuxResources({ cpuLimit, cpuRequest, memoryLimitBytes }: CpuAndMemory, machine: NodeResources): LinuxContainerResources {
  return {
    cpuShares: cpuShares(cpuRequest ?? cpuLimit),
    cpuPeriod: QUOTA_PERIOD,
    cpuQuota: cpuQuota(cpuLimit),
    ...(memoryLimitBytes > 0 && { memoryLimitInBytes: memoryLimitBytes }),
    // If a process of the container is OOM-killed, the kernel kills all processes of the container.
    ...(machine.killsGroupOnOom === true && { unified: { "memory.oom.group": "1" } }),
  };
}

function sumOf({ spec: { overhead: _overhead, ...spec }, ...pod }: NodePod, kind: "requests" | "limits"): ReturnType<typeof podRequests> {
  const counting = (container: ContainerSpec): ContainerSpec => ({
    ...container,
    resources: { requests: container.resources?.[kind] ?? {} },
  });
  const containers = spec.containers.map(counting);
  return podRequests({ ...pod, spec: { ...spec, containers, initContainers: (spec.initContainers ?? []).map(counting) } });
}

/** An unset request defaults to the limit. */
function memoryRequestOf({ resources }: ContainerSpec): number {
  return amountOf(resources?.requests ?? {}, "memory") ?? amountOf(resources?.limits ?? {}, "memory") ?? 0;
}

function isSidecarOf(pod: NodePod, { name }: ContainerSpec): boolean {
  return initContainersOf(pod).some((container) => container.name === name && isSidecar(container));
}

/** Source: pkg/kubelet/types/pod_update.go IsNodeCriticalPod. */
function isNodeCritical(pod: NodePod): boolean {
  return isCriticalPod(pod) && pod.spec.priorityClassName === "system-node-critical";
}

/** Limits every page size of the machine; a page size without a request is limited to 0. */
function hugepageLimits(limits: Quantities, { hugePageSizes = [] }: NodeResources): NonNullable<LinuxContainerResources["hugepageLimits"]> {
  const wanted = new Map(
    Object.keys(limits)
      .filter((name) => name.startsWith(HUGE_PAGES_PREFIX))
      .map((name) => [pageSizeName(name.slice(HUGE_PAGES_PREFIX.length)), amountOf(limits, name) ?? 0]),
  );
  return hugePageSizes.map((pageSize) => ({ pageSize, limit: wanted.get(pageSize) ?? 0 }));
}
