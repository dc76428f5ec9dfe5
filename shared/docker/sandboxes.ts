/**
 * Pod sandboxes on Docker. A sandbox is a container of the pause image with a CNI network; the pod's other containers join its namespaces.
 *
 * SB1 a sandbox is READY while its container runs and its network is attached.
 * SB2 a start writes the checkpoint, starts the container and attaches the network; a removal runs in reverse order.
 * SB3 a checkpoint whose container was removed externally is a NotReady sandbox, so that its network is released (DK1).
 *
 * Source: pkg/kubelet/dockershim/docker_sandbox.go RunPodSandbox, StopPodSandbox, ListPodSandbox (Kubernetes v1.23).
 */
import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { PodSandbox, PodSandboxConfig, Cri } from "@deltaloop/node-agent/ports";
import type { Checkpoint, Checkpoints } from "./checkpoints.ts";
import { addressesOf } from "./cni.ts";
import type { Cni } from "./cni.ts";
import { callDocker, ifExists, inspectContainer } from "./connection.ts";
import type { DockerContainers } from "./containers.ts";
import { sandboxOptions } from "./create-options.ts";
import type { DockerImages } from "./images.ts";
import { hasLabels, sandboxRecord, readSandbox, sandboxName, TYPE } from "./records.ts";
import type { SandboxRecord } from "./records.ts";
import { createNamed, killed, machineFor, networkNamespace, writeResolvConf } from "./machine.ts";

export interface DockerSandboxes extends Pick<
  Cri,
  "runPodSandbox" | "stopPodSandbox" | "removePodSandbox" | "podSandboxStatus" | "listPodSandbox"
> {
  /** Returns the file of the sandbox's network namespace. @throws {CriError} if the sandbox is missing or is not running */
  networkOf(podSandboxId: string): Promise<string>;
}

export interface SandboxPorts {
  readonly docker: Docker;
  readonly cni: Cni;
  readonly checkpoints: Checkpoints;
  readonly images: DockerImages;
  readonly containers: DockerContainers;
  readonly pauseImage: string;
}

export function createSandboxes(ports: SandboxPorts): DockerSandboxes {
  const { docker, cni, checkpoints, containers, images, pauseImage } = ports;

  const run = async (id: string, config: PodSandboxConfig, kept: SandboxRecord): Promise<void> => {
    await checkpoints.save(id, { kept });
    await callDocker((abortSignal) => docker.getContainer(id).start({ abortSignal }));
    const { State, ResolvConfPath } = await callDocker((abortSignal) => docker.getContainer(id).inspect({ abortSignal }));
    if (config.dnsConfig !== undefined) await writeResolvConf(ResolvConfPath, config.dnsConfig);
    if (kept.namespaces.network === "NODE") return;
    const pod = { containerId: id, netns: networkNamespace(State.Pid), metadata: kept.metadata };
    // Saved before the sandbox is attached, so that a restarted agent can detach it.
    const attachment = { network: await cni.network(), portMappings: config.portMappings ?? [], result: {} };
    await checkpoints.save(id, { kept, attachment });
    await checkpoints.save(id, { kept, attachment: await cni.add(pod, attachment.portMappings) });
  };

  const disconnect = async (id: string, pid: number): Promise<void> => {
    const checkpoint = (await checkpoints.all()).get(id);
    if (checkpoint?.attachment === undefined) return;
    const { kept, attachment } = checkpoint;
    await cni.remove({ containerId: id, ...(pid > 0 && { netns: networkNamespace(pid) }), metadata: kept.metadata }, attachment);
    await checkpoints.save(id, { kept });
  };

  const stop = async (id: string): Promise<void> => {
    await containers.killAllOf(id);
    const found = await inspectContainer(docker, id);
    if (found === undefined) return await disconnect(id, 0);
    if (readSandbox(found.Name, found.Config.Labels) === undefined) return;
    // Kills the container even if the network teardown fails, and then throws the teardown's error.
    const disconnected = await disconnect(id, found.State.Pid).catch((error: unknown) => ({ error }));
    await killed(docker, id);
    if (disconnected !== undefined) throw disconnected.error;
  };

  const remove = async (id: string): Promise<void> => {
    await stop(id);
    await containers.removeAllOf(id);
    const found = await inspectContainer(docker, id);
    if (found !== undefined && readSandbox(found.Name, found.Config.Labels) !== undefined)
      await ifExists(callDocker((abortSignal) => docker.getContainer(id).remove({ force: true, v: true, abortSignal })));
    await checkpoints.remove(id);
  };

  const list = async (): Promise<readonly PodSandbox[]> => {
    const [found, known] = await Promise.all([
      callDocker((abortSignal) => docker.listContainers({ all: true, filters: { label: [`${TYPE}=podsandbox`] }, abortSignal })),
      checkpoints.all(),
    ]);
    const existing = found.flatMap(({ Id, Names, Labels, State }) => {
      const kept = readSandbox(Names[0], Labels);
      return kept === undefined ? [] : [sandboxOf(Id, kept, State === "running", known.get(Id))];
    });
    const ids = new Set(found.map(({ Id }) => Id));
    const gone = [...known].filter(([id]) => !ids.has(id)).map(([id, { kept }]) => sandboxOf(id, kept, false, undefined));
    return [...existing, ...gone];
  };

  return {
    async runPodSandbox(config, runtimeHandler = "") {
      if (runtimeHandler !== "") throw new CriError("Unimplemented", `RuntimeHandler "${runtimeHandler}" is not supported with Docker`);
      if ((await images.imageStatus({ image: pauseImage })) === undefined) await images.pullImage({ image: pauseImage });
      const kept = sandboxRecord(config, Date.now());
      const machine = await machineFor(config.linux?.securityContext?.seccomp);
      const id = await createNamed(docker, sandboxName(kept.metadata), sandboxOptions(config, kept, { image: pauseImage, machine }));
      try {
        await run(id, config, kept);
        return id;
      } catch (error) {
        await remove(id).catch(() => undefined); // if the removal fails, the sandbox stays NotReady
        throw error;
      }
    },

    stopPodSandbox: stop,
    removePodSandbox: remove,

    async networkOf(id) {
      const found = await inspectContainer(docker, id);
      if (found === undefined || readSandbox(found.Name, found.Config.Labels) === undefined)
        throw new CriError("NotFound", `sandbox "${id}" not found`);
      if (!found.State.Running) throw new CriError("FailedPrecondition", `sandbox "${id}" is not running`);
      return networkNamespace(found.State.Pid);
    },

    async podSandboxStatus(id) {
      const [found, known] = await Promise.all([inspectContainer(docker, id), checkpoints.all()]);
      const checkpoint = known.get(id);
      const kept = found === undefined ? checkpoint?.kept : readSandbox(found.Name, found.Config.Labels);
      if (kept === undefined) throw new CriError("NotFound", `sandbox "${id}" not found`);
      const sandbox = sandboxOf(id, kept, found?.State.Running === true, checkpoint);
      const [ip = "", ...additionalIps] = sandbox.state === "SANDBOX_READY" ? addressesOf(checkpoint?.attachment?.result ?? {}) : [];
      return { ...sandbox, network: { ip, additionalIps }, namespaceOptions: kept.namespaces };
    },

    async listPodSandbox(filter = {}) {
      const fits = ({ id, state, labels }: PodSandbox): boolean =>
        (filter.id ?? id) === id && (filter.state ?? state) === state && hasLabels(labels, filter.labelSelector);
      return (await list()).filter(fits);
    },
  };
}

function sandboxOf(id: string, kept: SandboxRecord, runs: boolean, checkpoint: Checkpoint | undefined): PodSandbox {
  const { metadata, labels, annotations, createdAtMs, namespaces } = kept;
  const connected = namespaces.network === "NODE" || addressesOf(checkpoint?.attachment?.result ?? {}).length > 0;
  return { id, metadata, state: runs && connected ? "SANDBOX_READY" : "SANDBOX_NOTREADY", createdAtMs, labels, annotations };
}
