/**
 * Types of the objects that protobufjs returns for responses, with the options of load.ts. An `Enum` is a number if runtime.proto does
 * not define the value.
 */
import type { ContainerMetadata, PodSandboxMetadata, RuntimeCondition, StringMap } from "../ports/cri-types.ts";

export type Enum = string | number;
type Bytes = Uint8Array;
interface Wrapped {
  readonly value: number;
}

export interface WirePodSandbox {
  readonly id: string;
  readonly metadata: PodSandboxMetadata | null;
  readonly state: Enum;
  readonly createdAt: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

export interface WirePodSandboxStatus extends WirePodSandbox {
  readonly network: { readonly ip: string; readonly additionalIps: readonly { readonly ip: string }[] } | null;
  readonly linux: { readonly namespaces: { readonly options: WireNamespaceOption | null } | null } | null;
}

export interface WireNamespaceOption {
  readonly network: Enum;
  readonly pid: Enum;
  readonly ipc: Enum;
  readonly targetId: string;
}

export interface WireContainer {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: ContainerMetadata | null;
  readonly image: { readonly image: string } | null;
  readonly imageRef: string;
  readonly imageId: string;
  readonly state: Enum;
  readonly createdAt: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

export interface WireContainerStatus extends Omit<WireContainer, "podSandboxId" | "imageId"> {
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
  readonly mounts: readonly WireMount[];
  readonly logPath: string;
  readonly resources: { readonly linux: WireLinuxContainerResources | null } | null;
}

/** Unset values are 0. */
export interface WireLinuxContainerResources {
  readonly cpuPeriod: number;
  readonly cpuQuota: number;
  readonly cpuShares: number;
  readonly memoryLimitInBytes: number;
}

export interface WireMount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readonly: boolean;
  readonly propagation: Enum;
}

export interface WireImage {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly size: number;
  readonly uid: Wrapped | null;
  readonly username: string;
  readonly pinned: boolean;
}

export interface WireContainerStats {
  readonly attributes: { readonly id: string; readonly metadata: ContainerMetadata | null; readonly labels: StringMap } | null;
  readonly cpu: { readonly timestamp: number; readonly usageCoreNanoSeconds: Wrapped | null } | null;
  readonly memory: { readonly timestamp: number; readonly workingSetBytes: Wrapped | null; readonly usageBytes: Wrapped | null } | null;
  readonly writableLayer: { readonly usedBytes: Wrapped | null; readonly inodesUsed: Wrapped | null } | null;
}

/** Response types, by the names of their methods in runtime.proto. */
export interface Answers {
  readonly Version: { readonly runtimeName: string; readonly runtimeVersion: string; readonly runtimeApiVersion: string };
  readonly Status: { readonly status: { readonly conditions: readonly RuntimeCondition[] } | null; readonly info: StringMap };
  readonly RuntimeConfig: { readonly linux: { readonly cgroupDriver: Enum } | null };
  readonly RunPodSandbox: { readonly podSandboxId: string };
  readonly PodSandboxStatus: { readonly status: WirePodSandboxStatus | null };
  readonly CreateContainer: { readonly containerId: string };
  readonly ContainerStatus: { readonly status: WireContainerStatus | null };
  readonly ExecSync: { readonly stdout: Bytes; readonly stderr: Bytes; readonly exitCode: number };
  readonly Exec: { readonly url: string };
  readonly Attach: { readonly url: string };
  readonly PortForward: { readonly url: string };
  readonly ContainerStats: { readonly stats: WireContainerStats | null };
  readonly ListContainerStats: { readonly stats: readonly WireContainerStats[] };
  readonly ImageStatus: { readonly image: WireImage | null };
  readonly PullImage: { readonly imageRef: string };
  readonly ListImages: { readonly images: readonly WireImage[] };
  readonly ImageFsInfo: {
    readonly imageFilesystems: readonly {
      readonly timestamp: number;
      readonly fsId: { readonly mountpoint: string } | null;
      readonly usedBytes: Wrapped | null;
      readonly inodesUsed: Wrapped | null;
    }[];
  };
}
