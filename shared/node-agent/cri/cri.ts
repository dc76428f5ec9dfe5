/**
 * Implements Cri over gRPC (`runtime.v1`), for containerd or any other runtime on a Unix socket. Every method is one RPC. Some runtimes
 * return NotFound for stop and remove; `done` converts this to success (CR2).
 */
import { isNotFound } from "../ports/cri-error.ts";
import type { Cri } from "../ports/cri.ts";
import { connect } from "./connection.ts";
import type { CallOptions } from "./connection.ts";
import * as decode from "./decode.ts";
import { authConfig, containerConfig, containerFilter, podSandboxFilter } from "./encode.ts";
import { ListReader } from "./listed.ts";
import { message, method } from "./load.ts";

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
  const runtime = (name: string, request: object, options: CallOptions = { timeoutMs: REQUEST_MS }): Promise<object> =>
    call(method("RuntimeService", name), request, options);
  const images = (name: string, request: object, options: CallOptions = { timeoutMs: REQUEST_MS }): Promise<object> =>
    call(method("ImageService", name), request, options);
  const [readSandbox, readContainer] = [message("PodSandbox"), message("Container")];
  const sandboxes = new ListReader((bytes) => decode.podSandbox(readSandbox(bytes)));
  const containers = new ListReader((bytes) => decode.container(readContainer(bytes)));
  const list = async <T>(reader: ListReader<T>, name: string, filter: object): Promise<readonly T[]> => {
    const { path, encode } = method("RuntimeService", name);
    const isOfAll = Object.keys(filter).length === 0;
    return await call({ path, encode, decode: (answer) => reader.items(answer, { isOfAll }) }, { filter }, { timeoutMs: REQUEST_MS });
  };

  return {
    version: async () => decode.version(await runtime("Version", { version: KUBELET_API_VERSION })),
    status: async () => decode.conditions(await runtime("Status", { verbose: false })),
    statusInfo: async () => decode.statusInfo(await runtime("Status", { verbose: true })),
    runtimeConfig: async () => decode.runtimeConfig(await runtime("RuntimeConfig", {})),

    runPodSandbox: async (config, runtimeHandler = "") =>
      decode.podSandboxId(await runtime("RunPodSandbox", { config, runtimeHandler }, { timeoutMs: RUN_POD_SANDBOX_MS })),
    stopPodSandbox: (podSandboxId) => done(runtime("StopPodSandbox", { podSandboxId })),
    removePodSandbox: (podSandboxId) => done(runtime("RemovePodSandbox", { podSandboxId })),
    podSandboxStatus: async (podSandboxId) => decode.podSandboxStatus(await runtime("PodSandboxStatus", { podSandboxId })),
    listPodSandbox: (filter = {}) => list(sandboxes, "ListPodSandbox", podSandboxFilter(filter)),

    createContainer: async (podSandboxId, config, sandboxConfig) =>
      decode.containerId(await runtime("CreateContainer", { podSandboxId, config: containerConfig(config), sandboxConfig })),
    startContainer: async (containerId) => void (await runtime("StartContainer", { containerId })),
    stopContainer: (containerId, timeoutSeconds) => {
      const timeout = Math.min(timeoutSeconds, SECONDS_MAX);
      return done(runtime("StopContainer", { containerId, timeout }, { timeoutMs: REQUEST_MS + timeout * 1_000 }));
    },
    removeContainer: (containerId) => done(runtime("RemoveContainer", { containerId })),
    containerStatus: async (containerId) => decode.containerStatus(await runtime("ContainerStatus", { containerId })),
    updateContainerResources: async (containerId, resources) =>
      void (await runtime("UpdateContainerResources", { containerId, linux: resources })),
    listContainers: (filter = {}) => list(containers, "ListContainers", containerFilter(filter)),
    reopenContainerLog: async (containerId) => void (await runtime("ReopenContainerLog", { containerId })),
    execSync: async (containerId, cmd, timeoutSeconds, options = {}) => {
      const timeout = Math.min(timeoutSeconds, SECONDS_MAX);
      const limit = timeout === 0 ? {} : { timeoutMs: REQUEST_MS + timeout * 1_000 };
      return decode.execSync(await runtime("ExecSync", { containerId, cmd, timeout }, { ...options, ...limit }));
    },
    exec: async (request) => decode.url(await runtime("Exec", request)),
    attach: async (request) => decode.url(await runtime("Attach", request)),
    portForward: async (podSandboxId, ports) => decode.url(await runtime("PortForward", { podSandboxId, port: ports })),
    containerStats: async (containerId) => decode.containerStats(await runtime("ContainerStats", { containerId })),
    listContainerStats: async (filter = {}) => decode.containerStatsList(await runtime("ListContainerStats", { filter })),

    imageStatus: async (image) => decode.imageStatus(await images("ImageStatus", { image })),
    pullImage: async (image, { auth, sandboxConfig, signal } = {}) =>
      decode.imageRef(await images("PullImage", { image, auth: authConfig(auth), sandboxConfig }, signal ? { signal } : {})),
    removeImage: (image) => done(images("RemoveImage", { image })),
    listImages: async () => decode.images(await images("ListImages", {})),
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
