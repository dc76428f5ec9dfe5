/**
 * `/stats/summary`: resource usage of the node, its pods and containers, in the format of upstream's Summary (node-agent §15). Source:
 * kubelet pkg/apis/stats/v1alpha1/types.go; pkg/kubelet/server/stats/summary.go; pkg/kubelet/stats/cri_stats_provider.go
 * listPodStatsPartiallyFromCRI, makePodStorageStats. Differs from upstream: reports no swap, I/O, accelerators or pod network; a pod's
 * CPU and memory are the sums over its containers.
 */
import type { Container, ContainerStats, FilesystemUsage, PodSandbox } from "../../ports/cri-types.ts";
import type { MachineStats } from "../../ports/machine.ts";
import type { DiskUsage, FileSystem } from "../../ports/node-files.ts";
import type { PodUsage, PodUsages } from "../eviction/usage.ts";
import { LABELS } from "../types/labels.ts";

export interface Measured {
  readonly nodeName: string;
  readonly nowMs: number;
  readonly machine: MachineStats;
  readonly sandboxes: readonly PodSandbox[];
  /** The running containers. */
  readonly containers: readonly Container[];
  readonly stats: readonly ContainerStats[];
  /** Rates in nanocores by container id; the key `""` is the machine. */
  readonly nanoCores: ReadonlyMap<string, number>;
  /** Disk usage; absent if only CPU and memory are requested. */
  readonly disk?: {
    readonly usages: PodUsages;
    readonly nodeFs: FileSystem | undefined;
    readonly imageFs: { readonly usage: FilesystemUsage; readonly space: FileSystem } | undefined;
  };
}

type Stats = Readonly<Record<string, unknown>>;

export function summaryOf(measured: Measured): { readonly node: Stats; readonly pods: readonly Stats[] } {
  const statsOf = new Map(measured.stats.map((one) => [one.id, one]));
  const withStats = measured.containers.filter(({ id }) => statsOf.has(id));
  const bySandbox = Map.groupBy(withStats, ({ podSandboxId }) => podSandboxId);
  const pods = measured.sandboxes.flatMap((sandbox) => {
    const inPod = bySandbox.get(sandbox.id);
    // The runtime may also run containers of other programs.
    if (inPod === undefined || sandbox.labels[LABELS.podUid] === undefined) return [];
    return [podStats(sandbox, inPod, statsOf, measured)];
  });
  return { node: nodeStats(measured), pods };
}

function nodeStats({ nodeName, nowMs, machine, nanoCores, disk }: Measured): Stats {
  const at = time(machine.timestampMs);
  const node = {
    nodeName,
    startTime: time(machine.bootMs),
    cpu: { time: at, ...nano(nanoCores.get("")), usageCoreNanoSeconds: Math.round(machine.cpuSeconds * 1e9) },
    memory: {
      time: at,
      availableBytes: machine.memoryBytes - machine.workingSetBytes,
      usageBytes: machine.usageBytes,
      workingSetBytes: machine.workingSetBytes,
      rssBytes: machine.rssBytes,
      pageFaults: machine.pageFaults,
      majorPageFaults: machine.majorPageFaults,
    },
  };
  if (disk === undefined) return node;
  const { nodeFs, imageFs } = disk;
  const ofImages = imageFs && onDisk(nowMs, imageFs.space, imageFs.usage);
  const { processes, network } = machine;
  return {
    ...node,
    ...(network.length > 0 && { network: networkStats(at, network) }),
    ...(nodeFs !== undefined && { fs: wholeDisk(nowMs, nodeFs) }),
    ...(ofImages !== undefined && { runtime: { imageFs: ofImages, containerFs: ofImages } }),
    ...(processes !== undefined && { rlimit: { time: at, maxpid: processes.max, curproc: processes.count } }),
  };
}

/** The main interface is `eth0`; a node without it has none. Source: pkg/kubelet/stats/helper.go cadvisorInfoToNetworkStats. */
function networkStats(at: string, network: MachineStats["network"]): Stats {
  const main = network.find(({ name }) => name === "eth0");
  return { time: at, ...(main ?? { name: "" }), interfaces: network };
}

function podStats(
  { metadata, createdAtMs }: PodSandbox,
  containers: readonly Container[],
  statsOf: ReadonlyMap<string, ContainerStats>,
  measured: Measured,
): Stats {
  const { nanoCores, disk, nowMs } = measured;
  const { uid, name, namespace } = metadata;
  const usage = disk?.usages.get(uid);
  const each = containers.map((container) => ({ container, stats: statsOf.get(container.id) }));
  const cpus = each.flatMap(({ container, stats }) =>
    stats?.cpu === undefined ? [] : [{ ...stats.cpu, nanoCores: nanoCores.get(container.id) }],
  );
  const memories = each.flatMap(({ stats }) => stats?.memory ?? []);
  const rates = cpus.flatMap((cpu) => cpu.nanoCores ?? []);
  return {
    podRef: { name, namespace, uid },
    startTime: time(createdAtMs),
    containers: each.map(({ container, stats }) => containerStats(container, stats, usage, measured)),
    ...(cpus.length > 0 && {
      cpu: {
        time: time(Math.max(...cpus.map(({ timestampMs }) => timestampMs))),
        ...nano(rates.length === cpus.length ? sum(rates) : undefined),
        usageCoreNanoSeconds: sum(cpus.map(({ usageCoreNanoSeconds }) => usageCoreNanoSeconds)),
      },
    }),
    ...(memories.length > 0 && { memory: memoryStats(memories) }),
    ...(usage !== undefined && disk !== undefined && podDiskStats(nowMs, usage, disk.nodeFs)),
    ...(usage?.processes !== undefined && { process_stats: { process_count: usage.processes } }),
  };
}

function containerStats(
  { id, labels, metadata, createdAtMs }: Container,
  stats: ContainerStats | undefined,
  usage: PodUsage | undefined,
  { nanoCores, disk, nowMs }: Measured,
): Stats {
  const name = labels[LABELS.containerName] ?? metadata.name;
  const own = usage?.containers.find((one) => one.name === name);
  const space = disk?.imageFs?.space ?? disk?.nodeFs;
  return {
    name,
    startTime: time(createdAtMs),
    ...(stats?.cpu !== undefined && {
      cpu: { time: time(stats.cpu.timestampMs), ...nano(nanoCores.get(id)), usageCoreNanoSeconds: stats.cpu.usageCoreNanoSeconds },
    }),
    ...(stats?.memory !== undefined && { memory: memoryStats([stats.memory]) }),
    ...(own?.rootfs !== undefined && space !== undefined && { rootfs: onDisk(nowMs, space, own.rootfs) }),
    ...(own?.logs !== undefined && disk?.nodeFs !== undefined && { logs: onDisk(nowMs, disk.nodeFs, own.logs) }),
  };
}

function memoryStats(memories: readonly NonNullable<ContainerStats["memory"]>[]): Stats {
  const usages = memories.flatMap(({ usageBytes }) => usageBytes ?? []);
  return {
    time: time(Math.max(...memories.map(({ timestampMs }) => timestampMs))),
    ...(usages.length === memories.length && { usageBytes: sum(usages) }),
    workingSetBytes: sum(memories.map(({ workingSetBytes }) => workingSetBytes)),
  };
}

function podDiskStats(nowMs: number, usage: PodUsage, nodeFs: FileSystem | undefined): Stats {
  if (nodeFs === undefined) return {};
  const volumes = [...usage.volumes].map(([name, used]) => ({ ...onDisk(nowMs, nodeFs, used), name }));
  const inodesUsed = sum(usage.containers.flatMap(({ rootfs, logs }) => [rootfs?.inodesUsed ?? 0, logs?.inodesUsed ?? 0]));
  return {
    ...(volumes.length > 0 && { volume: volumes }),
    "ephemeral-storage": onDisk(nowMs, nodeFs, { usedBytes: usage.ephemeralBytes, inodesUsed }),
  };
}

function onDisk(nowMs: number, space: FileSystem, { usedBytes, inodesUsed }: DiskUsage): Stats {
  return { ...spaceStats(nowMs, space), usedBytes, inodesUsed };
}

function wholeDisk(nowMs: number, space: FileSystem): Stats {
  const usedBytes = space.capacityBytes - (space.freeBytes ?? space.availableBytes);
  return { ...spaceStats(nowMs, space), usedBytes, inodesUsed: space.inodes - space.inodesFree };
}

function spaceStats(nowMs: number, { availableBytes, capacityBytes, inodesFree, inodes }: FileSystem): Stats {
  return { time: time(nowMs), availableBytes, capacityBytes, inodesFree, inodes };
}

function nano(nanoCores: number | undefined): Stats {
  return nanoCores === undefined ? {} : { usageNanoCores: nanoCores };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** Formats a time in whole seconds, as metav1.Time. */
function time(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
