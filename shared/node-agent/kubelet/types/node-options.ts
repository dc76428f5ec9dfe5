import type { V1Taint } from "@kubernetes/client-node";
import { canonicalQuantity } from "@deltaloop/kube/quantity";
import { amountOf, DEFAULT_EVICTION, isHard, type EvictionPolicy, type Signal } from "./eviction-thresholds.ts";
import type { Wire } from "@deltaloop/kube/objects";

/** Options of a node agent. Paths and ports have upstream's defaults (node-agent §0, §1). */
export interface NodeOptions {
  readonly nodeName: string;
  /** The node's addresses, primary family first, as in `status.hostIPs`. */
  readonly hostIps: readonly string[];
  /** Default: `/var/lib/kubelet`. */
  readonly rootDir: string;
  /** Default: `/var/log/pods`. */
  readonly podLogsDir: string;
  /** Default: `/var/log/containers`. */
  readonly containerLogsDir: string;
  /** Parent cgroup of `kubepods`. Default: `/`. */
  readonly cgroupRoot: string;
  readonly cgroupDriver: "cgroupfs" | "systemd";
  /** Port of the HTTPS server. Default: 10250. */
  readonly port: number;
  readonly maxPods: number;
  /** Addresses of the cluster DNS. If empty, `ClusterFirst` behaves as `Default`. */
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  /** Path of the resolver configuration for pods. Default: `/etc/resolv.conf`; empty for none. */
  readonly resolvConf?: string;
  readonly registration?: NodeRegistration;
  readonly imageGc: ImageGcPolicy;
  readonly imagePulls: ImagePullPolicy;
  readonly cgroups: CgroupPolicy;
  readonly eviction: EvictionPolicy;
  /** Grace periods for a node shutdown, lowest priority first. Default: none. */
  readonly shutdown?: readonly ShutdownGracePeriod[];
}

/** Cgroup settings (node-agent §7.6.1). */
export interface CgroupPolicy {
  /** Whether each pod and QoS class has a cgroup. Default: true. If false, cgroups are left to the runtime. */
  readonly perQos: boolean;
  /** The levels on which limits are enforced. Default: `pods`. */
  readonly enforce: readonly NodeAllocatableEnforcement[];
  /** Reserved resources, and the cgroup on which they are enforced. */
  readonly kubeReserved: ReservedGroup;
  readonly systemReserved: ReservedGroup;
  /** Process limit per pod. −1, the default, means unlimited. */
  readonly podMaxPids: number;
}

/** Source: pkg/kubelet/types/constants.go. */
export const ENFORCEMENTS = [
  "pods",
  "system-reserved",
  "system-reserved-compressible",
  "kube-reserved",
  "kube-reserved-compressible",
] as const;
export type NodeAllocatableEnforcement = (typeof ENFORCEMENTS)[number];

/** Reserved resources. */
export interface Reserved {
  readonly cpuMilli?: number;
  readonly memoryBytes?: number;
  readonly ephemeralStorageBytes?: number;
  readonly pids?: number;
}

export interface ReservedGroup {
  readonly resources: Reserved;
  /** Absolute path, such as `/system.slice`. */
  readonly cgroup?: string;
}

/** Image garbage collection settings (node-agent §16.4). Source: pkg/kubelet/apis/config/v1beta1/defaults.go. */
export interface ImageGcPolicy {
  /** Disk usage at which collection starts. Default: 85. With 100 and without `maxAgeMs`, collection is disabled. */
  readonly highThresholdPercent: number;
  /** Disk usage at which collection stops. Default: 80. */
  readonly lowThresholdPercent: number;
  /** Minimum age of an image that is removed to free space. Default: 2 min. */
  readonly minAgeMs: number;
  /** Age above which unused images are removed, regardless of disk usage. Default: none. */
  readonly maxAgeMs?: number;
}

/** Resources of the machine (§7.4, §7.6). */
export interface NodeResources {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly ephemeralStorageBytes: number;
  readonly pods: number;
  /** Huge page sizes that the kernel supports, in cgroup notation: `2MB`, `1GB`. Absent if there are none. */
  readonly hugePageSizes?: readonly string[];
  /** Bytes of preallocated huge pages, by page size. */
  readonly hugePageBytes?: Readonly<Record<string, number>>;
  /** Maximum number of processes and threads. */
  readonly pids?: number;
  /** Online CPUs in the kernel's list format: `0-3,8`. */
  readonly cpus?: string;
  /** Sum of the kube-reserved and system-reserved resources. */
  readonly reserved?: Reserved;
  /** Whether an OOM kill ends all processes of a container. cgroup v2 only. */
  readonly killsGroupOnOom?: true;
}

type Quantities = Readonly<Record<string, string>>;

/**
 * Returns the allocatable resources: capacity minus reservations, hard eviction thresholds and huge pages.
 *
 *     memory 16Gi → 16284Mi        ephemeral-storage 61255492Ki → 56453061334
 *
 * Source: pkg/kubelet/cm/node_container_manager_linux.go GetNodeAllocatableReservation, eviction/helpers.go, nodestatus/setters.go
 * MachineInfo.
 */
export function allocatableOf(capacity: NodeResources, policy: Pick<EvictionPolicy, "thresholds"> = DEFAULT_EVICTION): NodeResources {
  const { cpuMilli, memoryBytes, ephemeralStorageBytes, hugePageBytes = {}, reserved = {} } = capacity;
  const left = (amount: number, ...kept: readonly (number | undefined)[]): number =>
    Math.max(
      0,
      kept.reduce<number>((sum, one = 0) => sum - one, amount),
    );
  return {
    ...capacity,
    cpuMilli: left(cpuMilli, reserved.cpuMilli),
    memoryBytes: left(
      memoryBytes,
      reserved.memoryBytes,
      keptFree(policy, "memory.available", memoryBytes),
      ...Object.values(hugePageBytes),
    ),
    ephemeralStorageBytes: left(
      ephemeralStorageBytes,
      reserved.ephemeralStorageBytes,
      keptFree(policy, "nodefs.available", ephemeralStorageBytes),
    ),
  };
}

/** Returns the amounts that hard eviction thresholds keep free. */
function keptFree({ thresholds }: Pick<EvictionPolicy, "thresholds">, signal: Signal, amount: number): number {
  const kept = thresholds.find((one) => one.signal === signal && isHard(one));
  return kept === undefined ? 0 : amountOf(kept.value, amount);
}

/** Returns the reservations that exceed the capacity, as text. Source: node_container_manager_linux.go validateNodeAllocatable. */
export function reservedTooMuch(capacity: NodeResources, policy: Pick<EvictionPolicy, "thresholds"> = DEFAULT_EVICTION): readonly string[] {
  const { reserved = {}, memoryBytes, ephemeralStorageBytes } = capacity;
  const amounts = [
    ["cpu", reserved.cpuMilli, capacity.cpuMilli, "m"],
    ["memory", (reserved.memoryBytes ?? 0) + keptFree(policy, "memory.available", memoryBytes), memoryBytes, ""],
    [
      "ephemeral-storage",
      reserved.ephemeralStorageBytes,
      ephemeralStorageBytes - keptFree(policy, "nodefs.available", ephemeralStorageBytes),
      "",
    ],
  ] as const;
  return amounts.flatMap(([name, kept = 0, has, unit]) => (kept > has ? [`${name}: ${kept}${unit} of ${Math.trunc(has)}${unit}`] : []));
}

/** Returns quantities as `status.capacity` and `status.allocatable` contain them. */
export function resourceQuantities({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods, hugePageBytes = {} }: NodeResources): Quantities {
  return {
    cpu: canonicalQuantity(`${cpuMilli}m`) ?? "0",
    // This quantity is decimal, whereas the quantity of memory is binary. Source: pkg/kubelet/cadvisor/util.go
    // EphemeralStorageCapacityFromFsInfo.
    "ephemeral-storage": canonicalQuantity(`${ephemeralStorageBytes}`) ?? "0",
    ...Object.fromEntries(Object.entries(hugePageBytes).map(([size, bytes]) => [hugePagesName(size), bytesQuantity(bytes)])),
    memory: bytesQuantity(memoryBytes),
    pods: canonicalQuantity(`${pods}`) ?? "0",
  };
}

/** Converts `2MB` to `hugepages-2Mi`. */
export function hugePagesName(pageSize: string): string {
  return `hugepages-${pageSize.replace("B", "i")}`;
}

/** Returns the resources without a known capacity; each of them makes the node not Ready. Source: nodestatus/setters.go ReadyCondition. */
export function missingCapacity({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods }: NodeResources): readonly string[] {
  const amounts = { cpu: cpuMilli, memory: memoryBytes, pods, "ephemeral-storage": ephemeralStorageBytes };
  return Object.entries(amounts).flatMap(([resource, amount]) => (amount > 0 ? [] : [resource]));
}

/** Formats bytes, for example `8388608Ki` as `8Gi`; plain bytes if they are not a multiple of 1 KiB. */
export function bytesQuantity(bytes: number): string {
  return (bytes % 1024 === 0 && canonicalQuantity(`${bytes / 1024}Ki`)) || String(bytes);
}

/** Image pull settings (node-agent §8). Source: pkg/kubelet/apis/config/types.go; v1beta1/defaults.go. */
export interface ImagePullPolicy {
  /** Whether only one pull runs at a time. Default: true, or false if `maxParallel` is above 1. */
  readonly serialize: boolean;
  /** Maximum number of parallel pulls if pulls are not serialized. If absent, unlimited. */
  readonly maxParallel?: number;
  /** Maximum number of pulls per second; 0 means unlimited. Default: 5. */
  readonly registryQps: number;
  /** Burst of pulls above `registryQps`. Default: 10. */
  readonly registryBurst: number;
}

/** A grace period for pods whose priority is at least this one and below that of the next period. */
export interface ShutdownGracePeriod {
  readonly priority: number;
  readonly seconds: number;
}

export type Taint = Wire<V1Taint>;

export interface NodeRegistration {
  readonly labels?: Readonly<Record<string, string>>;
  /** Taints to set on a new Node; an existing Node keeps its taints. */
  readonly taints?: readonly Taint[];
  /** Id of the machine at the cloud provider; set only on a new Node. */
  readonly providerId?: string;
  /** Whether a cloud controller manager sets the addresses and then removes the taint that blocks scheduling. */
  readonly externalCloudProvider?: true;
  /** Whether `--node-ip` is set. */
  readonly nodeIpGiven?: boolean;
}
