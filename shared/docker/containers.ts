/**
 * Containers of pods on Docker.
 *
 * CO1 Docker can start an exited container again; CRI starts a container only once. The adapter therefore checks the state first. This is
 *     safe because only one agent manages the node's containers.
 * CO2 the log is the file of Docker's json-file driver, behind a link at CRI's log path, so that logging continues while the agent is
 *     down (CR9). Docker rotates it, and removes it with the container.
 *
 * Source: pkg/kubelet/dockershim/docker_container.go, docker_logs.go, docker_stats_linux.go (Kubernetes v1.23).
 */
import { lstat, mkdir, readlink, symlink, unlink } from "node:fs/promises";
import { dirname } from "node:path";

import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { Container, ContainerState, ContainerStats, Cri } from "@deltaloop/node-agent/ports";
import { callDocker, ifExists, inspectContainer, REQUEST_MS } from "./connection.ts";
import { containerStats, containerStatus, inspectedState, listedState } from "./container-status.ts";
import { containerOptions, updateOptions } from "./create-options.ts";
import { execSync } from "./exec.ts";
import { containerName, hasLabels, containerRecord, readContainer, readSandbox, TYPE } from "./records.ts";
import type { ContainerRecord } from "./records.ts";
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
  /** @throws {CriError} if the container is missing or is not running */
  mustRun(containerId: string): Promise<Docker.ContainerInspectInfo>;
}

interface Listed {
  readonly info: Docker.ContainerInfo;
  readonly kept: ContainerRecord;
}

export function createContainers(docker: Docker): DockerContainers {
  const inspect = async (id: string): Promise<{ readonly inspected: Docker.ContainerInspectInfo; readonly kept: ContainerRecord }> => {
    const inspected = await inspectContainer(docker, id);
    const kept = inspected && readContainer(inspected.Name, inspected.Config.Labels);
    if (inspected === undefined || kept === undefined) throw new CriError("NotFound", `container "${id}" not found`);
    return { inspected, kept };
  };

  const listed = async (): Promise<readonly Listed[]> => {
    const filters = { label: [`${TYPE}=container`] };
    const found = await callDocker((abortSignal) => docker.listContainers({ all: true, filters, abortSignal }));
    return found.flatMap((info) => {
      const kept = readContainer(info.Names[0], info.Labels);
      return kept === undefined ? [] : [{ info, kept }];
    });
  };

  const ofSandbox = async (id: string): Promise<readonly Listed[]> => (await listed()).filter(({ kept }) => kept.podSandboxId === id);

  const stateOf = async ({ info }: Listed): Promise<ContainerState | undefined> => {
    const state = listedState(info.State);
    if (state !== undefined) return state;
    const inspected = await inspectContainer(docker, info.Id);
    return inspected && inspectedState(inspected);
  };

  const mustRun = async (id: string): Promise<Docker.ContainerInspectInfo> => {
    const { inspected } = await inspect(id);
    const state = inspectedState(inspected);
    if (state !== "CONTAINER_RUNNING") throw new CriError("FailedPrecondition", `container is in ${state} state`);
    return inspected;
  };

  const remove = async (id: string, { logPath }: ContainerRecord): Promise<void> => {
    await ifExists(callDocker((abortSignal) => docker.getContainer(id).remove({ force: true, v: true, abortSignal })));
    if (await isLink(logPath)) await unlink(logPath).catch(() => undefined); // the target of the link no longer exists
  };

  const stats = async (id: string, kept: ContainerRecord, runs: boolean): Promise<ContainerStats | undefined> => {
    const container = docker.getContainer(id);
    const [measured, sized] = await Promise.all([
      runs ? ifExists(callDocker(() => container.stats({ stream: false, "one-shot": true }))) : undefined,
      ifExists(callDocker((abortSignal) => container.inspect({ size: true, abortSignal } as Docker.ContainerInspectOptions))),
    ]);
    const { SizeRw } = (sized ?? {}) as { readonly SizeRw?: number }; // the Docker API returns this field with ?size=1
    return sized && containerStats(id, kept, measured, SizeRw);
  };

  return {
    mustRun,

    async createContainer(podSandboxId, config, sandboxConfig) {
      const sandbox = await inspectContainer(docker, podSandboxId);
      const pod = sandbox && readSandbox(sandbox.Name, sandbox.Config.Labels);
      if (pod === undefined) throw new CriError("NotFound", `sandbox "${podSandboxId}" not found`);
      const kept = containerRecord(podSandboxId, config, sandboxConfig, Date.now());
      const machine = await machineFor(config.linux?.securityContext?.seccomp);
      const options = containerOptions(config, sandboxConfig, kept, machine);
      // Other runtimes create missing mount sources. Docker does so only for `Binds`, which is not used here.
      for (const { hostPath } of config.mounts ?? []) await makeIfMissing(hostPath);
      return await createNamed(docker, containerName(kept.metadata, pod.metadata), options);
    },

    async startContainer(id) {
      const { inspected, kept } = await inspect(id);
      const state = inspectedState(inspected);
      if (state !== "CONTAINER_CREATED") throw new CriError("FailedPrecondition", `container "${id}" is in ${state} state`);
      try {
        await callDocker((abortSignal) => docker.getContainer(id).start({ abortSignal }));
      } finally {
        await linkLog(docker, id, kept);
      }
    },

    async stopContainer(id, timeoutSeconds) {
      const found = await ifExists(inspect(id));
      if (found === undefined) return;
      if (timeoutSeconds <= 0) return await killed(docker, id);
      const timeoutMs = REQUEST_MS + timeoutSeconds * 1_000;
      await callDocker((abortSignal) => docker.getContainer(id).stop({ t: timeoutSeconds, abortSignal }), { timeoutMs }).catch(
        unlessStopped,
      );
    },

    async removeContainer(id) {
      const found = await ifExists(inspect(id));
      if (found !== undefined) await remove(id, found.kept);
    },

    async containerStatus(id) {
      const { inspected, kept } = await inspect(id);
      const image = await ifExists(callDocker(() => docker.getImage(inspected.Image).inspect()));
      // The agent may have crashed between the start and the creation of the link.
      if (inspected.State.Running && kept.logPath !== "" && !(await isLink(kept.logPath))) await linkLog(docker, id, kept);
      return containerStatus(inspected, kept, image);
    },

    async updateContainerResources(id, resources) {
      await inspect(id);
      await callDocker((abortSignal) => docker.getContainer(id).update({ _body: updateOptions(resources), abortSignal }));
    },

    async listContainers(filter = {}) {
      const found: Container[] = [];
      for (const one of await listed()) {
        const { info, kept } = one;
        const { podSandboxId, metadata, image, createdAtMs, labels, annotations } = kept;
        const fits = (filter.id ?? info.Id) === info.Id && (filter.podSandboxId ?? podSandboxId) === podSandboxId;
        if (!fits || !hasLabels(labels, filter.labelSelector)) continue;
        const state = await stateOf(one);
        if (state === undefined || (filter.state ?? state) !== state) continue; // skips a container that was removed or whose state has changed
        const ids = { id: info.Id, podSandboxId, imageRef: info.ImageID, imageId: info.ImageID };
        found.push({ ...ids, metadata, image, state, createdAtMs, labels, annotations });
      }
      return found;
    },

    reopenContainerLog: async () => {
      throw new CriError("Unimplemented", "Docker cannot reopen a log: its json-file driver rotates logs");
    },

    async execSync(id, cmd, timeoutSeconds, options = {}) {
      await mustRun(id);
      return await execSync(docker, id, cmd, { ...options, timeoutSeconds });
    },

    async containerStats(id) {
      const { inspected, kept } = await inspect(id);
      const found = await stats(id, kept, inspected.State.Running);
      if (found === undefined) throw new CriError("NotFound", `container "${id}" not found`);
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

/** docker-modem reports 304 (already stopped) as an error, which is ignored here. */
function unlessStopped(error: unknown): void {
  const { statusCode } = (error instanceof CriError ? (error.cause as { readonly statusCode?: number } | undefined) : undefined) ?? {};
  if (statusCode !== 304 && statusCode !== 404) throw error;
}

/** Links CRI's log path to Docker's log file; does nothing without a log path. */
async function linkLog(docker: Docker, id: string, { logPath }: ContainerRecord): Promise<void> {
  if (logPath === "") return;
  const found = await inspectContainer(docker, id);
  if (found === undefined || found.LogPath === "") return; // not started yet
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
