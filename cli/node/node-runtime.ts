/** Opens the container runtime: one that speaks CRI or, as until Kubernetes 1.24, a Docker Engine. */
import { join } from "node:path";
import type { Command } from "commander";
import { createCri } from "@deltaloop/node-agent/cri";
import type { createDockerCri } from "@deltaloop/docker";
import type { Cri } from "@deltaloop/node-agent/ports";
import { UsageError } from "@deltaloop/base";

export interface RuntimeFlags {
  readonly cri: string;
  readonly docker?: string;
  readonly podInfraContainerImage: string;
  readonly cniConfDir: string;
  /** Several paths are separated by colons or commas. */
  readonly cniBinDir: string;
}

export interface NodeRuntime {
  readonly cri: Cri;
  readonly endpoint: string;
  /** Target folder of the links among the pods' logs (CR9); read once the runtime answers. */
  logsDirectory(): Promise<string | undefined>;
  close(): void;
}

/** The pause image of Kubernetes 1.37. Source: cmd/kubeadm/app/constants PauseVersion. */
const PAUSE_IMAGE = "registry.k8s.io/pause:3.10.2";
/** Below the agent's root directory. */
const STATE_DIR = "docker-sandboxes";

/**
 * The last three options have the names of the kubelet's options for Docker, which were removed in 1.24 (that of the pause image later).
 */
export function addRuntimeFlags(command: Command): Command {
  return command
    .optionsGroup("Container runtime:")
    .option("--cri <endpoint>", "socket of the container runtime", "unix:///run/containerd/containerd.sock")
    .option("--docker <endpoint>", "socket of a Docker Engine to use instead of CRI, such as unix:///run/docker.sock")
    .option("--pod-infra-container-image <image>", "with --docker: image of pod sandboxes", PAUSE_IMAGE)
    .option("--cni-conf-dir <folder>", "with --docker: folder of CNI configurations, of which the first is used", "/etc/cni/net.d")
    .option("--cni-bin-dir <folders>", "with --docker: folders of CNI plugins", "/opt/cni/bin");
}

/** Opens the runtime that the options name. @throws {UsageError} for an endpoint that is not a Unix socket */
export async function openRuntime(flags: RuntimeFlags, rootDir: string): Promise<NodeRuntime> {
  try {
    if (flags.docker === undefined) {
      const cri = createCri(flags.cri);
      return { cri, endpoint: flags.cri, logsDirectory: async () => undefined, close: () => cri.close() };
    }
    const docker = await importDocker();
    const cri = docker.createDockerCri({
      endpoint: flags.docker,
      pauseImage: flags.podInfraContainerImage,
      cni: { confDir: flags.cniConfDir, binDirs: flags.cniBinDir.split(/[,:]/u) },
      stateDir: join(rootDir, STATE_DIR),
    });
    return { cri, endpoint: flags.docker, logsDirectory: () => cri.logsDirectory(), close: () => cri.close() };
  } catch (error) {
    throw error instanceof TypeError ? new UsageError(error.message) : error;
  }
}

/** Loads the Docker runtime, an optional peer dependency. @throws {UsageError} if it is not installed */
async function importDocker(): Promise<{ readonly createDockerCri: typeof createDockerCri }> {
  try {
    return await import("@deltaloop/docker");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND")
      throw new UsageError("--docker needs the package dockerode, which is not installed: npm install dockerode@5.0.1");
    throw error;
  }
}
