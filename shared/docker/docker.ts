/**
 * Implements Cri on Docker Engine, like the kubelet's dockerService and kubeDockerClient before Kubernetes 1.24. Prefer containerd over
 * CRI for nodes. Unsupported features fail with Unimplemented (table in README.md).
 */
import { CriError } from "@deltaloop/node-agent/ports";
import type { RuntimeCondition, Cri } from "@deltaloop/node-agent/ports";
import { createCheckpoints } from "./checkpoints.ts";
import { createCni } from "./cni.ts";
import type { CniOptions } from "./cni.ts";
import { callDocker, connect } from "./connection.ts";
import { createContainers } from "./containers.ts";
import { createImages } from "./images.ts";
import { createSandboxes } from "./sandboxes.ts";
import { portForwardSession } from "./streaming/port-forward.ts";
import { attachSession, execSession } from "./remote-command.ts";
import { createStreamingServer } from "./streaming/streaming-server.ts";

export interface DockerCri extends Cri {
  /** Returns the directory to which the links at CRI's log paths point (CR9). */
  logsDirectory(): Promise<string>;
  /** Closes the connection and the streaming server; pending calls fail. */
  close(): void;
}

export interface DockerCriOptions {
  /** `unix:///run/docker.sock` */
  readonly endpoint: string;
  /** The image of sandbox containers; pulled on demand. */
  readonly pauseImage: string;
  readonly cni: CniOptions;
  /** Directory of the sandbox checkpoints. */
  readonly stateDir: string;
}

/** Name of the runtime, as in dockershim. */
const RUNTIME_NAME = "docker";
const RUNTIME_API_VERSION = "v1";

/** @throws {TypeError} unless the endpoint is a Unix socket */
export function createDockerCri({ endpoint, pauseImage, cni: cniOptions, stateDir }: DockerCriOptions): DockerCri {
  const { docker, close } = connect(endpoint);
  const cni = createCni(cniOptions);
  const images = createImages(docker);
  const { mustRun, killAllOf, removeAllOf, ...containers } = createContainers(docker);
  const { networkOf, ...sandboxes } = createSandboxes({
    docker,
    cni,
    checkpoints: createCheckpoints(stateDir),
    images,
    containers: { ...containers, mustRun, killAllOf, removeAllOf },
    pauseImage,
  });
  const streams = createStreamingServer();
  // the Docker API returns SystemInfo
  const info = async () => (await callDocker(() => docker.info())) as { readonly DockerRootDir: string; readonly CgroupDriver: string };

  return {
    ...images,
    ...containers,
    ...sandboxes,

    async version() {
      const { Version } = await callDocker(() => docker.version());
      return { runtimeName: RUNTIME_NAME, runtimeVersion: Version, runtimeApiVersion: RUNTIME_API_VERSION };
    },

    async status() {
      await info();
      return [{ type: "RuntimeReady", status: true, reason: "", message: "" }, networkCondition(await cni.problem())];
    },

    // Uses containerd's format, so that image garbage collection recognizes the sandbox image and keeps it.
    statusInfo: async () => ({ config: JSON.stringify({ sandboxImage: pauseImage }) }),

    async runtimeConfig() {
      const { CgroupDriver } = await info();
      if (CgroupDriver === "systemd") return { cgroupDriver: "SYSTEMD" };
      if (CgroupDriver === "cgroupfs") return { cgroupDriver: "CGROUPFS" };
      throw new CriError("Unimplemented", `Docker uses an unknown cgroup driver: "${CgroupDriver}"`);
    },

    async exec(request) {
      await mustRun(request.containerId);
      return await streams.address(execSession(docker, request));
    },

    async attach(request) {
      await mustRun(request.containerId);
      return await streams.address(attachSession(docker, request));
    },

    async portForward(podSandboxId) {
      return await streams.address(portForwardSession(podSandboxId, await networkOf(podSandboxId)));
    },

    logsDirectory: async () => `${(await info()).DockerRootDir}/containers`,

    close() {
      streams.close();
      close();
    },
  };
}

/** Source: pkg/kubelet/dockershim/docker_service.go Status (Kubernetes v1.23). */
function networkCondition(problem: string | undefined): RuntimeCondition {
  const type = "NetworkReady";
  if (problem === undefined) return { type, status: true, reason: "", message: "" };
  return { type, status: false, reason: "NetworkPluginNotReady", message: `docker: network plugin is not ready: ${problem}` };
}
