/**
 * The container runtime of one node. Each method is one CRI call, without retries.
 *
 * CR1 every failure is a CriError with gRPC's status name. After Unavailable or DeadlineExceeded, the call may have taken effect, so the
 *     caller must list before it acts again. Every call has a deadline (node-agent §1: 2 min, RunPodSandbox 4 min, StopContainer and
 *     ExecSync 2 min plus their own), except pulls and `execSync` with timeout 0.
 * CR2 if the object is missing, the methods for status, stats, start, exec and create fail with NotFound, and `imageStatus` returns
 *     `undefined`. Every stop and remove succeeds, and may be repeated.
 * CR3 `runPodSandbox`, `createContainer` and `startContainer` are not idempotent. While a sandbox with the same {name, namespace, uid,
 *     attempt}, or in such a sandbox a container with the same {name, attempt}, exists or is being created, the creation of a second one
 *     is rejected and leaves nothing behind.
 * CR4 when `runPodSandbox` returns, the sandbox is READY and, unless its network is NODE, has its IPs. A failed call leaves nothing
 *     behind. No image of the pod is needed.
 * CR5 a container is CREATED, then RUNNING when `startContainer` returns, then permanently EXITED. UNKNOWN means that the runtime does not
 *     know the state, or reports a state newer than this port. A failed start leaves it EXITED.
 * CR6 `stopContainer` sends the stop signal, and SIGKILL after `timeoutSeconds` (0: immediately). It returns when the container is EXITED,
 *     with its own exit code or 128 + the signal's number. A second call with a shorter timeout shortens the first.
 * CR7 `stopPodSandbox` kills all containers, releases the network and keeps the sandbox (NOTREADY) and its containers for inspection.
 *     `removePodSandbox` removes all of them. `removeContainer` kills a running container. Log files stay.
 * CR8 lists are complete and unordered, and their items match every field of the filter.
 * CR9 output is written by line to `<logDirectory>/<logPath>` as `<RFC3339Nano> <stdout|stderr> <F|P> <text>`; P is a part of a line that
 *     is too long. After `reopenContainerLog`, new lines go to a new file of that name. With Docker, that path is a link to Docker's own
 *     json-file log, which Docker rotates.
 * CR10 `execSync` returns any exit code. It fails with DeadlineExceeded after `timeoutSeconds` (0: no limit), when the command is
 *     killed; with Canceled when its signal aborts; and with another error if the container is not running.
 * CR11 an older runtime fails with Unimplemented for methods that it does not implement (isUnimplemented).
 * CR12 sandboxes and containers survive a restart of the runtime, which then lists them as before.
 * CR13 `updateContainerResources` changes the limits of a running container, and its status reports them. Values that are 0 or absent
 *     stay unchanged.
 */
import type {
  AttachRequest,
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerFilter,
  ContainerStats,
  ContainerStatsFilter,
  ContainerStatus,
  ExecRequest,
  ExecSyncResponse,
  FilesystemUsage,
  Image,
  ImageSpec,
  LinuxContainerResources,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxFilter,
  PodSandboxStatus,
  RuntimeCondition,
  RuntimeConfig,
  StringMap,
  VersionResponse,
} from "./cri-types.ts";

export interface Cri {
  version(): Promise<VersionResponse>;
  /** Includes RuntimeReady and NetworkReady; `status: false` is a result, not an error. */
  status(): Promise<readonly RuntimeCondition[]>;
  /** Runtime-specific information. containerd's `config` is JSON. May be empty. */
  statusInfo(): Promise<StringMap>;
  runtimeConfig(): Promise<RuntimeConfig>;

  /** @returns the sandbox id */
  runPodSandbox(config: PodSandboxConfig, runtimeHandler?: string): Promise<string>;
  stopPodSandbox(podSandboxId: string): Promise<void>;
  removePodSandbox(podSandboxId: string): Promise<void>;
  podSandboxStatus(podSandboxId: string): Promise<PodSandboxStatus>;
  listPodSandbox(filter?: PodSandboxFilter): Promise<readonly PodSandbox[]>;

  /** The image must have been pulled. @returns the container id */
  createContainer(podSandboxId: string, config: ContainerConfig, sandboxConfig: PodSandboxConfig): Promise<string>;
  startContainer(containerId: string): Promise<void>;
  stopContainer(containerId: string, timeoutSeconds: number): Promise<void>;
  removeContainer(containerId: string): Promise<void>;
  containerStatus(containerId: string): Promise<ContainerStatus>;
  updateContainerResources(containerId: string, resources: LinuxContainerResources): Promise<void>;
  listContainers(filter?: ContainerFilter): Promise<readonly Container[]>;
  reopenContainerLog(containerId: string): Promise<void>;
  execSync(containerId: string, cmd: readonly string[], timeoutSeconds: number, options?: ExecSyncOptions): Promise<ExecSyncResponse>;
  /** @returns a URL of the runtime's streaming server, which is valid for a short time and one upgraded connection */
  exec(request: ExecRequest): Promise<string>;
  /** Same as `exec`, for the container's main process. `tty` must equal the container's setting. */
  attach(request: AttachRequest): Promise<string>;
  /** Same as `exec`, for the sandbox's network. WebSocket clients pass `ports`; SPDY clients pass a port per stream. */
  portForward(podSandboxId: string, ports: readonly number[]): Promise<string>;
  containerStats(containerId: string): Promise<ContainerStats>;
  listContainerStats(filter?: ContainerStatsFilter): Promise<readonly ContainerStats[]>;

  imageStatus(image: ImageSpec): Promise<Image | undefined>;
  /** @returns the image reference. Fails with Canceled if the signal aborts. */
  pullImage(image: ImageSpec, options?: PullOptions): Promise<string>;
  removeImage(image: ImageSpec): Promise<void>;
  listImages(): Promise<readonly Image[]>;
  imageFsInfo(): Promise<readonly FilesystemUsage[]>;
}

export interface ExecSyncOptions {
  readonly signal?: AbortSignal;
}

export interface PullOptions {
  readonly auth?: AuthConfig;
  readonly sandboxConfig?: PodSandboxConfig;
  readonly signal?: AbortSignal;
}
