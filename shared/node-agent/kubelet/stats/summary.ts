/**
 * `/stats/summary`: what the node, its pods and their containers use, in the words of upstream's Summary (node-agent §15).
 *
 * Source: kubelet pkg/apis/stats/v1alpha1/types.go; pkg/kubelet/server/stats/summary.go; pkg/kubelet/stats/cri_stats_provider.go
 * listPodStatsPartiallyFromCRI, makePodStorageStats. Differs from upstream: no figures of swap, I/O and accelerators, and none of a
 * pod's network; a pod's CPU and memory are the sum of its containers'.
 */
import type { Container, ContainerStats, FilesystemUsage, PodSandbox } from "../../ports/cri-types.ts";
import type { MachineFigures } from "../../ports/machine.ts";
import type { DiskUsage, FileSystem } from "../../ports/node-files.ts";
import type { PodUsage, PodUsages } from "../eviction/usage.ts";
import { LABELS } from "../types/labels.ts";

export interface Measured {
  readonly nodeName: string;
  readonly nowMs: number;
  readonly machine: MachineFigures;
  readonly sandboxes: readonly PodSandbox[];
  /** Those that run. */
  readonly containers: readonly Container[];
  readonly stats: readonly ContainerStats[];
  /** By the container's id, in billionths of a processor; `""` is the whole machine. */
  readonly nanoCores: ReadonlyMap<string, number>;
  /** What lies on disks; absent when only CPU and memory are asked for. */
  readonly disk?: {
    readonly usages: PodUsages;
    readonly nodeFs: FileSystem | undefined;
    readonly imageFs: { readonly usage: FilesystemUsage; readonly space: FileSystem } | undefined;
  };
}

type Figures = Readonly<Record<string, unknown>>;

export function summaryOf(measured: Measured): { readonly node: Figures; readonly pods: readonly Figures[] } {
  const statsOf = new Map(measured.stats.map((one) => [one.id, one]));
  const withStats = measured.containers.filter(({ id }) => statsOf.has(id));
  const bySandbox = Map.groupBy(withStats, ({ podSandboxId }) => podSandboxId);
  const pods = measured.sandboxes.flatMap((sandbox) => {
    const inPod = bySandbox.get(sandbox.id);
    // Other programs have containers in this runtime, too.
    if (inPod === undefined || sandbox.labels[LABELS.podUid] === undefined) return [];
    return [podFigures(sandbox, inPod, statsOf, measured)];
  });
  return { node: nodeFigures(measured), pods };
}

function nodeFigures({ nodeName, nowMs, machine, nanoCores, disk }: Measured): Figures {
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
    ...(network.length > 0 && { network: networkFigures(at, network) }),
    ...(nodeFs !== undefined && { fs: wholeDisk(nowMs, nodeFs) }),
    ...(ofImages !== undefined && { runtime: { imageFs: ofImages, containerFs: ofImages } }),
    ...(processes !== undefined && { rlimit: { time: at, maxpid: processes.max, curproc: processes.count } }),
  };
}

/** The first interface stands for the node where there is no `eth0`. Source: pkg/kubelet/stats/helper.go cadvisorInfoToNetworkStats. */
function networkFigures(at: string, network: MachineFigures["network"]): Figures {
  const main = network.find(({ name }) => name === "eth0");
  return { time: at, ...(main ?? { name: "" }), interfaces: network };
}

function podFigures(
  { metadata, createdAtMs }: PodSandbox,
  containers: readonly Container[],
  statsOf: ReadonlyMap<string, ContainerStats>,
  measured: Measured,
): Figures {
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
    containers: each.map(({ container, stats }) => containerFigures(container, stats, usage, measured)),
    ...(cpus.length > 0 && {
      cpu: {
        time: time(Math.max(...cpus.map(({ timestampMs }) => timestampMs))),
        ...nano(rates.length === cpus.length ? sum(rates) : undefined),
        usageCoreNanoSeconds: sum(cpus.map(({ usageCoreNanoSeconds }) => usageCoreNanoSeconds)),
      },
    }),
    ...(memories.length > 0 && { memory: memoryFigures(memories) }),
    ...(usage !== undefined && disk !== undefined && podDiskFigures(nowMs, usage, disk.nodeFs)),
    ...(usage?.processes !== undefined && { process_stats: { process_count: usage.processes } }),
  };
}

function containerFigures(
  { id, labels, metadata, createdAtMs }: Container,
  stats: ContainerStats | undefined,
  usage: PodUsage | undefined,
  { nanoCores, disk, nowMs }: Measured,
): Figures {
  const name = labels[LABELS.containerName] ?? metadata.name;
  const own = usage?.containers.find((one) => one.name === name);
  const space = disk?.imageFs?.space ?? disk?.nodeFs;
  return {
    name,
    startTime: time(createdAtMs),
    ...(stats?.cpu !== undefined && {
      cpu: { time: time(stats.cpu.timestampMs), ...nano(nanoCores.get(id)), usageCoreNanoSeconds: stats.cpu.usageCoreNanoSeconds },
    }),
    ...(stats?.memory !== undefined && { memory: memoryFigures([stats.memory]) }),
    ...(own?.rootfs !== undefined && space !== undefined && { rootfs: onDisk(nowMs, space, own.rootfs) }),
    ...(own?.logs !== undefined && disk?.nodeFs !== undefined && { logs: onDisk(nowMs, disk.nodeFs, own.logs) }),
  };
}

function memoryFigures(memories: readonly NonNullable<ContainerStats["memory"]>[]): Figures {
  const usages = memories.flatMap(({ usageBytes }) => usageBytes ?? []);
  return {
    time: time(Math.max(...memories.map(({ timestampMs }) => timestampMs))),
    ...(usages.length === memories.length && { usageBytes: sum(usages) }),
    workingSetBytes: sum(memories.map(({ workingSetBytes }) => workingSetBytes)),
  };
}

function podDiskFigures(nowMs: number, usage: PodUsage, nodeFs: FileSystem | undefined): Figures {
  if (nodeFs === undefined) return {};
  const volumes = [...usage.volumes].map(([name, used]) => ({ ...onDisk(nowMs, nodeFs, used), name }));
  const inodesUsed = sum(usage.containers.flatMap(({ rootfs, logs }) => [rootfs?.inodesUsed ?? 0, logs?.inodesUsed ?? 0]));
  return {
    ...(volumes.length > 0 && { volume: volumes }),
    "ephemeral-storage": onDisk(nowMs, nodeFs, { usedBytes: usage.ephemeralBytes, inodesUsed }),
  };
}

function onDisk(nowMs: number, space: FileSystem, { usedBytes, inodesUsed }: DiskUsage): Figures {
  return { ...spaceFigures(nowMs, space), usedBytes, inodesUsed };
}

function wholeDisk(nowMs: number, space: FileSystem): Figures {
  const usedBytes = space.capacityBytes - (space.freeBytes ?? space.availableBytes);
  return { ...spaceFigures(nowMs, space), usedBytes, inodesUsed: space.inodes - space.inodesFree };
}

function spaceFigures(nowMs: number, { availableBytes, capacityBytes, inodesFree, inodes }: FileSystem): Figures {
  return { time: time(nowMs), availableBytes, capacityBytes, inodesFree, inodes };
}

function nano(nanoCores: number | undefined): Figures {
  return nanoCores === undefined ? {} : { usageNanoCores: nanoCores };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** As metav1.Time is written: whole seconds. */
function time(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
