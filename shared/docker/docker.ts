/**
 * Cri on a Docker Engine: what the kubelet's dockerService and kubeDockerClient were, until Kubernetes 1.24 took them out. containerd,
 * over CRI, is what a node is meant to have.
 *
 * What Docker cannot do is Unimplemented, with a sentence (README.md has the table).
 */
import { CriError } from "@deltaloop/node-agent/ports";
import type { RuntimeCondition, Cri } from "@deltaloop/node-agent/ports";
import { createCheckpoints } from "./checkpoints.ts";
import { createCni } from "./cni.ts";
import type { CniOptions } from "./cni.ts";
import { asked, connect } from "./connection.ts";
import { createContainers } from "./containers.ts";
import { createImages } from "./images.ts";
import { createSandboxes } from "./sandboxes.ts";
import { portForwardSession } from "./streaming/port-forward.ts";
import { attachSession, execSession } from "./remote-command.ts";
import { createStreamingServer } from "./streaming/streaming-server.ts";

export interface DockerCri extends Cri {
  /** Where links at the places of CRI's logs lead (CR9). */
  logsDirectory(): Promise<string>;
  /** Ends the connection and the streaming server; calls under way fail. */
  close(): void;
}

export interface DockerCriOptions {
  /** `unix:///run/docker.sock` */
  readonly endpoint: string;
  /** What sandboxes are made of; it is pulled when it is not there. */
  readonly pauseImage: string;
  readonly cni: CniOptions;
  /** Checkpoints of sandboxes. */
  readonly stateDir: string;
}

/** As dockershim called itself. */
const RUNTIME_NAME = "docker";
const RUNTIME_API_VERSION = "v1";

/** @throws {TypeError} for an endpoint that is no Unix socket */
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
  // moby api: SystemInfo
  const info = async () => (await asked(() => docker.info())) as { readonly DockerRootDir: string; readonly CgroupDriver: string };

  return {
    ...images,
    ...containers,
    ...sandboxes,

    async version() {
      const { Version } = await asked(() => docker.version());
      return { runtimeName: RUNTIME_NAME, runtimeVersion: Version, runtimeApiVersion: RUNTIME_API_VERSION };
    },

    async status() {
      await info();
      return [{ type: "RuntimeReady", status: true, reason: "", message: "" }, networkCondition(await cni.problem())];
    },

    // Written as containerd does, so that image garbage collection keeps the sandbox image.
    statusInfo: async () => ({ config: JSON.stringify({ sandboxImage: pauseImage }) }),

    async runtimeConfig() {
      const { CgroupDriver } = await info();
      if (CgroupDriver === "systemd") return { cgroupDriver: "SYSTEMD" };
      if (CgroupDriver === "cgroupfs") return { cgroupDriver: "CGROUPFS" };
      throw new CriError("Unimplemented", `Docker has cgroup driver "${CgroupDriver}", which no agent knows`);
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
