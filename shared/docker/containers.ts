/**
 * A pod's containers on Docker.
 *
 * CO1 Docker would start again what has ended; CRI starts once. So it is looked at first: one agent has the containers of a node.
 * CO2 the log is Docker's own file, of its json-file driver, behind a link at the place that CRI names: nothing stands between the
 *     container and its log, whatever becomes of us (CR9). Docker rotates it, and takes it away with the container.
 *
 * Source: pkg/kubelet/dockershim/docker_container.go, docker_logs.go, docker_stats_linux.go (Kubernetes v1.23).
 */
import { lstat, mkdir, readlink, symlink, unlink } from "node:fs/promises";
import { dirname } from "node:path";

import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { Container, ContainerState, ContainerStats, Cri } from "@deltaloop/node-agent/ports";
import { asked, ifThere, REQUEST_MS } from "./connection.ts";
import { containerStats, containerStatus, inspectedState, listedState } from "./container-status.ts";
import { containerOptions, updateOptions } from "./create-options.ts";
import { execSync } from "./exec.ts";
import { containerName, hasLabels, keptContainer, readContainer, readSandbox, TYPE } from "./kept.ts";
import type { KeptContainer } from "./kept.ts";
import { createNamed, killed, machineFor } from "./machine.ts";

type Verbs =
  | "createContainer"
  | "startContainer"
  | "stopContainer"
  | "removeContainer"
  | "containerStatus"
  | "updateContainerResources"
  | "listContainers"
  | "reopenContainerLog"
  | "execSync"
  | "containerStats"
  | "listContainerStats";

export interface DockerContainers extends Pick<Cri, Verbs> {
  killAllOf(podSandboxId: string): Promise<void>;
  removeAllOf(podSandboxId: string): Promise<void>;
  /** @throws {CriError} when it is not there, or does not run */
  mustRun(containerId: string): Promise<Docker.ContainerInspectInfo>;
}

interface Listed {
  readonly info: Docker.ContainerInfo;
  readonly kept: KeptContainer;
}

export function createContainers(docker: Docker): DockerContainers {
  const inspect = async (id: string): Promise<{ readonly inspected: Docker.ContainerInspectInfo; readonly kept: KeptContainer }> => {
    const inspected = await ifThere(asked((abortSignal) => docker.getContainer(id).inspect({ abortSignal })));
    const kept = inspected && readContainer(inspected.Name, inspected.Config.Labels);
    if (inspected === undefined || kept === undefined) throw new CriError("NotFound", `no container "${id}"`);
    return { inspected, kept };
  };

  const listed = async (): Promise<readonly Listed[]> => {
    const filters = { label: [`${TYPE}=container`] };
    const found = await asked((abortSignal) => docker.listContainers({ all: true, filters, abortSignal }));
    return found.flatMap((info) => {
      const kept = readContainer(info.Names[0], info.Labels);
      return kept === undefined ? [] : [{ info, kept }];
    });
  };

  const ofSandbox = async (id: string): Promise<readonly Listed[]> => (await listed()).filter(({ kept }) => kept.podSandboxId === id);

  const stateOf = async ({ info }: Listed): Promise<ContainerState | undefined> => {
    const state = listedState(info.State);
    if (state !== undefined) return state;
    const inspected = await ifThere(asked((abortSignal) => docker.getContainer(info.Id).inspect({ abortSignal })));
    return inspected && inspectedState(inspected);
  };

  const mustRun = async (id: string): Promise<Docker.ContainerInspectInfo> => {
    const { inspected } = await inspect(id);
    const state = inspectedState(inspected);
    if (state !== "CONTAINER_RUNNING") throw new CriError("FailedPrecondition", `container is in ${state} state`);
    return inspected;
  };

  const remove = async (id: string, { logPath }: KeptContainer): Promise<void> => {
    await ifThere(asked((abortSignal) => docker.getContainer(id).remove({ force: true, v: true, abortSignal })));
    if (await isLink(logPath)) await unlink(logPath).catch(() => undefined); // the file it led to has gone
  };

  const stats = async (id: string, kept: KeptContainer, runs: boolean): Promise<ContainerStats | undefined> => {
    const container = docker.getContainer(id);
    const [measured, sized] = await Promise.all([
      runs ? ifThere(asked(() => container.stats({ stream: false, "one-shot": true }))) : undefined,
      ifThere(asked((abortSignal) => container.inspect({ size: true, abortSignal } as Docker.ContainerInspectOptions))),
    ]);
    const { SizeRw } = (sized ?? {}) as { readonly SizeRw?: number }; // moby api: with ?size=1
    return sized && containerStats(id, kept, measured, SizeRw);
  };

  return {
    mustRun,

    async createContainer(podSandboxId, config, sandboxConfig) {
      const sandbox = await ifThere(asked((abortSignal) => docker.getContainer(podSandboxId).inspect({ abortSignal })));
      const pod = sandbox && readSandbox(sandbox.Name, sandbox.Config.Labels);
      if (pod === undefined) throw new CriError("NotFound", `no sandbox "${podSandboxId}"`);
      const kept = keptContainer(podSandboxId, config, sandboxConfig, Date.now());
      const machine = await machineFor(config.linux?.securityContext?.seccomp);
      const options = containerOptions(config, sandboxConfig, kept, machine);
      // Other runtimes make what is to be mounted and is not there; so does Docker for `Binds`, which is not used here.
      for (const { hostPath } of config.mounts ?? []) await makeIfMissing(hostPath);
      return await createNamed(docker, containerName(kept.metadata, pod.metadata), options);
    },

    async startContainer(id) {
      const { inspected, kept } = await inspect(id);
      const state = inspectedState(inspected);
      if (state !== "CONTAINER_CREATED") throw new CriError("FailedPrecondition", `container "${id}" is in ${state} state`);
      try {
        await asked((abortSignal) => docker.getContainer(id).start({ abortSignal }));
      } finally {
        await linkLog(docker, id, kept);
      }
    },

    async stopContainer(id, timeoutSeconds) {
      const found = await ifThere(inspect(id));
      if (found === undefined) return;
      if (timeoutSeconds <= 0) return await killed(docker, id);
      const timeoutMs = REQUEST_MS + timeoutSeconds * 1_000;
      await asked((abortSignal) => docker.getContainer(id).stop({ t: timeoutSeconds, abortSignal }), { timeoutMs }).catch(unlessStopped);
    },

    async removeContainer(id) {
      const found = await ifThere(inspect(id));
      if (found !== undefined) await remove(id, found.kept);
    },

    async containerStatus(id) {
      const { inspected, kept } = await inspect(id);
      const image = await ifThere(asked(() => docker.getImage(inspected.Image).inspect()));
      // We may have died between its start and its link.
      if (inspected.State.Running && kept.logPath !== "" && !(await isLink(kept.logPath))) await linkLog(docker, id, kept);
      return containerStatus(inspected, kept, image);
    },

    async updateContainerResources(id, resources) {
      await inspect(id);
      await asked((abortSignal) => docker.getContainer(id).update({ _body: updateOptions(resources), abortSignal }));
    },

    async listContainers(filter = {}) {
      const found: Container[] = [];
      for (const one of await listed()) {
        const { info, kept } = one;
        const { podSandboxId, metadata, image, createdAtMs, labels, annotations } = kept;
        const fits = (filter.id ?? info.Id) === info.Id && (filter.podSandboxId ?? podSandboxId) === podSandboxId;
        if (!fits || !hasLabels(labels, filter.labelSelector)) continue;
        const state = await stateOf(one);
        if (state === undefined || (filter.state ?? state) !== state) continue; // it has just gone, or is another's
        const ids = { id: info.Id, podSandboxId, imageRef: info.ImageID, imageId: info.ImageID };
        found.push({ ...ids, metadata, image, state, createdAtMs, labels, annotations });
      }
      return found;
    },

    reopenContainerLog: async () => {
      throw new CriError("Unimplemented", "Docker does not reopen a log: its json-file driver rotates it");
    },

    async execSync(id, cmd, timeoutSeconds, options = {}) {
      await mustRun(id);
      return await execSync(docker, id, cmd, { ...options, timeoutSeconds });
    },

    async containerStats(id) {
      const { inspected, kept } = await inspect(id);
      const found = await stats(id, kept, inspected.State.Running);
      if (found === undefined) throw new CriError("NotFound", `no container "${id}"`);
      return found;
    },

    async listContainerStats(filter = {}) {
      const wanted = (await listed()).filter(
        ({ info, kept }) =>
          (filter.id ?? info.Id) === info.Id &&
          (filter.podSandboxId ?? kept.podSandboxId) === kept.podSandboxId &&
          hasLabels(kept.labels, filter.labelSelector),
      );
      const found = await Promise.all(wanted.map(({ info, kept }) => stats(info.Id, kept, info.State === "running")));
      return found.filter((one) => one !== undefined);
    },

    async killAllOf(podSandboxId) {
      const running = (await ofSandbox(podSandboxId)).filter(({ info }) => listedState(info.State) === "CONTAINER_RUNNING");
      await Promise.all(running.map(({ info }) => killed(docker, info.Id)));
    },

    async removeAllOf(podSandboxId) {
      await Promise.all((await ofSandbox(podSandboxId)).map(({ info, kept }) => remove(info.Id, kept)));
    },
  };
}

/** docker-modem says 304 by an error. */
function unlessStopped(error: unknown): void {
  const { statusCode } = (error instanceof CriError ? (error.cause as { readonly statusCode?: number } | undefined) : undefined) ?? {};
  if (statusCode !== 304 && statusCode !== 404) throw error;
}

/** Without a folder for it, or a place in it, the container has no log that anybody would look for. */
async function linkLog(docker: Docker, id: string, { logPath }: KeptContainer): Promise<void> {
  if (logPath === "") return;
  const found = await ifThere(asked((abortSignal) => docker.getContainer(id).inspect({ abortSignal })));
  if (found === undefined || found.LogPath === "") return; // it did not come so far
  if ((await readlink(logPath).catch(() => undefined)) === found.LogPath) return;
  await mkdir(dirname(logPath), { recursive: true });
  await unlink(logPath).catch(() => undefined);
  await symlink(found.LogPath, logPath);
}

async function isLink(path: string): Promise<boolean> {
  return path !== "" && ((await lstat(path).catch(() => undefined))?.isSymbolicLink() ?? false);
}

async function makeIfMissing(path: string): Promise<void> {
  if ((await lstat(path).catch(() => undefined)) === undefined) await mkdir(path, { recursive: true });
}
