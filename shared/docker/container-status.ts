/**
 * Converts Docker's containers and images to CRI messages. Pure functions. Source: pkg/kubelet/dockershim convert.go, docker_container.go
 * (Kubernetes v1.23).
 */
import type Docker from "dockerode";

import type { ContainerState, ContainerStats, ContainerStatus, Image, Mount } from "@deltaloop/node-agent/ports";
import type { ContainerRecord } from "./records.ts";

/** Prefix of Docker's zero time, which means that the event has not happened. */
const NEVER = "0001-";
const PROPAGATIONS: Readonly<Record<string, Mount["propagation"]>> = {
  rslave: "PROPAGATION_HOST_TO_CONTAINER",
  slave: "PROPAGATION_HOST_TO_CONTAINER",
  rshared: "PROPAGATION_BIDIRECTIONAL",
  shared: "PROPAGATION_BIDIRECTIONAL",
};

/** Returns `undefined` for `created`, because only an inspection shows whether the start failed. */
export function listedState(state: string): ContainerState | undefined {
  if (state === "created") return undefined;
  if (state === "running" || state === "paused" || state === "restarting") return "CONTAINER_RUNNING";
  return state === "exited" || state === "dead" || state === "removing" ? "CONTAINER_EXITED" : "CONTAINER_UNKNOWN";
}

/** A failed start leaves Docker's container in state `created` with an exit code (CR5). */
export function inspectedState({ State: state }: Pick<Docker.ContainerInspectInfo, "State">): ContainerState {
  if (state.Running) return "CONTAINER_RUNNING";
  if (time(state.FinishedAt) !== undefined || state.ExitCode !== 0) return "CONTAINER_EXITED";
  return "CONTAINER_CREATED";
}

export function containerStatus(
  inspected: Docker.ContainerInspectInfo,
  kept: ContainerRecord,
  image: Docker.ImageInspectInfo | undefined,
): ContainerStatus {
  const { State: state, HostConfig: host } = inspected;
  const { metadata, labels, annotations, createdAtMs, logPath } = kept;
  const cri = inspectedState(inspected);
  const failed = cri === "CONTAINER_EXITED" && time(state.FinishedAt) === undefined;
  const startedAtMs = failed ? createdAtMs : time(state.StartedAt);
  const finishedAtMs = failed ? createdAtMs : time(state.FinishedAt);
  return {
    id: inspected.Id,
    metadata,
    image: image?.RepoTags?.[0] ?? image?.RepoDigests?.[0] ?? kept.image,
    imageRef: image?.RepoDigests?.[0] ?? inspected.Image,
    state: cri,
    createdAtMs,
    labels,
    annotations,
    ...(startedAtMs !== undefined && { startedAtMs }),
    ...(cri === "CONTAINER_EXITED" && finishedAtMs !== undefined && { finishedAtMs }),
    exitCode: cri === "CONTAINER_EXITED" ? state.ExitCode : 0,
    reason: cri === "CONTAINER_EXITED" ? reasonOf(state, failed) : "",
    message: state.Error,
    mounts: inspected.Mounts.map(mount),
    logPath,
    resources: {
      cpuPeriod: host.CpuPeriod ?? 0,
      cpuQuota: host.CpuQuota ?? 0,
      cpuShares: host.CpuShares ?? 0,
      memoryLimitInBytes: host.Memory ?? 0,
    },
  };
}

function reasonOf({ OOMKilled, ExitCode }: Docker.ContainerInspectInfo["State"], failedToStart: boolean): string {
  if (failedToStart) return "ContainerCannotRun";
  if (OOMKilled) return "OOMKilled";
  return ExitCode === 0 ? "Completed" : "Error";
}

function mount({ Source, Destination, RW, Propagation }: Docker.ContainerInspectInfo["Mounts"][number]): Mount {
  return {
    hostPath: Source,
    containerPath: Destination,
    readonly: !RW,
    propagation: PROPAGATIONS[Propagation] ?? "PROPAGATION_PRIVATE",
  };
}

/** Parses a Docker time; returns milliseconds, with the nanoseconds as a fraction. */
function time(text: string): number | undefined {
  if (text === "" || text.startsWith(NEVER)) return undefined;
  const [, seconds = "", fraction = "", zone = "Z"] = /^([^.Z+]+?)(\.\d+)?(Z|[+-]\d\d:\d\d)$/u.exec(text) ?? [];
  return Date.parse(`${seconds}${zone}`) + Number(fraction === "" ? 0 : `0${fraction}`) * 1000;
}

/**
 * CPU and memory are absent if Docker has no stats, for example for a stopped container. Source: docker CLI stats_helpers.go
 * calculateMemUsageUnixNoCache.
 */
export function containerStats(
  id: string,
  kept: ContainerRecord,
  stats: Docker.ContainerStats | undefined,
  sizeBytes: number | undefined,
): ContainerStats {
  const timestampMs = stats === undefined ? undefined : time(stats.read);
  const { metadata, labels } = kept;
  return {
    id,
    metadata,
    labels,
    ...(stats !== undefined &&
      timestampMs !== undefined && {
        cpu: { timestampMs, usageCoreNanoSeconds: stats.cpu_stats.cpu_usage.total_usage },
        ...(stats.memory_stats.usage !== undefined && { memory: { timestampMs, ...memory(stats.memory_stats) } }),
      }),
    // Docker does not count inodes.
    ...(sizeBytes !== undefined && { writableLayer: { usedBytes: sizeBytes, inodesUsed: 0 } }),
  };
}

function memory({ usage, stats }: Docker.MemoryStats): { readonly workingSetBytes: number; readonly usageBytes: number } {
  // The field is `total_inactive_file` in cgroup v1 and `inactive_file` in v2.
  const { total_inactive_file, inactive_file = 0 } = stats as { readonly total_inactive_file?: number; readonly inactive_file?: number };
  return { usageBytes: usage, workingSetBytes: Math.max(0, usage - (total_inactive_file ?? inactive_file)) };
}

/** Converts an image of the Engine API. @param user the image's user from `docker inspect`, because a list of images does not contain it */
export function image(
  found: {
    readonly Id: string;
    readonly RepoTags?: readonly string[] | null | undefined;
    readonly RepoDigests?: readonly string[] | null | undefined;
    readonly Size: number;
  },
  user = "",
): Image {
  const [name = ""] = user.split(":");
  const isNumber = /^\d+$/u.test(name);
  return {
    id: found.Id,
    repoTags: (found.RepoTags ?? []).filter((tag) => tag !== "<none>:<none>"),
    repoDigests: (found.RepoDigests ?? []).filter((digest) => digest !== "<none>@<none>"),
    sizeBytes: found.Size,
    ...(isNumber && { uid: Number(name) }),
    username: isNumber ? "" : name,
    pinned: false,
  };
}
