/** Resource usage of pods for eviction (node-agent §14.5). */
import type { DiskUsage } from "../../ports/node-files.ts";
import type { NodePod, VolumeSpec } from "../types/pod.ts";

export interface ContainerUsage {
  readonly name: string;
  readonly memoryBytes?: number;
  /** Usage of the writable layer. */
  readonly rootfs?: DiskUsage;
  readonly logs?: DiskUsage;
}

export interface PodUsage {
  /** Usage of running containers. */
  readonly containers: readonly ContainerUsage[];
  readonly memoryBytes?: number;
  readonly processes?: number;
  /** Keyed by volume name. */
  readonly volumes: ReadonlyMap<string, DiskUsage>;
  /** Sum of writable layers, logs, local volumes and the hosts file. */
  readonly ephemeralBytes: number;
}

/** Keyed by UID; pods without measurements are absent. */
export type PodUsages = ReadonlyMap<string, PodUsage>;

/** Whether the volume is on the node's disk and deleted with the pod. Source: pkg/volume/util/util.go IsLocalEphemeralVolume. */
export function isLocalEphemeral({ emptyDir, configMap, gitRepo }: VolumeSpec): boolean {
  return Boolean(gitRepo) || Boolean(configMap) || (Boolean(emptyDir) && (emptyDir?.medium ?? "") === "");
}

/** Whether the volume can cause an eviction, through the node's usage or its own limit. */
export function countsForEviction(volume: VolumeSpec): boolean {
  return volume.emptyDir !== undefined || isLocalEphemeral(volume);
}

/** Parts of a pod's disk usage. */
export type MeasuredPart = "rootfs" | "logs" | "localVolumes";

/** The disk usage of the given parts. Source: helpers.go podDiskUsage, localVolumeNames. */
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
