/**
 * A container runtime in memory, under the virtual clock. It has sandboxes with addresses, containers whose images have scripts, logs,
 * and optional faults. No process runs, but callers of the port see the same behaviour.
 */
import type { Clock, Random } from "@deltaloop/base";
import { CriError } from "../../ports/cri-error.ts";
import type { ContainerStats, PodSandbox, PodSandboxConfig, PodSandboxState, StringMap } from "../../ports/cri-types.ts";
import type { Cri } from "../../ports/cri.ts";
import { createMemoryContainer } from "./cri-containers.ts";
import type { MemoryContainer } from "./cri-containers.ts";
import { gated } from "./cri-gate.ts";
import type { CriFaults } from "./cri-gate.ts";
import { createCriImages } from "./cri-images.ts";
import { createMemoryLogs } from "./cri-log.ts";
import type { WriteLog } from "./cri-log.ts";
import { scriptFor } from "./cri-script.ts";
import type { ImageScript, RemoteImage } from "./cri-script.ts";

export interface MemoryCriOptions {
  readonly clock: Clock;
  /** Source of randomness; used only for faults. */
  readonly random: Random;
  /** Images that are already present, by name. */
  readonly images: Readonly<Record<string, ImageScript>>;
  /** Images that can be pulled. The pull of any other image fails. */
  readonly remoteImages?: Readonly<Record<string, RemoteImage>> | ((image: string) => RemoteImage | undefined);
  /** The first three octets of the pods' addresses. Default: `10.88.0`. */
  readonly subnet?: string;
  /** Writes a log line. By default, lines are kept in memory for `log()`. */
  readonly writeLog?: WriteLog;
  /** Methods that fail with Unimplemented. */
  readonly unimplemented?: readonly (keyof Cri)[];
  /** Returns the fault probabilities; called before each call. */
  readonly faults?: () => CriFaults;
}

export interface MemoryCri extends Cri {
  /** Returns the log at `path`. Empty if `writeLog` was given. */
  log(path: string): string;
  /** Stops or starts the runtime; containers and sandboxes keep running (CR12). */
  setRunning(running: boolean): void;
  /** Sets the NetworkReady condition. */
  setNetworkReady(ready: boolean): void;
  /** Makes a sandbox NOTREADY, while its containers keep running. */
  loseSandbox(id: string): void;
  /** Whether a ready container serves at this address (`readyAfterMs`). */
  answers(ip: string): boolean;
}

interface Sandbox {
  readonly id: string;
  readonly config: PodSandboxConfig;
  readonly createdAtMs: number;
  state: PodSandboxState;
  /** The address; empty if the sandbox has none or it was released. */
  ip: string;
}

/** First host number that is assigned to pods; .1 is the address of the machine. */
const FIRST_HOST = 2;
const HOSTS = 253;

export function createMemoryCri(options: MemoryCriOptions): MemoryCri {
  const { clock, random, subnet = "10.88.0" } = options;
  const { remoteImages = {} } = options;
  const remote = typeof remoteImages === "function" ? remoteImages : (image: string) => remoteImages[image];
  const images = createCriImages(clock, options.images, remote);
  const logs = createMemoryLogs();
  const writeLog = options.writeLog ?? logs.write;
  const sandboxes = new Map<string, Sandbox>();
  const containers = new Map<string, MemoryContainer>();
  const reserved = new Set<string>();
  let [ids, hosts, running, networkReady] = [0, 0, true, true];

  const newId = (): string => (++ids).toString(16).padStart(64, "0");
  const container = (id: string): MemoryContainer => containers.get(id) ?? notFound("container", id);
  const inSandbox = (id: string): readonly MemoryContainer[] => [...containers.values()].filter((each) => each.podSandboxId === id);
  const runningOne = (id: string): MemoryContainer => {
    const found = container(id);
    if (found.state() !== "CONTAINER_RUNNING") throw new CriError("Unknown", `container is in ${found.state()} state`);
    return found;
  };
  const reserve = (name: string): void => {
    if (reserved.has(name)) throw new CriError("Unknown", `name "${name}" is reserved`);
    reserved.add(name);
  };
  const freeIp = (): string => {
    const taken = new Set([...sandboxes.values()].map(({ ip }) => ip));
    for (let tried = 0; tried < HOSTS; tried++) {
      const ip = `${subnet}.${FIRST_HOST + (hosts++ % HOSTS)}`;
      if (!taken.has(ip)) return ip;
    }
    throw new CriError("Unknown", "failed to setup network for sandbox: no IP addresses available");
  };
  const dropContainer = (found: MemoryContainer): void => {
    found.kill();
    containers.delete(found.id);
    const sandbox = sandboxes.get(found.podSandboxId);
    if (sandbox) reserved.delete(containerName(found.config.metadata, sandbox.config));
  };
  const stopSandbox = (sandbox: Sandbox): void => {
    for (const each of inSandbox(sandbox.id)) each.kill();
    sandbox.state = "SANDBOX_NOTREADY";
    sandbox.ip = "";
  };
  const stats = (each: MemoryContainer): ContainerStats => ({
    id: each.id,
    metadata: each.config.metadata,
    labels: each.config.labels ?? {},
    cpu: { timestampMs: clock.now(), usageCoreNanoSeconds: 0 },
    memory: { timestampMs: clock.now(), workingSetBytes: each.script.memoryBytes ?? 0, usageBytes: each.script.memoryBytes ?? 0 },
  });

  const cri: Cri = {
    version: async () => ({ runtimeName: "memory", runtimeVersion: "1", runtimeApiVersion: "v1" }),
    status: async () => [
      { type: "RuntimeReady", status: true, reason: "", message: "" },
      { type: "NetworkReady", status: networkReady, reason: networkReady ? "" : "NetworkPluginNotReady", message: "" },
    ],
    statusInfo: async () => ({}),
    runtimeConfig: async () => ({ cgroupDriver: "CGROUPFS" }),

    async runPodSandbox(config) {
      const name = sandboxName(config);
      reserve(name);
      try {
        const ip = isOnHostNetwork(config) ? "" : freeIp();
        const sandbox: Sandbox = { id: newId(), config, createdAtMs: clock.now(), state: "SANDBOX_READY", ip };
        sandboxes.set(sandbox.id, sandbox);
        return sandbox.id;
      } catch (error) {
        reserved.delete(name);
        throw error;
      }
    },
    async stopPodSandbox(id) {
      const sandbox = sandboxes.get(id);
      if (sandbox) stopSandbox(sandbox);
    },
    async removePodSandbox(id) {
      const sandbox = sandboxes.get(id);
      if (!sandbox) return;
      stopSandbox(sandbox);
      for (const each of inSandbox(id)) dropContainer(each);
      sandboxes.delete(id);
      reserved.delete(sandboxName(sandbox.config));
    },
    async podSandboxStatus(id) {
      const sandbox = sandboxes.get(id) ?? notFound("sandbox", id);
      const namespaceOptions = sandbox.config.linux?.securityContext?.namespaceOptions;
      return { ...summary(sandbox), network: { ip: sandbox.ip, additionalIps: [] }, ...(namespaceOptions && { namespaceOptions }) };
    },
    async listPodSandbox({ id, state, labelSelector } = {}) {
      return [...sandboxes.values()]
        .map(summary)
        .filter((each) => is(id, each.id) && is(state, each.state) && hasLabels(each.labels, labelSelector));
    },

    async createContainer(podSandboxId, config, sandboxConfig) {
      const sandbox = sandboxes.get(podSandboxId) ?? notFound("sandbox", podSandboxId);
      const image = images.find(config.image.image) ?? notFound("image", config.image.image);
      if (sandbox.state !== "SANDBOX_READY") throw new CriError("Unknown", "the sandbox is not ready");
      reserve(containerName(config.metadata, sandbox.config));
      const script = scriptFor(image.script, config);
      const made = createMemoryContainer({ id: newId(), podSandboxId, config, sandboxConfig, imageRef: image.id, script, clock, writeLog });
      containers.set(made.id, made);
      return made.id;
    },
    startContainer: async (id) => container(id).start(),
    stopContainer: async (id, timeoutSeconds) => containers.get(id)?.stop(timeoutSeconds),
    async removeContainer(id) {
      const found = containers.get(id);
      if (found) dropContainer(found);
    },
    containerStatus: async (id) => container(id).status(),
    updateContainerResources: async (id, resources) => container(id).update(resources),
    async listContainers({ id, state, podSandboxId, labelSelector } = {}) {
      return [...containers.values()]
        .map((each) => each.summary())
        .filter(
          (each) =>
            is(id, each.id) && is(state, each.state) && is(podSandboxId, each.podSandboxId) && hasLabels(each.labels, labelSelector),
        );
    },
    // Lines are written by path, so there is no open file that must be reopened.
    reopenContainerLog: async (id) => void runningOne(id),
    async execSync(id, cmd, timeoutSeconds, { signal } = {}) {
      const { script, startedAtMs = 0 } = runningOne(id);
      const { afterMs = 0, stdout = "", stderr = "", exitCode = 0 } = script.exec?.(cmd, clock.now() - startedAtMs) ?? {};
      const limitMs = timeoutSeconds === 0 ? Number.POSITIVE_INFINITY : timeoutSeconds * 1_000;
      const canceled = (): never => {
        throw new CriError("Canceled", "aborted by the caller");
      };
      if (afterMs > 0) await clock.after(Math.min(afterMs, limitMs), signal).catch(canceled);
      if (afterMs > limitMs) throw new CriError("DeadlineExceeded", `timeout ${timeoutSeconds}s exceeded: context deadline exceeded`);
      return { stdout, stderr, exitCode };
    },
    exec: async ({ containerId }) => `http://127.0.0.1:0/exec/${runningOne(containerId).id}`,
    attach: async ({ containerId }) => `http://127.0.0.1:0/attach/${runningOne(containerId).id}`,
    portForward: async (id) => `http://127.0.0.1:0/portforward/${(sandboxes.get(id) ?? notFound("sandbox", id)).id}`,
    containerStats: async (id) => stats(container(id)),
    async listContainerStats({ id, podSandboxId, labelSelector } = {}) {
      const isMeant = (each: MemoryContainer): boolean =>
        is(id, each.id) && is(podSandboxId, each.podSandboxId) && hasLabels(each.config.labels ?? {}, labelSelector);
      return [...containers.values()].filter((each) => each.state() === "CONTAINER_RUNNING" && isMeant(each)).map(stats);
    },
    ...images,
  };

  return {
    ...gated(cri, {
      clock,
      random,
      isRunning: () => running,
      unimplemented: new Set(options.unimplemented),
      faults: options.faults ?? (() => ({})),
    }),
    log: logs.read,
    setRunning: (value) => void (running = value),
    setNetworkReady: (value) => void (networkReady = value),
    loseSandbox(id) {
      const sandbox = sandboxes.get(id) ?? notFound("sandbox", id);
      sandbox.state = "SANDBOX_NOTREADY";
    },
    answers(ip) {
      const sandbox = [...sandboxes.values()].find((each) => each.ip === ip);
      return [...(sandbox ? inSandbox(sandbox.id) : [])].some(({ script: { readyAfterMs }, startedAtMs, state }) => {
        if (state() !== "CONTAINER_RUNNING" || readyAfterMs === undefined || startedAtMs === undefined) return false;
        return clock.now() >= startedAtMs + readyAfterMs;
      });
    },
  };
}

function summary({ id, config, state, createdAtMs }: Sandbox): PodSandbox {
  return { id, metadata: config.metadata, state, createdAtMs, labels: config.labels ?? {}, annotations: config.annotations ?? {} };
}

function sandboxName({ metadata: { name, namespace, uid, attempt } }: PodSandboxConfig): string {
  return `${name}_${namespace}_${uid}_${attempt}`;
}

function containerName(
  { name, attempt }: { readonly name: string; readonly attempt: number },
  { metadata: pod }: PodSandboxConfig,
): string {
  return `${name}_${pod.name}_${pod.namespace}_${pod.uid}_${attempt}`;
}

function isOnHostNetwork({ linux }: PodSandboxConfig): boolean {
  return linux?.securityContext?.namespaceOptions?.network === "NODE";
}

function is<T>(wanted: T | undefined, value: T): boolean {
  return wanted === undefined || wanted === value;
}

function hasLabels(labels: StringMap, wanted: StringMap = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

function notFound(what: string, id: string): never {
  throw new CriError("NotFound", `${what} "${id}": not found`);
}
