/**
 * Operations that Docker's API does not offer, on the host that the agent shares with the daemon, and calls that sandboxes and containers
 * share.
 */
import { readFile, writeFile } from "node:fs/promises";

import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { PodSandboxConfig, SecurityProfile } from "@deltaloop/node-agent/ports";
import { callDocker, ifExists } from "./connection.ts";
import type { Machine } from "./create-options.ts";

const CAP_SYS_RESOURCE = 24n;
const OOM_SCORE_MIN = -1000;

/** @throws {CriError} if the profile cannot be read */
export async function machineFor(seccomp: SecurityProfile | undefined): Promise<Machine> {
  const oomScoreAdjMin = await lowestOomScore();
  if (seccomp?.profileType !== "Localhost") return { oomScoreAdjMin };
  const path = seccomp.localhostRef ?? "";
  try {
    const profile: unknown = JSON.parse(await readFile(path, "utf8"));
    return { oomScoreAdjMin, seccompProfile: JSON.stringify(profile) };
  } catch (error) {
    throw new CriError("InvalidArgument", `failed to load seccomp profile "${path}": ${String(error)}`, { cause: error });
  }
}

/**
 * Without CAP_SYS_RESOURCE, a process cannot set a score below its own, and runc fails without a message.
 * Source: containerd docs/cri/config.md restrict_oom_score_adj.
 */
async function lowestOomScore(): Promise<number> {
  const status = await readFile("/proc/self/status", "utf8").catch(() => "");
  const effective = BigInt(`0x${/^CapEff:\s*([\da-f]+)$/mu.exec(status)?.[1] ?? "0"}`);
  if ((effective >> CAP_SYS_RESOURCE) % 2n === 1n) return OOM_SCORE_MIN;
  return Number(await readFile("/proc/self/oom_score_adj", "utf8").catch(() => "0"));
}

/** Returns a path that is valid in the PID namespace shared with the daemon. Source: pkg/kubelet/dockershim/network/cni/cni.go. */
export function networkNamespace(pid: number): string {
  return `/proc/${pid}/ns/net`;
}

/**
 * Replaces the resolv.conf file that Docker wrote. All containers that join the sandbox's network share this file. Source: dockershim
 * rewriteResolvFile.
 */
export async function writeResolvConf(path: string, dns: NonNullable<PodSandboxConfig["dnsConfig"]>): Promise<void> {
  const { servers = [], searches = [], options = [] } = dns;
  const lines = [
    ...servers.map((server) => `nameserver ${server}`),
    ...(searches.length > 0 ? [`search ${searches.join(" ")}`] : []),
    ...(options.length > 0 ? [`options ${options.join(" ")}`] : []),
  ];
  await writeFile(path, lines.map((line) => `${line}\n`).join(""));
}

/** Creates a container with this name. @returns its id @throws {CriError} AlreadyExists if the name is in use (CR3) */
export async function createNamed(docker: Docker, name: string, options: Docker.ContainerCreateOptions): Promise<string> {
  try {
    // If the options were passed directly, dockerode would also put all of them into the URL.
    const parts = (abortSignal: AbortSignal): object => ({ _query: { name }, _body: options, abortSignal });
    return (await callDocker((abortSignal) => docker.createContainer(parts(abortSignal)))).id;
  } catch (error) {
    if (!(error instanceof CriError) || error.code !== "FailedPrecondition" || !error.message.includes("is already in use")) throw error;
    const owner = /by container "([\da-f]+)"/u.exec(error.message)?.[1] ?? "another container";
    throw new CriError("AlreadyExists", `name "${name}" is reserved for "${owner}"`, { cause: error });
  }
}

/** Kills a container and waits until it has exited; succeeds if the container does not exist or is not running. */
export async function killed(docker: Docker, id: string): Promise<void> {
  const container = docker.getContainer(id);
  await callDocker((abortSignal) => container.kill({ signal: "SIGKILL", abortSignal })).catch((error: unknown) => {
    const isOver = error instanceof CriError && (error.code === "NotFound" || error.code === "FailedPrecondition");
    if (!isOver) throw error;
  });
  await ifExists(callDocker((abortSignal) => container.wait({ condition: "not-running", abortSignal })));
}
