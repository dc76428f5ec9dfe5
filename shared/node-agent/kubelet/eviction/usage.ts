/** What pods use of what can run short (node-agent §14.5): plain figures, wherever they come from. */
import type { DiskUsage } from "../../ports/node-files.ts";
import type { NodePod, VolumeSpec } from "../types/pod.ts";

export interface ContainerUsage {
  readonly name: string;
  readonly memoryBytes?: number;
  /** Its own layer. */
  readonly rootfs?: DiskUsage;
  readonly logs?: DiskUsage;
}

export interface PodUsage {
  /** Those that run. */
  readonly containers: readonly ContainerUsage[];
  readonly memoryBytes?: number;
  readonly processes?: number;
  /** By the name of the volume. */
  readonly volumes: ReadonlyMap<string, DiskUsage>;
  /** Containers' layers and logs, volumes of the node's disk, the hosts file. */
  readonly ephemeralBytes: number;
}

/** By UID; a pod that is not there was not measured. */
export type PodUsages = ReadonlyMap<string, PodUsage>;

/** Lives on the node's own disk and goes with the pod. Source: pkg/volume/util/util.go IsLocalEphemeralVolume. */
export function isLocalEphemeral({ emptyDir, configMap, gitRepo }: VolumeSpec): boolean {
  return Boolean(gitRepo) || Boolean(configMap) || (Boolean(emptyDir) && (emptyDir?.medium ?? "") === "");
}

/** Whether what is in it may get a pod evicted: by what all of the node's pods take, or by the volume's own limit. */
export function countsForEviction(volume: VolumeSpec): boolean {
  return volume.emptyDir !== undefined || isLocalEphemeral(volume);
}

/** What of a pod counts, by the disk that is short. `images` measures nothing of a pod; upstream names it all the same. */
export type MeasuredPart = "rootfs" | "logs" | "localVolumes";

/** Source: helpers.go podDiskUsage, localVolumeNames. */
export function podDiskUsage({ spec }: NodePod, usage: PodUsage, parts: readonly MeasuredPart[]): DiskUsage {
  const ofContainers = usage.containers.flatMap(({ rootfs, logs }) => [
    ...(parts.includes("rootfs") && rootfs !== undefined ? [rootfs] : []),
    ...(parts.includes("logs") && logs !== undefined ? [logs] : []),
  ]);
  const local = (spec.volumes ?? []).filter((volume) => volume.hostPath !== undefined || isLocalEphemeral(volume));
  const ofVolumes = parts.includes("localVolumes") ? local.flatMap(({ name }) => usage.volumes.get(name) ?? []) : [];
  return sumOf([...ofContainers, ...ofVolumes]);
}

export function sumOf(usages: readonly DiskUsage[]): DiskUsage {
  return usages.reduce((sum, one) => ({ usedBytes: sum.usedBytes + one.usedBytes, inodesUsed: sum.inodesUsed + one.inodesUsed }), {
    usedBytes: 0,
    inodesUsed: 0,
  });
}
