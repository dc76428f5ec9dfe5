/**
 * What goes in and out of the runtime: CRI's own messages and field names in camelCase, only the fields that the node agent
 * needs (node-agent §6, §7, §17). Times are milliseconds since the epoch with fractions (CRI: nanoseconds in 64 bits); a time
 * that has not come is absent (CRI: 0). Source: cri-api pkg/apis/runtime/v1/api.proto.
 */

export type StringMap = Readonly<Record<string, string>>;
/** CRI wraps numbers whose absence differs from 0. */
export interface Int64Value {
  readonly value: number;
}

export interface VersionResponse {
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

export interface RuntimeCondition {
  /** RuntimeReady, NetworkReady, or one of the runtime's own. */
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export interface RuntimeConfig {
  readonly cgroupDriver: "SYSTEMD" | "CGROUPFS";
}

export type NamespaceMode = "POD" | "CONTAINER" | "NODE" | "TARGET";

export interface NamespaceOption {
  readonly network?: NamespaceMode;
  readonly pid?: NamespaceMode;
  readonly ipc?: NamespaceMode;
  /** With `pid: "TARGET"`: the container whose processes are seen. */
  readonly targetId?: string;
}

export interface SecurityProfile {
  readonly profileType: "RuntimeDefault" | "Unconfined" | "Localhost";
  readonly localhostRef?: string;
}

export interface LinuxContainerResources {
  /** Microseconds. */
  readonly cpuPeriod?: number;
  /** Microseconds per period; 0 = no limit. */
  readonly cpuQuota?: number;
  readonly cpuShares?: number;
  readonly memoryLimitInBytes?: number;
  readonly oomScoreAdj?: number;
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
  /** cgroups v2: file name → value. */
  readonly unified?: StringMap;
  readonly memorySwapLimitInBytes?: number;
}

export interface PodSandboxMetadata {
  readonly name: string;
  readonly uid: string;
  readonly namespace: string;
  readonly attempt: number;
}

export interface PodSandboxConfig {
  readonly metadata: PodSandboxMetadata;
  readonly hostname?: string;
  /** Absolute, on the host; `logPath` of the containers is relative to it. The caller creates it. */
  readonly logDirectory?: string;
  readonly dnsConfig?: {
    readonly servers?: readonly string[];
    readonly searches?: readonly string[];
    readonly options?: readonly string[];
  };
  readonly portMappings?: readonly PortMapping[];
  readonly labels?: StringMap;
  readonly annotations?: StringMap;
  readonly linux?: {
    readonly cgroupParent?: string;
    readonly securityContext?: LinuxSandboxSecurityContext;
    readonly sysctls?: StringMap;
    readonly overhead?: LinuxContainerResources;
    readonly resources?: LinuxContainerResources;
  };
}

export interface PortMapping {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly containerPort: number;
  readonly hostPort?: number;
  readonly hostIp?: string;
}

/** A runtime on a machine without SELinux ignores it. */
export interface SELinuxOption {
  readonly user?: string;
  readonly role?: string;
  readonly type?: string;
  readonly level?: string;
}

export interface LinuxSandboxSecurityContext {
  readonly namespaceOptions?: NamespaceOption;
  readonly selinuxOptions?: SELinuxOption;
  readonly runAsUser?: Int64Value;
  readonly runAsGroup?: Int64Value;
  readonly readonlyRootfs?: boolean;
  readonly supplementalGroups?: readonly number[];
  readonly privileged?: boolean;
  readonly seccomp?: SecurityProfile;
}

export type PodSandboxState = "SANDBOX_READY" | "SANDBOX_NOTREADY";

/** What a list says of a sandbox. */
export interface PodSandbox {
  readonly id: string;
  readonly metadata: PodSandboxMetadata;
  readonly state: PodSandboxState;
  readonly createdAtMs: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

export interface PodSandboxStatus extends PodSandbox {
  /** Absent: this runtime or sandbox has no network of its own. Empty `ip`: it has not got one yet, or no longer. */
  readonly network?: { readonly ip: string; readonly additionalIps: readonly string[] };
  readonly namespaceOptions?: NamespaceOption;
}

/** All that is given must fit; every label of `labelSelector` must be there with that value. */
export interface PodSandboxFilter {
  readonly id?: string;
  readonly state?: PodSandboxState;
  readonly labelSelector?: StringMap;
}

export interface ImageSpec {
  /** A name with tag or digest, or the id of an image. */
  readonly image: string;
  readonly userSpecifiedImage?: string;
}

export interface Mount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readonly?: boolean;
  readonly propagation?: "PROPAGATION_PRIVATE" | "PROPAGATION_HOST_TO_CONTAINER" | "PROPAGATION_BIDIRECTIONAL";
}

export interface LinuxContainerSecurityContext {
  readonly capabilities?: { readonly addCapabilities?: readonly string[]; readonly dropCapabilities?: readonly string[] };
  readonly privileged?: boolean;
  readonly namespaceOptions?: NamespaceOption;
  readonly selinuxOptions?: SELinuxOption;
  readonly runAsUser?: Int64Value;
  readonly runAsGroup?: Int64Value;
  readonly runAsUsername?: string;
  readonly readonlyRootfs?: boolean;
  readonly supplementalGroups?: readonly number[];
  readonly noNewPrivs?: boolean;
  readonly maskedPaths?: readonly string[];
  readonly readonlyPaths?: readonly string[];
  readonly seccomp?: SecurityProfile;
}

export interface ContainerMetadata {
  readonly name: string;
  readonly attempt: number;
}

export interface ContainerConfig {
  readonly metadata: ContainerMetadata;
  readonly image: ImageSpec;
  /** Absent or empty `command` and `args` leave the image's ENTRYPOINT and CMD. */
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  /** CRI carries bytes; these are written as UTF-8. */
  readonly envs?: readonly { readonly key: string; readonly value: string }[];
  readonly mounts?: readonly Mount[];
  readonly labels?: StringMap;
  readonly annotations?: StringMap;
  /** Relative to the sandbox's `logDirectory`. */
  readonly logPath?: string;
  readonly stdin?: boolean;
  readonly stdinOnce?: boolean;
  readonly tty?: boolean;
  readonly linux?: { readonly resources?: LinuxContainerResources; readonly securityContext?: LinuxContainerSecurityContext };
}

export type ContainerState = "CONTAINER_CREATED" | "CONTAINER_RUNNING" | "CONTAINER_EXITED" | "CONTAINER_UNKNOWN";

/** What a list says of a container. */
export interface Container {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: ContainerMetadata;
  readonly image: string;
  readonly imageRef: string;
  /** As `Image.id`; absent from runtimes that are older than Kubernetes 1.30, whose `imageRef` it is. */
  readonly imageId?: string;
  readonly state: ContainerState;
  readonly createdAtMs: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

/** Everything but the sandbox's id, which CRI leaves out here. */
export interface ContainerStatus extends Omit<Container, "podSandboxId" | "imageId"> {
  /** Absent while CREATED. */
  readonly startedAtMs?: number;
  /** This one, `exitCode`, `reason` and `message` mean something only when EXITED. */
  readonly finishedAtMs?: number;
  readonly exitCode: number;
  /** `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError` and others. */
  readonly reason: string;
  readonly message: string;
  readonly mounts: readonly Mount[];
  /** Absolute, on the host. */
  readonly logPath: string;
  /** What it may use, as the runtime has set it; absent: the runtime does not say. */
  readonly resources?: Pick<LinuxContainerResources, "cpuPeriod" | "cpuQuota" | "cpuShares" | "memoryLimitInBytes">;
}

export interface ContainerFilter {
  readonly id?: string;
  readonly state?: ContainerState;
  readonly podSandboxId?: string;
  readonly labelSelector?: StringMap;
}

/** Output decoded as UTF-8; the runtime keeps at most 16 MiB of each. */
export interface ExecSyncResponse {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

export interface ExecRequest extends AttachRequest {
  readonly cmd: readonly string[];
}

export interface AttachRequest {
  readonly containerId: string;
  readonly tty: boolean;
  readonly stdin: boolean;
  readonly stdout: boolean;
  /** Not together with `tty`. */
  readonly stderr: boolean;
}

export interface Image {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly sizeBytes: number;
  /** The image's user, when it is a number; else `username`, when it has one at all. */
  readonly uid?: number;
  readonly username: string;
  readonly pinned: boolean;
}

/** One entry of a pull secret. Never logged. */
export interface AuthConfig {
  readonly username?: string;
  readonly password?: string;
  readonly auth?: string;
  readonly serverAddress?: string;
  readonly identityToken?: string;
  readonly registryToken?: string;
}

export interface FilesystemUsage {
  readonly timestampMs: number;
  readonly mountpoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

/** A figure that the runtime does not have yet is absent. */
export interface ContainerStats {
  readonly id: string;
  readonly metadata: ContainerMetadata;
  readonly labels: StringMap;
  readonly cpu?: { readonly timestampMs: number; readonly usageCoreNanoSeconds: number };
  /** `usageBytes` is all of it, whatever could be taken back; absent: the runtime does not say. */
  readonly memory?: { readonly timestampMs: number; readonly workingSetBytes: number; readonly usageBytes?: number };
  /** What the container wrote beside its image. */
  readonly writableLayer?: { readonly usedBytes: number; readonly inodesUsed: number };
}

export interface ContainerStatsFilter {
  readonly id?: string;
  readonly podSandboxId?: string;
  readonly labelSelector?: StringMap;
}
