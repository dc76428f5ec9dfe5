/**
 * Converts CRI's configurations to Docker's options. Pure functions: the caller reads seccomp profiles and the permitted OOM scores.
 *
 * Source: pkg/kubelet/dockershim docker_sandbox.go, docker_container.go, docker_container_linux.go, security_context.go, helpers.go
 * (Kubernetes v1.23). Differs from upstream: uses `Mounts` instead of `Binds`, whose paths cannot contain a colon.
 */
import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type {
  ContainerConfig,
  LinuxContainerResources,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  Mount,
  PodSandboxConfig,
  SELinuxOption,
} from "@deltaloop/node-agent/ports";
import { containerLabels, sandboxLabels } from "./records.ts";
import type { ContainerRecord, SandboxRecord } from "./records.ts";

export interface Machine {
  /** The lowest oom_score_adj that can be set: the agent's own value if it lacks CAP_SYS_RESOURCE, otherwise −1000. */
  readonly oomScoreAdjMin: number;
  /** Content of the Localhost profile, if any. */
  readonly seccompProfile?: string;
}

/** Source: dockershim defaultSandboxCPUshares, defaultSandboxOOMScore. */
const SANDBOX_CPU_SHARES = 2;
const SANDBOX_OOM_SCORE = -998;
/** The kubelet's log limits (node-agent §7.8). */
const LOG_CONFIG = { Type: "json-file", Config: { "max-size": "10m", "max-file": "5" } } as const;
const PROPAGATIONS = {
  PROPAGATION_PRIVATE: "rprivate",
  PROPAGATION_HOST_TO_CONTAINER: "rslave",
  PROPAGATION_BIDIRECTIONAL: "rshared",
} as const satisfies Record<NonNullable<Mount["propagation"]>, string>;

export function sandboxOptions(
  config: PodSandboxConfig,
  kept: SandboxRecord,
  { image, machine }: { readonly image: string; readonly machine: Machine },
): Docker.ContainerCreateOptions {
  const { hostname, linux = {} } = config;
  const { securityContext: security = {} } = linux;
  const { network, ipc, pid } = security.namespaceOptions ?? {};
  return {
    Image: image,
    Labels: sandboxLabels(kept),
    ...(network !== "NODE" && hostname !== undefined && { Hostname: hostname }),
    ...userOf(security),
    HostConfig: {
      NetworkMode: network === "NODE" ? "host" : "none",
      UTSMode: network === "NODE" ? "host" : "",
      // Makes the IPC namespace shareable, so that the pod's containers can join it.
      IpcMode: ipc === "NODE" ? "host" : "shareable",
      PidMode: pid === "NODE" ? "host" : "",
      ...cgroupParent(linux.cgroupParent),
      CpuShares: SANDBOX_CPU_SHARES,
      OomScoreAdj: Math.max(SANDBOX_OOM_SCORE, machine.oomScoreAdjMin),
      LogConfig: { Type: "none", Config: {} },
      ...(linux.sysctls !== undefined && { Sysctls: { ...linux.sysctls } }),
      ...securityOf(security, machine),
    },
  };
}

/** @throws {CriError} for a value that is not UTF-8, because Docker's JSON cannot carry it */
function environmentEntry({ key, value }: NonNullable<ContainerConfig["envs"]>[number]): string {
  if (!value.isWellFormed())
    throw new CriError(
      "InvalidArgument",
      `the value of environment variable ${key} is not valid UTF-8, and Docker cannot pass it unchanged: mount it as a file`,
    );
  return `${key}=${value}`;
}

/** @throws {CriError} Unimplemented for an unsupported setting, so that no container starts without a setting that the spec requires */
export function containerOptions(
  config: ContainerConfig,
  sandbox: PodSandboxConfig,
  kept: ContainerRecord,
  machine: Machine,
): Docker.ContainerCreateOptions {
  const { command = [], args = [], envs = [], mounts = [], linux = {} } = config;
  const { securityContext: security = {}, resources = {} } = linux;
  return {
    Image: config.image.image,
    Labels: containerLabels(kept),
    ...(command.length > 0 && { Entrypoint: [...command] }),
    ...(args.length > 0 && { Cmd: [...args] }),
    ...(config.workingDir !== undefined && { WorkingDir: config.workingDir }),
    Env: envs.map(environmentEntry),
    OpenStdin: config.stdin === true,
    StdinOnce: config.stdinOnce === true,
    Tty: config.tty === true,
    // Disables the image's own health check; the pod's probes replace it.
    Healthcheck: { Test: ["NONE"] },
    ...userOf(security),
    HostConfig: {
      ...namespacesOf(security, kept.podSandboxId),
      ...cgroupParent(sandbox.linux?.cgroupParent),
      ...resourcesOf(resources, machine),
      LogConfig: LOG_CONFIG,
      Mounts: mounts.map(mountOf),
      ...securityOf(security, machine),
      ...(security.capabilities && {
        CapAdd: [...(security.capabilities.addCapabilities ?? [])],
        CapDrop: [...(security.capabilities.dropCapabilities ?? [])],
      }),
      ...pathsOf(security),
    },
  };
}

/**
 * Without a swap limit, the memory limit also bounds memory plus swap, so the container gets no swap. A value of 0 leaves the setting
 * unchanged (CR13).
 * Source: dockershim updateCreateConfig, UpdateContainerResources.
 */
export function updateOptions(resources: LinuxContainerResources): object {
  const { cpuPeriod, cpuQuota, cpuShares } = resources;
  refuseUnsupported(resources);
  return {
    ...(cpuPeriod && { CpuPeriod: cpuPeriod }),
    ...(cpuQuota && { CpuQuota: cpuQuota }),
    ...(cpuShares && { CpuShares: cpuShares }),
    ...memoryOf(resources),
  };
}

function resourcesOf(resources: LinuxContainerResources, machine: Machine): Docker.HostConfig {
  const { oomScoreAdj } = resources;
  return {
    ...updateOptions(resources),
    ...(oomScoreAdj !== undefined && { OomScoreAdj: Math.max(oomScoreAdj, machine.oomScoreAdjMin) }),
  };
}

function memoryOf({ memoryLimitInBytes, memorySwapLimitInBytes }: LinuxContainerResources): Docker.HostConfig {
  if (!memoryLimitInBytes) return {};
  return { Memory: memoryLimitInBytes, MemorySwap: memorySwapLimitInBytes || memoryLimitInBytes };
}

function refuseUnsupported({ hugepageLimits = [], unified = {} }: LinuxContainerResources): void {
  const page = hugepageLimits.find(({ limit }) => limit > 0);
  if (page) throw new CriError("Unimplemented", `Docker cannot limit huge pages for a container: ${page.pageSize} ${page.limit}`);
  const [file] = Object.keys(unified);
  if (file === "memory.oom.group")
    throw new CriError("Unimplemented", "Docker cannot set memory.oom.group: start the agent with --single-process-oom-kill");
  if (file !== undefined) throw new CriError("Unimplemented", `Docker cannot set ${file} for a container`);
}

function namespacesOf({ namespaceOptions }: LinuxContainerSecurityContext, sandbox: string): Docker.HostConfig {
  const { network, ipc, pid, targetId } = namespaceOptions ?? {};
  const ofSandbox = `container:${sandbox}`;
  const pids = { POD: ofSandbox, NODE: "host", TARGET: `container:${targetId}`, CONTAINER: "" } as const;
  return {
    NetworkMode: ofSandbox,
    UTSMode: network === "NODE" ? "host" : "",
    IpcMode: ipc === "NODE" ? "host" : ofSandbox,
    PidMode: pids[pid ?? "CONTAINER"],
  };
}

/** Docker's systemd driver expects the name of the slice; the cgroupfs driver expects a full path. */
function cgroupParent(parent: string | undefined): Docker.HostConfig {
  if (parent === undefined || parent === "") return {};
  return { CgroupParent: parent.endsWith(".slice") ? parent.slice(parent.lastIndexOf("/") + 1) : parent };
}

function mountOf({ containerPath, hostPath, readonly = false, propagation = "PROPAGATION_PRIVATE" }: Mount): Docker.MountSettings {
  return {
    Type: "bind",
    Source: hostPath,
    Target: containerPath,
    ReadOnly: readonly,
    BindOptions: { Propagation: PROPAGATIONS[propagation] },
  };
}

/** A group without a user is ignored, as CRI requires. */
function userOf(security: Pick<LinuxContainerSecurityContext, "runAsUser" | "runAsGroup" | "runAsUsername">): { readonly User?: string } {
  const { runAsUser, runAsGroup, runAsUsername } = security;
  const user = runAsUser?.value ?? runAsUsername;
  if (user === undefined) return {};
  return { User: runAsGroup === undefined ? String(user) : `${user}:${runAsGroup.value}` };
}

function securityOf(
  security: LinuxSandboxSecurityContext & Pick<LinuxContainerSecurityContext, "noNewPrivs">,
  { seccompProfile }: Machine,
): Docker.HostConfig {
  const { privileged = false, readonlyRootfs = false, supplementalGroups = [], noNewPrivs, selinuxOptions, seccomp } = security;
  return {
    Privileged: privileged,
    ReadonlyRootfs: readonlyRootfs,
    GroupAdd: supplementalGroups.map(String),
    SecurityOpt: [
      ...(noNewPrivs === true ? ["no-new-privileges"] : []),
      ...(seccomp?.profileType === "Unconfined" ? ["seccomp=unconfined"] : []),
      ...(seccomp?.profileType === "Localhost" ? [`seccomp=${seccompProfile ?? ""}`] : []),
      ...selinuxLabels(selinuxOptions),
    ],
  };
}

function selinuxLabels(options: SELinuxOption = {}): readonly string[] {
  const words = ["user", "role", "type", "level"] as const;
  return words.flatMap((word) => (options[word] ? [`label=${word}:${options[word]}`] : []));
}

/** A privileged container has no masked or read-only paths. */
function pathsOf({ privileged, maskedPaths, readonlyPaths }: LinuxContainerSecurityContext): Docker.HostConfig {
  if (privileged === true) return { MaskedPaths: [], ReadonlyPaths: [] };
  return {
    ...(maskedPaths !== undefined && { MaskedPaths: [...maskedPaths] }),
    ...(readonlyPaths !== undefined && { ReadonlyPaths: [...readonlyPaths] }),
  };
}
