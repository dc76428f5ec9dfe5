/** Converts CRI responses into the port's types, including absent messages, unknown enum values and zero times. */
import { CriError } from "../ports/cri-error.ts";
import type {
  Container,
  ContainerState,
  ContainerStats,
  ContainerStatus,
  ExecSyncResponse,
  FilesystemUsage,
  Image,
  Mount,
  NamespaceMode,
  NamespaceOption,
  PodSandbox,
  PodSandboxState,
  PodSandboxStatus,
  RuntimeCondition,
  RuntimeConfig,
  StringMap,
  VersionResponse,
} from "../ports/cri-types.ts";
import type {
  Answers,
  Enum,
  WireContainerStats,
  WireImage,
  WireLinuxContainerResources,
  WireMount,
  WireNamespaceOption,
  WirePodSandbox,
} from "./wire.ts";

const NANOSECONDS_PER_MS = 1_000_000;
const POD_SANDBOX_STATES: readonly PodSandboxState[] = ["SANDBOX_READY", "SANDBOX_NOTREADY"];
const CONTAINER_STATES: readonly ContainerState[] = ["CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN"];
const NAMESPACE_MODES: readonly NamespaceMode[] = ["POD", "CONTAINER", "NODE", "TARGET"];
const CGROUP_DRIVERS: readonly RuntimeConfig["cgroupDriver"][] = ["SYSTEMD", "CGROUPFS"];
const PROPAGATIONS: readonly NonNullable<Mount["propagation"]>[] = [
  "PROPAGATION_PRIVATE",
  "PROPAGATION_HOST_TO_CONTAINER",
  "PROPAGATION_BIDIRECTIONAL",
];

export function version(answer: object): VersionResponse {
  const { runtimeName, runtimeVersion, runtimeApiVersion } = as(answer, "VersionResponse");
  return { runtimeName, runtimeVersion, runtimeApiVersion };
}

export function conditions(answer: object): readonly RuntimeCondition[] {
  return as(answer, "StatusResponse").status?.conditions ?? [];
}

/** Returns the verbose information of a Status response. */
export function statusInfo(answer: object): StringMap {
  return as(answer, "StatusResponse").info;
}

/** @throws {CriError} Unimplemented if an older runtime reports an unknown driver; the caller then uses its own setting */
export function runtimeConfig(answer: object): RuntimeConfig {
  const { linux } = as(answer, "RuntimeConfigResponse");
  const cgroupDriver = linux && CGROUP_DRIVERS.find((driver) => driver === linux.cgroupDriver);
  if (!cgroupDriver) throw new CriError("Unimplemented", "the runtime reports an unknown cgroup driver");
  return { cgroupDriver };
}

export function podSandboxId(answer: object): string {
  return as(answer, "PodSandboxId").podSandboxId;
}

export function containerId(answer: object): string {
  return as(answer, "ContainerId").containerId;
}

export function podSandbox(listed: object): PodSandbox {
  return sandboxOf(as(listed, "PodSandbox"));
}

export function podSandboxStatus(answer: object): PodSandboxStatus {
  const status = present(as(answer, "PodSandboxStatusResponse").status, "sandbox status");
  const options = status.linux?.namespaces?.options;
  const { network } = status;
  return {
    ...sandboxOf(status),
    ...(network && { network: { ip: network.ip, additionalIps: network.additionalIps.map(({ ip }) => ip) } }),
    ...(options && { namespaceOptions: namespaceOption(options) }),
  };
}

export function container(listed: object): Container {
  const wire = as(listed, "Container");
  return {
    id: wire.id,
    podSandboxId: wire.podSandboxId,
    metadata: wire.metadata ?? { name: "", attempt: 0 },
    image: wire.image?.image ?? "",
    imageRef: wire.imageRef,
    ...(wire.imageId !== "" && { imageId: wire.imageId }),
    state: known(CONTAINER_STATES, wire.state, "CONTAINER_UNKNOWN"),
    createdAtMs: wire.createdAt / NANOSECONDS_PER_MS,
    labels: wire.labels,
    annotations: wire.annotations,
  };
}

export function containerStatus(answer: object): ContainerStatus {
  const status = present(as(answer, "ContainerStatusResponse").status, "container status");
  return {
    id: status.id,
    metadata: status.metadata ?? { name: "", attempt: 0 },
    image: status.image?.image ?? "",
    imageRef: status.imageRef,
    state: known(CONTAINER_STATES, status.state, "CONTAINER_UNKNOWN"),
    createdAtMs: status.createdAt / NANOSECONDS_PER_MS,
    labels: status.labels,
    annotations: status.annotations,
    ...(status.startedAt > 0 && { startedAtMs: status.startedAt / NANOSECONDS_PER_MS }),
    ...(status.finishedAt > 0 && { finishedAtMs: status.finishedAt / NANOSECONDS_PER_MS }),
    exitCode: status.exitCode,
    reason: status.reason,
    message: status.message,
    mounts: status.mounts.map(mount),
    logPath: status.logPath,
    ...(status.resources?.linux && { resources: linuxResources(status.resources.linux) }),
  };
}

function linuxResources(wire: WireLinuxContainerResources): NonNullable<ContainerStatus["resources"]> {
  const { cpuPeriod, cpuQuota, cpuShares, memoryLimitInBytes } = wire;
  return { cpuPeriod, cpuQuota, cpuShares, memoryLimitInBytes };
}

export function execSync(answer: object): ExecSyncResponse {
  const { stdout, stderr, exitCode } = as(answer, "ExecSyncResponse");
  const text = new TextDecoder();
  return { stdout: text.decode(stdout), stderr: text.decode(stderr), exitCode };
}

export function url(answer: object): string {
  return as(answer, "StreamingUrl").url;
}

/** Returns `undefined` if the image does not exist, in which case CRI returns a null image (node-agent §17). */
export function imageStatus(answer: object): Image | undefined {
  const wire = as(answer, "ImageStatusResponse").image;
  return wire ? image(wire) : undefined;
}

export function images(answer: object): readonly Image[] {
  return as(answer, "ListImagesResponse").images.map(image);
}

export function imageRef(answer: object): string {
  return as(answer, "PullImageResponse").imageRef;
}

export function filesystems(answer: object): readonly FilesystemUsage[] {
  return as(answer, "ImageFsInfoResponse").imageFilesystems.map(({ timestamp, fsId, usedBytes, inodesUsed }) => ({
    timestampMs: timestamp / NANOSECONDS_PER_MS,
    mountpoint: fsId?.mountpoint ?? "",
    usedBytes: usedBytes?.value ?? 0,
    inodesUsed: inodesUsed?.value ?? 0,
  }));
}

export function containerStats(answer: object): ContainerStats {
  return statsOf(present(as(answer, "ContainerStatsResponse").stats, "container stats"));
}

export function containerStatsList(answer: object): readonly ContainerStats[] {
  return as(answer, "ListContainerStatsResponse").stats.map(statsOf);
}

/** The cast is safe: the connection decoded the response with runtime.proto, and `Answers` mirrors that file. */
function as<Name extends keyof Answers>(answer: object, _message: Name): Answers[Name] {
  return answer as Answers[Name];
}

function sandboxOf(wire: WirePodSandbox): PodSandbox {
  return {
    id: wire.id,
    metadata: wire.metadata ?? { name: "", uid: "", namespace: "", attempt: 0 },
    // Maps an unknown state to NOTREADY, because an unknown state must not allow a container to start.
    state: known(POD_SANDBOX_STATES, wire.state, "SANDBOX_NOTREADY"),
    createdAtMs: wire.createdAt / NANOSECONDS_PER_MS,
    labels: wire.labels,
    annotations: wire.annotations,
  };
}

/** Omits unknown modes. */
function namespaceOption({ network, pid, ipc, targetId }: WireNamespaceOption): NamespaceOption {
  const mode = (value: Enum): NamespaceMode | undefined => NAMESPACE_MODES.find((name) => name === value);
  const [networkMode, pidMode, ipcMode] = [mode(network), mode(pid), mode(ipc)];
  return {
    ...(networkMode && { network: networkMode }),
    ...(pidMode && { pid: pidMode }),
    ...(ipcMode && { ipc: ipcMode }),
    ...(targetId !== "" && { targetId }),
  };
}

function mount({ containerPath, hostPath, readonly, propagation }: WireMount): Mount {
  return { containerPath, hostPath, readonly, propagation: known(PROPAGATIONS, propagation, "PROPAGATION_PRIVATE") };
}

function image(wire: WireImage): Image {
  const { id, repoTags, repoDigests, size, uid, username, pinned } = wire;
  return { id, repoTags, repoDigests, sizeBytes: size, ...(uid && { uid: uid.value }), username, pinned };
}

function statsOf({ attributes, cpu, memory, writableLayer }: WireContainerStats): ContainerStats {
  return {
    id: attributes?.id ?? "",
    metadata: attributes?.metadata ?? { name: "", attempt: 0 },
    labels: attributes?.labels ?? {},
    ...(cpu?.usageCoreNanoSeconds && {
      cpu: { timestampMs: cpu.timestamp / NANOSECONDS_PER_MS, usageCoreNanoSeconds: cpu.usageCoreNanoSeconds.value },
    }),
    ...(memory?.workingSetBytes && {
      memory: {
        timestampMs: memory.timestamp / NANOSECONDS_PER_MS,
        workingSetBytes: memory.workingSetBytes.value,
        ...(memory.usageBytes && { usageBytes: memory.usageBytes.value }),
      },
    }),
    ...(writableLayer?.usedBytes && {
      writableLayer: { usedBytes: writableLayer.usedBytes.value, inodesUsed: writableLayer.inodesUsed?.value ?? 0 },
    }),
  };
}

function known<Word extends string>(words: readonly Word[], value: Enum, otherwise: Word): Word {
  return words.find((word) => word === value) ?? otherwise;
}

function present<T>(value: T | null, what: string): T {
  if (value === null) throw new CriError("Internal", `the runtime responded without a ${what}`);
  return value;
}
