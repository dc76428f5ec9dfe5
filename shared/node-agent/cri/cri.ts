/**
 * Implements Cri over gRPC (`runtime.v1`), for containerd or any other runtime on a Unix socket. Every method is one RPC. Some runtimes
 * return NotFound for stop and remove; `done` converts this to success (CR2).
 */
import { isNotFound } from "../ports/cri-error.ts";
import type { Cri } from "../ports/cri.ts";
import { connect } from "./connection.ts";
import type { CallOptions } from "./connection.ts";
import * as decode from "./decode.ts";
import { authConfig, containerConfig, wireFilter } from "./encode.ts";
import { ListReader } from "./listed.ts";
import { message, method } from "./load.ts";
import type { Answers, WireContainer, WirePodSandbox } from "./wire.ts";

/** Default deadline (node-agent §1). */
const REQUEST_MS = 120_000;
const RUN_POD_SANDBOX_MS = 240_000;
/** Runtimes store a duration as nanoseconds in a signed 64-bit integer. A pod may request longer durations, which would overflow. */
const SECONDS_MAX = Math.floor(2 ** 63 / 1_000_000_000);
/** The version that the kubelet sends; runtimes ignore it. */
const KUBELET_API_VERSION = "0.1.0";

export interface CriAdapter extends Cri {
  /** Closes the connection; pending calls fail. */
  close(): void;
}

/** @param endpoint `unix:///run/containerd/containerd.sock` @throws {TypeError} for any other kind of endpoint */
export function createCri(endpoint: string): CriAdapter {
  const { call, close } = connect(socketPathOf(endpoint));
  // The casts are safe: the connection decodes responses with runtime.proto, and wire.ts mirrors that file.
  const callsOf =
    (service: Parameters<typeof method>[0]) =>
    <Name extends string>(name: Name, request: object, options: CallOptions = { timeoutMs: REQUEST_MS }) =>
      call(method(service, name), request, options) as Promise<Name extends keyof Answers ? Answers[Name] : object>;
  const [runtime, images] = [callsOf("RuntimeService"), callsOf("ImageService")];
  const [readSandbox, readContainer] = [message("PodSandbox"), message("Container")];
  const sandboxes = new ListReader((bytes) => decode.podSandbox(readSandbox(bytes) as WirePodSandbox));
  const containers = new ListReader((bytes) => decode.container(readContainer(bytes) as WireContainer));
  const list = async <T>(reader: ListReader<T>, name: string, filter: object): Promise<readonly T[]> => {
    const { path, encode } = method("RuntimeService", name);
    const isOfAll = Object.keys(filter).length === 0;
    return await call({ path, encode, decode: (answer) => reader.items(answer, { isOfAll }) }, { filter }, { timeoutMs: REQUEST_MS });
  };

  return {
    version: async () => decode.version(await runtime("Version", { version: KUBELET_API_VERSION })),
    status: async () => (await runtime("Status", { verbose: false })).status?.conditions ?? [],
    statusInfo: async () => (await runtime("Status", { verbose: true })).info,
    runtimeConfig: async () => decode.runtimeConfig(await runtime("RuntimeConfig", {})),

    runPodSandbox: async (config, runtimeHandler = "") =>
      (await runtime("RunPodSandbox", { config, runtimeHandler }, { timeoutMs: RUN_POD_SANDBOX_MS })).podSandboxId,
    stopPodSandbox: (podSandboxId) => done(runtime("StopPodSandbox", { podSandboxId })),
    removePodSandbox: (podSandboxId) => done(runtime("RemovePodSandbox", { podSandboxId })),
    podSandboxStatus: async (podSandboxId) => decode.podSandboxStatus(await runtime("PodSandboxStatus", { podSandboxId })),
    listPodSandbox: (filter = {}) => list(sandboxes, "ListPodSandbox", wireFilter(filter)),

    createContainer: async (podSandboxId, config, sandboxConfig) =>
      (await runtime("CreateContainer", { podSandboxId, config: containerConfig(config), sandboxConfig })).containerId,
    startContainer: async (containerId) => void (await runtime("StartContainer", { containerId })),
    stopContainer: (containerId, timeoutSeconds) => {
      const timeout = Math.min(timeoutSeconds, SECONDS_MAX);
      return done(runtime("StopContainer", { containerId, timeout }, { timeoutMs: REQUEST_MS + timeout * 1_000 }));
    },
    removeContainer: (containerId) => done(runtime("RemoveContainer", { containerId })),
    containerStatus: async (containerId) => decode.containerStatus(await runtime("ContainerStatus", { containerId })),
    updateContainerResources: async (containerId, resources) =>
      void (await runtime("UpdateContainerResources", { containerId, linux: resources })),
    listContainers: (filter = {}) => list(containers, "ListContainers", wireFilter(filter)),
    reopenContainerLog: async (containerId) => void (await runtime("ReopenContainerLog", { containerId })),
    execSync: async (containerId, cmd, timeoutSeconds, options = {}) => {
      const timeout = Math.min(timeoutSeconds, SECONDS_MAX);
      const limit = timeout === 0 ? {} : { timeoutMs: REQUEST_MS + timeout * 1_000 };
      return decode.execSync(await runtime("ExecSync", { containerId, cmd, timeout }, { ...options, ...limit }));
    },
    exec: async (request) => (await runtime("Exec", request)).url,
    attach: async (request) => (await runtime("Attach", request)).url,
    portForward: async (podSandboxId, ports) => (await runtime("PortForward", { podSandboxId, port: ports })).url,
    containerStats: async (containerId) =>
      decode.containerStats(decode.present((await runtime("ContainerStats", { containerId })).stats, "container stats")),
    listContainerStats: async (filter = {}) => (await runtime("ListContainerStats", { filter })).stats.map(decode.containerStats),

    imageStatus: async (image) => {
      const { image: found } = await images("ImageStatus", { image });
      return found ? decode.image(found) : undefined; // CRI returns a null image if it does not exist (node-agent §17)
    },
    pullImage: async (image, { auth, sandboxConfig, signal } = {}) =>
      (await images("PullImage", { image, auth: authConfig(auth), sandboxConfig }, signal ? { signal } : {})).imageRef,
    removeImage: (image) => done(images("RemoveImage", { image })),
    listImages: async () => (await images("ListImages", {})).images.map(decode.image),
    imageFsInfo: async () => decode.filesystems(await images("ImageFsInfo", {})),
    close,
  };
}

/** CR2: stopping or removing an object that does not exist succeeds. */
async function done(call: Promise<object>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

function socketPathOf(endpoint: string): string {
  const path = /^unix:\/\/(\/.+)$/.exec(endpoint)?.[1];
  if (path === undefined) throw new TypeError(`invalid CRI endpoint "${endpoint}": use unix:///path/to.sock`);
  return path;
}
