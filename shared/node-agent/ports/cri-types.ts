/**
 * CRI messages with field names in camelCase, reduced to the fields that the node agent uses (node-agent §6, §7, §17). Times are milliseconds
 * since the epoch with fractions (CRI: nanoseconds); an unset time is absent (CRI: 0). Source: cri-api pkg/apis/runtime/v1/api.proto.
 */

export type StringMap = Readonly<Record<string, string>>;
/** CRI wraps a number in a message if an absent value differs from 0. */
export interface Int64Value {
  readonly value: number;
}

export interface VersionResponse {
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

export interface RuntimeCondition {
  /** RuntimeReady, NetworkReady, or a condition that the runtime defines. */
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
  /** The container whose PID namespace to join; only with `pid: "TARGET"`. */
  readonly targetId?: string;
}

export interface SecurityProfile {
  readonly profileType: "RuntimeDefault" | "Unconfined" | "Localhost";
  readonly localhostRef?: string;
}

export interface LinuxContainerResources {
  /** Microseconds. */
  readonly cpuPeriod?: number;
  /** Microseconds per period; 0 means unlimited. */
  readonly cpuQuota?: number;
  readonly cpuShares?: number;
  readonly memoryLimitInBytes?: number;
  readonly oomScoreAdj?: number;
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
  /** cgroup v2 settings, keyed by file name. */
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
  /** Absolute path of a directory on the host, which the caller creates; the containers' `logPath` is relative to it. */
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

/** Ignored on machines without SELinux. */
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

/** A sandbox as returned in a list. */
export interface PodSandbox {
  readonly id: string;
  readonly metadata: PodSandboxMetadata;
  readonly state: PodSandboxState;
  readonly createdAtMs: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

export interface PodSandboxStatus extends PodSandbox {
  /**
   * Absent if the runtime reports no network, or if the sandbox has no network namespace of its own. An empty `ip` is not assigned yet,
   * or was released.
   */
  readonly network?: { readonly ip: string; readonly additionalIps: readonly string[] };
  readonly namespaceOptions?: NamespaceOption;
}

/** All given fields must match, and every label of `labelSelector`. */
export interface PodSandboxFilter {
  readonly id?: string;
  readonly state?: PodSandboxState;
  readonly labelSelector?: StringMap;
}

export interface ImageSpec {
  /** A name with a tag or a digest, or an image id. */
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
  /** If `command` or `args` is absent or empty, the image's ENTRYPOINT or CMD applies. */
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  /** Values are bytes; see `textOfBytes`. */
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

/** A container as returned in a list. */
export interface Container {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: ContainerMetadata;
  readonly image: string;
  readonly imageRef: string;
  /** Equals `Image.id`. Absent in runtimes from before Kubernetes 1.30, where `imageRef` has this value. */
  readonly imageId?: string;
  readonly state: ContainerState;
  readonly createdAtMs: number;
  readonly labels: StringMap;
  readonly annotations: StringMap;
}

/** CRI omits the sandbox id here. */
export interface ContainerStatus extends Omit<Container, "podSandboxId" | "imageId"> {
  /** Absent while the container is only CREATED. */
  readonly startedAtMs?: number;
  /** Valid only in state EXITED, as are `exitCode`, `reason` and `message`. */
  readonly finishedAtMs?: number;
  readonly exitCode: number;
  /** A reason such as `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun` or `StartError`. */
  readonly reason: string;
  readonly message: string;
  readonly mounts: readonly Mount[];
  /** Absolute path on the host. */
  readonly logPath: string;
  /** The effective limits; absent if not reported. */
  readonly resources?: Pick<LinuxContainerResources, "cpuPeriod" | "cpuQuota" | "cpuShares" | "memoryLimitInBytes">;
}

export interface ContainerFilter {
  readonly id?: string;
  readonly state?: ContainerState;
  readonly podSandboxId?: string;
  readonly labelSelector?: StringMap;
}

/** The output, decoded as UTF-8; the runtime keeps at most 16 MiB per stream. */
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
  /** Must be false with `tty`. */
  readonly stderr: boolean;
}

export interface Image {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly sizeBytes: number;
  /** The image's numeric user. If it is absent, `username` is set if the image has a user. */
  readonly uid?: number;
  readonly username: string;
  readonly pinned: boolean;
}

/** One entry of a pull secret. Must never be logged. */
export interface AuthConfig {
  /** Bytes, as is the password; see `textOfBytes`. */
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

/** Statistics of a container. Absent values have not been measured yet. */
export interface ContainerStats {
  readonly id: string;
  readonly metadata: ContainerMetadata;
  readonly labels: StringMap;
  readonly cpu?: { readonly timestampMs: number; readonly usageCoreNanoSeconds: number };
  /** `usageBytes` includes reclaimable memory; absent if not reported. */
  readonly memory?: { readonly timestampMs: number; readonly workingSetBytes: number; readonly usageBytes?: number };
  /** Usage of the files that the container has written. */
  readonly writableLayer?: { readonly usedBytes: number; readonly inodesUsed: number };
}

export interface ContainerStatsFilter {
  readonly id?: string;
  readonly podSandboxId?: string;
  readonly labelSelector?: StringMap;
}
