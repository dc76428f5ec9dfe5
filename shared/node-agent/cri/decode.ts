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
  RuntimeConfig,
  VersionResponse,
} from "../ports/cri-types.ts";
import type {
  Answers,
  Enum,
  WireContainer,
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

export function version({ runtimeName, runtimeVersion, runtimeApiVersion }: Answers["Version"]): VersionResponse {
  return { runtimeName, runtimeVersion, runtimeApiVersion };
}

/** @throws {CriError} Unimplemented if an older runtime reports an unknown driver; the caller then uses its own setting */
export function runtimeConfig({ linux }: Answers["RuntimeConfig"]): RuntimeConfig {
  const cgroupDriver = linux && CGROUP_DRIVERS.find((driver) => driver === linux.cgroupDriver);
  if (!cgroupDriver) throw new CriError("Unimplemented", "the runtime reports an unknown cgroup driver");
  return { cgroupDriver };
}

export function podSandboxStatus(answer: Answers["PodSandboxStatus"]): PodSandboxStatus {
  const status = present(answer.status, "sandbox status");
  const options = status.linux?.namespaces?.options;
  const { network } = status;
  return {
    ...podSandbox(status),
    ...(network && { network: { ip: network.ip, additionalIps: network.additionalIps.map(({ ip }) => ip) } }),
    ...(options && { namespaceOptions: namespaceOption(options) }),
  };
}

export function container(wire: WireContainer): Container {
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

export function containerStatus(answer: Answers["ContainerStatus"]): ContainerStatus {
  const status = present(answer.status, "container status");
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

export function execSync({ stdout, stderr, exitCode }: Answers["ExecSync"]): ExecSyncResponse {
  const text = new TextDecoder();
  return { stdout: text.decode(stdout), stderr: text.decode(stderr), exitCode };
}

export function filesystems({ imageFilesystems }: Answers["ImageFsInfo"]): readonly FilesystemUsage[] {
  return imageFilesystems.map(({ timestamp, fsId, usedBytes, inodesUsed }) => ({
    timestampMs: timestamp / NANOSECONDS_PER_MS,
    mountpoint: fsId?.mountpoint ?? "",
    usedBytes: usedBytes?.value ?? 0,
    inodesUsed: inodesUsed?.value ?? 0,
  }));
}

export function podSandbox(wire: WirePodSandbox): PodSandbox {
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

export function image(wire: WireImage): Image {
  const { id, repoTags, repoDigests, size, uid, username, pinned } = wire;
  return { id, repoTags, repoDigests, sizeBytes: size, ...(uid && { uid: uid.value }), username, pinned };
}

export function containerStats({ attributes, cpu, memory, writableLayer }: WireContainerStats): ContainerStats {
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

/** @throws {CriError} if the runtime left out the message */
export function present<T>(value: T | null, what: string): T {
  if (value === null) throw new CriError("Internal", `the runtime responded without a ${what}`);
  return value;
}
