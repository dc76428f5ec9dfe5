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

/** Response types, by the names of their messages in runtime.proto. */
export interface Answers {
  readonly VersionResponse: { readonly runtimeName: string; readonly runtimeVersion: string; readonly runtimeApiVersion: string };
  readonly StatusResponse: { readonly status: { readonly conditions: readonly RuntimeCondition[] } | null; readonly info: StringMap };
  readonly RuntimeConfigResponse: { readonly linux: { readonly cgroupDriver: Enum } | null };
  readonly PodSandboxId: { readonly podSandboxId: string };
  readonly ContainerId: { readonly containerId: string };
  readonly PodSandboxStatusResponse: { readonly status: WirePodSandboxStatus | null };
  readonly PodSandbox: WirePodSandbox;
  readonly ContainerStatusResponse: { readonly status: WireContainerStatus | null };
  readonly Container: WireContainer;
  readonly ExecSyncResponse: { readonly stdout: Bytes; readonly stderr: Bytes; readonly exitCode: number };
  readonly StreamingUrl: { readonly url: string };
  readonly ImageStatusResponse: { readonly image: WireImage | null };
  readonly ListImagesResponse: { readonly images: readonly WireImage[] };
  readonly PullImageResponse: { readonly imageRef: string };
  readonly ImageFsInfoResponse: {
    readonly imageFilesystems: readonly {
      readonly timestamp: number;
      readonly fsId: { readonly mountpoint: string } | null;
      readonly usedBytes: Wrapped | null;
      readonly inodesUsed: Wrapped | null;
    }[];
  };
  readonly ContainerStatsResponse: { readonly stats: WireContainerStats | null };
  readonly ListContainerStatsResponse: { readonly stats: readonly WireContainerStats[] };
}
