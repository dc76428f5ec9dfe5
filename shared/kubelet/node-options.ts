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
  /** The machine has cgroups v2 only, so that the runtime takes cgroup files by name. */
  readonly unifiedCgroups?: true;
}
