import type { V1Taint } from "@kubernetes/client-node";
import { canonicalQuantity } from "@deltaloop/kube/quantity";
import { amountOf, DEFAULT_EVICTION, isHard, type EvictionPolicy, type Signal } from "./eviction-thresholds.ts";
import type { Wire } from "@deltaloop/kube/objects";

/** Options of a node agent; paths and ports have upstream's defaults (node-agent §0, §1). */
export interface NodeOptions {
  readonly nodeName: string;
  /** The node's addresses, primary family first; `status.hostIPs`. */
  readonly hostIps: readonly string[];
  /** Default `/var/lib/kubelet`. */
  readonly rootDir: string;
  /** Default `/var/log/pods`. */
  readonly podLogsDir: string;
  /** Default `/var/log/containers`. */
  readonly containerLogsDir: string;
  /** Parent of `kubepods`. Default `/`. */
  readonly cgroupRoot: string;
  readonly cgroupDriver: "cgroupfs" | "systemd";
  /** Port of the HTTPS server. Default 10250. */
  readonly port: number;
  readonly maxPods: number;
  /** Cluster DNS addresses; if empty, `ClusterFirst` acts as `Default`. */
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  /** The resolver configuration for pods. Default `/etc/resolv.conf`; empty for none. */
  readonly resolvConf?: string;
  readonly registration?: NodeRegistration;
  readonly imageGc: ImageGcPolicy;
  readonly imagePulls: ImagePullPolicy;
  readonly cgroups: CgroupPolicy;
  readonly eviction: EvictionPolicy;
  /** Shutdown grace periods, lowest priority first. Default: none. */
  readonly shutdown?: readonly ShutdownGracePeriod[];
}

/** Cgroup settings (node-agent §7.6.1). */
export interface CgroupPolicy {
  /** Whether there is a cgroup per pod and QoS class. Default true; false leaves cgroups to the runtime. */
  readonly perQos: boolean;
  /** Enforced limits. Default: `pods`. */
  readonly enforce: readonly NodeAllocatableEnforcement[];
  /** Reserved resources, and the cgroup on which to enforce them. */
  readonly kubeReserved: ReservedGroup;
  readonly systemReserved: ReservedGroup;
  /** Process limit per pod; −1 (default) means unlimited. */
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
  /** Disk usage that starts collection. Default 85; 100 without `maxAgeMs` disables collection. */
  readonly highThresholdPercent: number;
  /** Disk usage at which collection stops. Default 80. */
  readonly lowThresholdPercent: number;
  /** Default 2 min. */
  readonly minAgeMs: number;
  /** Age after which unused images are removed regardless of disk usage. Default: absent. */
  readonly maxAgeMs?: number;
}

/** Machine resources (§7.4, §7.6). */
export interface NodeResources {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly ephemeralStorageBytes: number;
  readonly pods: number;
  /** Huge page sizes of the kernel, as cgroups name them: `2MB`, `1GB`. Absent if there are none. */
  readonly hugePageSizes?: readonly string[];
  /** Preallocated bytes per size. */
  readonly hugePageBytes?: Readonly<Record<string, number>>;
  /** Maximum processes and threads. */
  readonly pids?: number;
  /** Online CPUs in the kernel's list format: `0-3,8`. */
  readonly cpus?: string;
  /** Sum of kube and system reservations. */
  readonly reserved?: Reserved;
  /** Whether an OOM kills all processes of a container. Cgroup v2 only. */
  readonly killsGroupOnOom?: true;
}

type Quantities = Readonly<Record<string, string>>;

/**
 * Capacity minus reservations, hard eviction thresholds and huge pages.
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

/** Returns the amounts that hard thresholds keep free. */
function keptFree({ thresholds }: Pick<EvictionPolicy, "thresholds">, signal: Signal, amount: number): number {
  const kept = thresholds.find((one) => one.signal === signal && isHard(one));
  return kept === undefined ? 0 : amountOf(kept.value, amount);
}

/** Reservations that exceed the capacity, as text. Source: node_container_manager_linux.go validateNodeAllocatable. */
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

/** Returns quantities in the form of `status.capacity` and `status.allocatable`. */
export function resourceQuantities({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods, hugePageBytes = {} }: NodeResources): Quantities {
  return {
    cpu: canonicalQuantity(`${cpuMilli}m`) ?? "0",
    // The quantity is decimal, unlike that of memory. Source: pkg/kubelet/cadvisor/util.go EphemeralStorageCapacityFromFsInfo.
    "ephemeral-storage": canonicalQuantity(`${ephemeralStorageBytes}`) ?? "0",
    ...Object.fromEntries(Object.entries(hugePageBytes).map(([size, bytes]) => [hugePagesName(size), bytesQuantity(bytes)])),
    memory: bytesQuantity(memoryBytes),
    pods: canonicalQuantity(`${pods}`) ?? "0",
  };
}

/** `2MB` → `hugepages-2Mi`. */
export function hugePagesName(pageSize: string): string {
  return `hugepages-${pageSize.replace("B", "i")}`;
}

/** Resources without capacity; each makes the node not Ready. Source: nodestatus/setters.go ReadyCondition. */
export function missingCapacity({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods }: NodeResources): readonly string[] {
  const amounts = { cpu: cpuMilli, memory: memoryBytes, pods, "ephemeral-storage": ephemeralStorageBytes };
  return Object.entries(amounts).flatMap(([resource, amount]) => (amount > 0 ? [] : [resource]));
}

/** `8388608Ki` → `8Gi`; plain bytes if not a multiple of 1 KiB. */
export function bytesQuantity(bytes: number): string {
  return (bytes % 1024 === 0 && canonicalQuantity(`${bytes / 1024}Ki`)) || String(bytes);
}

/** Image pull settings (node-agent §8). Source: pkg/kubelet/apis/config/types.go; v1beta1/defaults.go. */
export interface ImagePullPolicy {
  /** Whether only one pull runs at a time. Default true; false if several parallel pulls are configured. */
  readonly serialize: boolean;
  /** Parallel pulls, unless serialized. If absent, unlimited. */
  readonly maxParallel?: number;
  /** Pulls per second; 0 means unlimited. Default 5. */
  readonly registryQps: number;
  /** Burst of pulls. Default 10. */
  readonly registryBurst: number;
}

/** A grace period for pods from this priority up to that of the next period. */
export interface ShutdownGracePeriod {
  readonly priority: number;
  readonly seconds: number;
}

export type Taint = Wire<V1Taint>;

export interface NodeRegistration {
  readonly labels?: Readonly<Record<string, string>>;
  /** Taints, which are set only on a new Node. */
  readonly taints?: readonly Taint[];
  /** The cloud provider's machine id; only for a new Node. */
  readonly providerId?: string;
  /** Whether a cloud controller sets addresses and then removes the taint that blocks scheduling. */
  readonly externalCloudProvider?: true;
  /** Whether `--node-ip` was given. */
  readonly nodeIpGiven?: boolean;
}
