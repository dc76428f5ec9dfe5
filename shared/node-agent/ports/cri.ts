/**
 * The container runtime of one node: CRI's own verbs, one call each, nothing added and nothing retried.
 *
 * CR1 a refusal, and a call without answer, is a CriError with gRPC's status name. Unavailable and DeadlineExceeded say
 *     nothing about whether the call was executed; the caller looks (lists) before it acts again. Every call ends in time
 *     (node-agent §1: 2 min, RunPodSandbox 4 min, StopContainer and ExecSync 2 min on top of theirs), save two without
 *     limit: a pull, and `execSync` with timeout 0.
 * CR2 "not found": a status or stats call, start, exec and create answer NotFound; `imageStatus` answers `undefined`; every
 *     stop and remove succeeds, and may be repeated.
 * CR3 `runPodSandbox`, `createContainer` and `startContainer` are not idempotent. While a sandbox with the same
 *     {name, namespace, uid, attempt}, or a container with the same {name, attempt} in such a pod, exists or is being made, a
 *     second one is refused and nothing is left of it.
 * CR4 when `runPodSandbox` has answered, the sandbox is READY and, unless its network is NODE, has its IPs; if it fails,
 *     nothing of it stays. It works before any image of the pod is there.
 * CR5 a container is CREATED, RUNNING once `startContainer` has answered, EXITED for ever; UNKNOWN is what the runtime cannot
 *     tell, or says in a word newer than this port. A start that fails leaves it EXITED.
 * CR6 `stopContainer` sends the stop signal, after `timeoutSeconds` SIGKILL (0: at once), and answers when the container is
 *     EXITED: with its own exit code, or 128 + the signal's number. A second call with less time cuts the first one short.
 * CR7 `stopPodSandbox` kills what still runs in it, gives the network back and leaves sandbox (NOTREADY) and containers to be
 *     looked at; `removePodSandbox` removes all of them; `removeContainer` kills first if it must. Log files stay.
 * CR8 lists are complete, in no order, and filtered by everything the filter names.
 * CR9 output goes line by line to `<logDirectory>/<logPath>` as `<RFC3339Nano> <stdout|stderr> <F|P> <text>`, P being a part
 *     of a line that is too long. After `reopenContainerLog` new lines go to a new file of that name. Docker alone keeps a log of
 *     its own: there that path is a link to it, its lines are those of the json-file driver, and it is rotated, not reopened.
 * CR10 `execSync` answers whatever exit code the command had; DeadlineExceeded after `timeoutSeconds` (0 = never), when the
 *     command is killed; Canceled when its signal is aborted; another error when the container does not run.
 * CR11 Unimplemented is an answer (isUnimplemented): so says an older runtime of a verb it does not know.
 * CR12 sandboxes and containers outlive the runtime: killed and started again, it lists them as before, running ones running.
 * CR13 `updateContainerResources` changes what a container may use while it runs, and its status says so afterwards; what is 0 or
 *     absent stays as it was.
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
  /** RuntimeReady and NetworkReady among others; `status: false` is an answer, not an error. */
  status(): Promise<readonly RuntimeCondition[]>;
  /** What it says of itself besides, under names of its own; containerd's `config` is JSON. Empty: nothing. */
  statusInfo(): Promise<StringMap>;
  runtimeConfig(): Promise<RuntimeConfig>;

  /** @returns its id */
  runPodSandbox(config: PodSandboxConfig, runtimeHandler?: string): Promise<string>;
  stopPodSandbox(podSandboxId: string): Promise<void>;
  removePodSandbox(podSandboxId: string): Promise<void>;
  podSandboxStatus(podSandboxId: string): Promise<PodSandboxStatus>;
  listPodSandbox(filter?: PodSandboxFilter): Promise<readonly PodSandbox[]>;

  /** The image must be there. @returns the container's id */
  createContainer(podSandboxId: string, config: ContainerConfig, sandboxConfig: PodSandboxConfig): Promise<string>;
  startContainer(containerId: string): Promise<void>;
  stopContainer(containerId: string, timeoutSeconds: number): Promise<void>;
  removeContainer(containerId: string): Promise<void>;
  containerStatus(containerId: string): Promise<ContainerStatus>;
  updateContainerResources(containerId: string, resources: LinuxContainerResources): Promise<void>;
  listContainers(filter?: ContainerFilter): Promise<readonly Container[]>;
  reopenContainerLog(containerId: string): Promise<void>;
  execSync(containerId: string, cmd: readonly string[], timeoutSeconds: number, options?: ExecSyncOptions): Promise<ExecSyncResponse>;
  /** @returns where the runtime's streaming server takes the upgraded connection, once and soon */
  exec(request: ExecRequest): Promise<string>;
  /** The same, to the streams of the container's own process; `tty` is how the container was made. */
  attach(request: AttachRequest): Promise<string>;
  /** The same, into the sandbox's network. `ports` are those of a WebSocket client; others name each with its stream. */
  portForward(podSandboxId: string, ports: readonly number[]): Promise<string>;
  containerStats(containerId: string): Promise<ContainerStats>;
  listContainerStats(filter?: ContainerStatsFilter): Promise<readonly ContainerStats[]>;

  imageStatus(image: ImageSpec): Promise<Image | undefined>;
  /** @returns the image's reference. An aborted signal rejects with Canceled. */
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
