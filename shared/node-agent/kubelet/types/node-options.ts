import type { V1Taint } from "@kubernetes/client-node";
import { canonicalQuantity } from "@deltaloop/kube/quantity";
import { amountOf, DEFAULT_EVICTION, isHard } from "./eviction-thresholds.ts";
import type { EvictionPolicy, Signal } from "./eviction-thresholds.ts";
import type { Wire } from "@deltaloop/kube/objects";

/** What a node agent is told when it starts; every path and port has upstream's default and can be moved (node-agent §0, §1). */
export interface NodeOptions {
  readonly nodeName: string;
  /** The node's addresses, primary family first; what `status.hostIPs` says. */
  readonly hostIps: readonly string[];
  /** Default `/var/lib/kubelet`. */
  readonly rootDir: string;
  /** Default `/var/log/pods`. */
  readonly podLogsDir: string;
  /** Default `/var/log/containers`. */
  readonly containerLogsDir: string;
  /** Under which `kubepods` stands. Default `/`. */
  readonly cgroupRoot: string;
  readonly cgroupDriver: "cgroupfs" | "systemd";
  /** Of the agent's HTTPS server. Default 10250. */
  readonly port: number;
  readonly maxPods: number;
  /** Addresses of the cluster's DNS; without them `ClusterFirst` is `Default`. */
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  /** Where the machine's resolver is configured. Default `/etc/resolv.conf`; empty: pods get none of it. */
  readonly resolvConf?: string;
  readonly registration?: NodeRegistration;
  readonly imageGc: ImageGcPolicy;
  readonly imagePulls: ImagePullPolicy;
  readonly cgroups: CgroupPolicy;
  readonly eviction: EvictionPolicy;
  /** How long pods have when the machine is shut down, lowest priority first. Default: none, nothing waits for them. */
  readonly shutdown?: readonly ShutdownGracePeriod[];
}

/** How pods are bounded by control groups (node-agent §7.6.1). */
export interface CgroupPolicy {
  /** A group for each pod and class of pods. Default true; false leaves all to the runtime. */
  readonly perQos: boolean;
  /** What is not to be exceeded. Default: `pods`. */
  readonly enforce: readonly NodeAllocatableEnforcement[];
  /** What is kept back, and the group that holds those it is kept for; only to be enforced on it. */
  readonly kubeReserved: ReservedGroup;
  readonly systemReserved: ReservedGroup;
  /** Processes of one pod; −1, the default, is no limit. */
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

/** What pods cannot have. */
export interface Reserved {
  /** Milli-CPUs. */
  readonly cpuMilli?: number;
  readonly memoryBytes?: number;
  readonly ephemeralStorageBytes?: number;
  readonly pids?: number;
}

export interface ReservedGroup {
  readonly resources: Reserved;
  /** Absolute, as `/system.slice`. */
  readonly cgroup?: string;
}

/** When images go that nobody uses (node-agent §16.4). Source: pkg/kubelet/apis/config/v1beta1/defaults.go. */
export interface ImageGcPolicy {
  /** So full the image file system may be before any goes. Default 85; 100 without `maxAgeMs`: none ever goes. */
  readonly highThresholdPercent: number;
  /** So full it may still be afterwards. Default 80. */
  readonly lowThresholdPercent: number;
  /** Default 2 min. */
  readonly minAgeMs: number;
  /** Those that nobody used for longer go, however much room there is. Default: absent, for no such age. */
  readonly maxAgeMs?: number;
}

/** What the machine has, for requests of what is not limited, and for the OOM score (§7.4, §7.6). */
export interface NodeResources {
  /** Milli-CPUs. */
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly ephemeralStorageBytes: number;
  readonly pods: number;
  /** Sizes of the huge pages that the kernel can hand out, as cgroups name them: `2MB`, `1GB`. Absent: none. */
  readonly hugePageSizes?: readonly string[];
  /** What is set aside for each of them. */
  readonly hugePageBytes?: Readonly<Record<string, number>>;
  /** Processes and threads. */
  readonly pids?: number;
  /** Those online, as the kernel writes lists: `0-3,8`. */
  readonly cpus?: string;
  /** Kept back for kubelet and system together. */
  readonly reserved?: Reserved;
  /** When memory runs out, all of a container are to be killed at once. Only where cgroups are v2 alone: the runtime takes no others by name. */
  readonly killsGroupOnOom?: true;
}

type Quantities = Readonly<Record<string, string>>;

/**
 * Capacity less what is kept back for kubelet and system and what hard eviction keeps free; huge pages are no memory for anything else.
 *
 *     memory 16Gi → 16284Mi        ephemeral-storage 61255492Ki → 56453061334
 *
 * Source: pkg/kubelet/cm/node_container_manager_linux.go GetNodeAllocatableReservation, eviction/helpers.go, nodestatus/setters.go MachineInfo.
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

/** By a hard threshold; what a soft one names may be used. */
function keptFree({ thresholds }: Pick<EvictionPolicy, "thresholds">, signal: Signal, amount: number): number {
  const kept = thresholds.find((one) => one.signal === signal && isHard(one));
  return kept === undefined ? 0 : amountOf(kept.value, amount);
}

/**
 * Of what more is kept back than there is, in words. Source: node_container_manager_linux.go validateNodeAllocatable.
 */
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

/** As `status.capacity` and `status.allocatable` have them. */
export function resourceQuantities({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods, hugePageBytes = {} }: NodeResources): Quantities {
  return {
    cpu: canonicalQuantity(`${cpuMilli}m`) ?? "0",
    "ephemeral-storage": bytesQuantity(ephemeralStorageBytes),
    ...Object.fromEntries(Object.entries(hugePageBytes).map(([size, bytes]) => [hugePagesName(size), bytesQuantity(bytes)])),
    memory: bytesQuantity(memoryBytes),
    pods: canonicalQuantity(`${pods}`) ?? "0",
  };
}

/** `2MB` as cgroups name it, `hugepages-2Mi` as a resource. */
export function hugePagesName(pageSize: string): string {
  return `hugepages-${pageSize.replace("B", "i")}`;
}

/** Without any of these no pod can be placed: the node is not Ready. Source: nodestatus/setters.go ReadyCondition. */
export function missingCapacity({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods }: NodeResources): readonly string[] {
  const amounts = { cpu: cpuMilli, memory: memoryBytes, pods, "ephemeral-storage": ephemeralStorageBytes };
  return Object.entries(amounts).flatMap(([resource, amount]) => (amount > 0 ? [] : [resource]));
}

/** `8388608Ki` as `8Gi`; what is not whole in Ki stays a plain number. */
export function bytesQuantity(bytes: number): string {
  return (bytes % 1024 === 0 && canonicalQuantity(`${bytes / 1024}Ki`)) || String(bytes);
}

/** How a node pulls images: how many at once, and how often (node-agent §8). */

/** Source: pkg/kubelet/apis/config/types.go; v1beta1/defaults.go. */
export interface ImagePullPolicy {
  /** One after the other. Default true; false where more than one may be pulled at once. */
  readonly serialize: boolean;
  /** At once, unless they are serialised. Absent: all of them. */
  readonly maxParallel?: number;
  /** Pulls a second; 0: as many as come. Default 5. */
  readonly registryQps: number;
  /** So many at once, after quiet. Default 10. */
  readonly registryBurst: number;
}

/** Of pods with that priority or more, up to the next one. */
export interface ShutdownGracePeriod {
  readonly priority: number;
  readonly seconds: number;
}

export type Taint = Wire<V1Taint>;

export interface NodeRegistration {
  readonly labels?: Readonly<Record<string, string>>;
  /** Only of a new Node. */
  readonly taints?: readonly Taint[];
  /** As the cloud's controller knows the machine; only of a new Node. */
  readonly providerId?: string;
  /** A cloud's controller says the Node's addresses, and takes this taint away: until then nothing is scheduled here. */
  readonly externalCloudProvider?: true;
  /** Whether the node's addresses were given, or found out. */
  readonly nodeIpGiven?: boolean;
}
