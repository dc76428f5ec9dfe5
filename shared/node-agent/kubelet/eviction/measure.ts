/** Measurements of the node and its pods for eviction (node-agent §14.5). */
import { LABELS } from "../types/labels.ts";
import { podLogDirectory } from "../types/log-paths.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";
import type { Observations } from "./pressure.ts";
import type { Observation, Disks, Signal } from "../types/eviction-thresholds.ts";
import { isLocalEphemeral, sumOf, type ContainerUsage, type PodUsage, type PodUsages } from "./usage.ts";
import type { ContainerStats } from "../../ports/cri-types.ts";
import { describeError } from "@deltaloop/kube/client";
import type { FileSystem, PodDiskUsage } from "../../ports/node-files.ts";

export type MeasurePodsPorts = Pick<NodePorts, "cri" | "files" | "log" | "containerManager" | "volumes">;

/**
 * Measures the node's eviction signals. Omits signals that cannot be measured. `allocatableMemory.available` requires a limit on the
 * pods' cgroup. Source: pkg/kubelet/eviction/helpers.go makeSignalObservations; pkg/kubelet/stats/provider.go HasDedicatedImageFs.
 * Differs from upstream: never assumes a split image filesystem, which containerd does not support.
 */
export async function measureNode({
  machine,
  cri,
  files,
  options,
  containerManager,
}: Pick<NodePorts, "cri" | "files" | "machine" | "containerManager" | "options">): Promise<{
  readonly observations: Observations;
  readonly disks: Disks;
}> {
  const [usage, [imageFs], nodeFs, ofPods] = await Promise.all([
    machine.usage(),
    cri.imageFsInfo(),
    files.diskSpace(options.rootDir),
    containerManager.memory(),
  ]);
  const ofImages = imageFs && (await files.diskSpace(imageFs.mountpoint));
  const hasImageFs = ofImages !== undefined && nodeFs !== undefined && ofImages.device !== nodeFs.device;
  const { memoryBytes, workingSetBytes, processes } = usage;
  const seen: readonly (readonly [Signal, Observation])[] = [
    ["memory.available", { available: memoryBytes - workingSetBytes, capacity: memoryBytes }],
    ...(ofPods === undefined ? [] : [["allocatableMemory.available", ofPods] as const]),
    ...ofDisk("nodefs", nodeFs),
    ...ofDisk("imagefs", ofImages, imageFs?.timestampMs),
    ...(hasImageFs ? ofDisk("containerfs", ofImages, imageFs?.timestampMs) : ofDisk("containerfs", nodeFs)),
    ...(processes === undefined
      ? []
      : [["pid.available", { available: processes.max - processes.count, capacity: processes.max }] as const]),
  ];
  return { observations: new Map(seen), disks: { hasImageFs, splitsContainerFs: false } };
}

/** As in upstream, measurements of the image disk carry the runtime's timestamp (`takenMs`), although the free space is current. */
function ofDisk(
  name: "nodefs" | "imagefs" | "containerfs",
  disk: FileSystem | undefined,
  takenMs?: number,
): readonly (readonly [Signal, Observation])[] {
  if (disk === undefined) return [];
  const taken = takenMs === undefined ? {} : { takenMs };
  return [
    [`${name}.available`, { available: disk.availableBytes, capacity: disk.capacityBytes, ...taken }],
    // Some file systems allocate inodes dynamically and report 0.
    ...(disk.inodes > 0 ? [[`${name}.inodesFree`, { available: disk.inodesFree, capacity: disk.inodes, ...taken }] as const] : []),
  ];
}

/**
 * Uses the latest volume measurements (volume-measures.ts), and measures everything else now. Omits pods without a sandbox and logs that
 * cannot be measured. Source: pkg/kubelet/stats/cri_stats_provider.go.
 */
export async function measurePods(ports: MeasurePodsPorts, pods: readonly NodePod[]): Promise<PodUsages> {
  if (pods.length === 0) return new Map();
  const { cri, containerManager, files, volumes, log } = ports;
  const [stats, sandboxes, processes] = await Promise.all([cri.listContainerStats(), cri.listPodSandbox(), containerManager.processes()]);
  const begun = new Set(sandboxes.map(({ metadata }) => metadata.uid));
  const byPod = Map.groupBy(stats, ({ labels }) => labels[LABELS.podUid] ?? "");
  const measured = new Map<string, PodUsage>();
  for (const pod of pods) {
    const { uid, namespace, name } = pod.metadata;
    const running = byPod.get(uid) ?? [];
    if (running.length === 0 && !begun.has(uid)) continue;
    const count = processes.get(uid);
    const own = await files.podDiskUsage(uid, podLogDirectory(pod)).catch((error: unknown) => {
      log.warn("failed to measure the pod's logs", { pod: `${namespace}/${name}`, error: describeError(error) });
      return NOTHING;
    });
    const usage = podUsage(pod, running, { ...own, volumes: volumes.of(uid) });
    measured.set(uid, { ...usage, ...(count !== undefined && { processes: count }) });
  }
  return measured;
}

const NOTHING: PodDiskUsage = { logs: new Map(), hostsFile: { usedBytes: 0, inodesUsed: 0 } };

type OnDisk = PodDiskUsage & Pick<PodUsage, "volumes">;

function podUsage(pod: NodePod, running: readonly ContainerStats[], { volumes, logs, hostsFile }: OnDisk): PodUsage {
  const containers = running.map(({ labels, metadata, memory, writableLayer }): ContainerUsage => {
    const name = labels[LABELS.containerName] ?? metadata.name;
    const ownLogs = logs.get(name);
    return {
      name,
      ...(memory !== undefined && { memoryBytes: memory.workingSetBytes }),
      ...(writableLayer !== undefined && { rootfs: writableLayer }),
      ...(ownLogs !== undefined && { logs: ownLogs }),
    };
  });
  const memories = containers.flatMap(({ memoryBytes }) => memoryBytes ?? []);
  const local = (pod.spec.volumes ?? []).filter(isLocalEphemeral).flatMap(({ name }) => volumes.get(name) ?? []);
  const layers = containers.flatMap(({ rootfs }) => rootfs ?? []);
  return {
    containers,
    ...(memories.length > 0 && { memoryBytes: memories.reduce((sum, one) => sum + one, 0) }),
    volumes,
    ephemeralBytes: sumOf([...layers, ...logs.values(), ...local, hostsFile]).usedBytes,
  };
}
