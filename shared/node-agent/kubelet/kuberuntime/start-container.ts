/** Starts one container in a ready sandbox (node-agent §6.7). */
import { ownAt } from "@deltaloop/base";
import { parseTime } from "@deltaloop/kube/objects";
import type { ContainerConfig, Image, PodSandboxConfig } from "../../ports/cri-types.ts";
import type { BackOffEntry, NodeRow } from "../../ports/node-store.ts";
import { isUnanswered, NotSentError } from "@deltaloop/kube/client";
import { containerConfig, isHostsFileManaged, planMounts } from "./container-config.ts";
import { ContainerConfigError, makeEnvironment, serviceInfo, type ServiceInfo } from "./environment.ts";
import type { ReferencedObjects } from "../types/referenced-objects.ts";
import { hostsFile } from "./dns-config.ts";
import { CONFIG_ANNOTATIONS, isStaticPod } from "../types/labels.ts";
import { allocatableOf } from "../types/node-options.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { newestOf, type ObservedPod } from "../types/observed-pod.ts";
import { ephemeralContainersOf, initContainersOf, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { restartBackOffKey, restartDecision } from "../pod-workers/back-off.ts";
import { containerLogLink, podLogDirectory } from "../types/log-paths.ts";
import type { NoteActuated } from "../allocation/allocation-manager.ts";
import { ensureImage } from "../images/ensure-image.ts";
import { HookError, runHook, type LifecycleHandler } from "./lifecycle-hooks.ts";
import { killStarted, unlessGone, type EndPodPorts } from "./kill-pod.ts";
import type { VolumePaths } from "../volume/prepare-volumes.ts";
import { isExternalError } from "../node-ports/external-error.ts";
import { StartError } from "../node-ports/operations.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

export interface StartInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec & { readonly targetContainerName?: string };
  readonly observed: ObservedPod;
  readonly sandboxId: string;
  readonly sandboxConfig: PodSandboxConfig;
  readonly podIps: readonly string[];
  readonly volumePaths: VolumePaths;
  readonly objects: ReferencedObjects;
  readonly update: FencedUpdate;
  readonly noteActuated: NoteActuated;
  readonly observe: () => Promise<ObservedPod>;
  /** Called before each irreversible step (§18.5). @throws if this sync must stop */
  readonly ensureNotTerminating: () => Promise<void>;
}

/** @throws {StartError} with the waiting reason for the status @throws {Pause} if a step outlasts the sync */
export async function startContainer(ports: NodePorts, input: StartInput): Promise<void> {
  const { pod, container } = input;
  await input.ensureNotTerminating();
  const nextBackOff = await checkBackOff(ports, input);
  ports.metrics?.count("kubelet_started_containers_total", { container_type: containerType(pod, container) });
  const image = await ensureImage(ports, pod, container, input.update);
  if (nextBackOff !== undefined) await input.update("backOffs", restartBackOffKey(pod, container), () => nextBackOff);
  const fail = (reason: string, error: Error): StartError => {
    ports.podEvent(pod, { type: "Warning", reason: "Failed", message: `Error: ${error.message}`, container: container.name });
    return new StartError(reason, error.message, { cause: error });
  };
  const config = await buildConfig(ports, input, image).catch((error: unknown) => {
    throw isConfigError(error) ? fail("CreateContainerConfigError", error) : error;
  });
  // Records the resources before the creation, because they cannot be queried afterwards.
  if (containerType(pod, container) !== "ephemeral_container")
    await input.noteActuated({ name: container.name, resources: container.resources ?? {} }).catch((error: unknown) => {
      throw isConfigError(error) ? fail("CreateContainerConfigError", error) : error;
    });
  await input.ensureNotTerminating();
  const containerId = await ports.cri.createContainer(input.sandboxId, config, input.sandboxConfig).catch((error: unknown) => {
    throw error instanceof Error ? fail("CreateContainerError", error) : error;
  });
  ports.podEvent(pod, { type: "Normal", reason: "Created", message: "Container created", container: container.name });
  warnOfBytes(ports, pod, container, config);
  await removeUnstarted(ports, input);
  await input.ensureNotTerminating();
  await ports.cri.startContainer(containerId).catch((error: unknown) => {
    throw error instanceof Error ? fail("RunContainerError", error) : error;
  });
  ports.podEvent(pod, { type: "Normal", reason: "Started", message: "Container started", container: container.name });
  const handler = container.lifecycle?.postStart;
  if (handler) await postStart(ports, input, { containerId, handler });
  else await linkLog(ports, input, containerId);
}

/**
 * Emits a warning for values that are not UTF-8, because containerd replaces the invalid bytes when it writes the OCI specification as
 * JSON. Differs from upstream, which emits none.
 */
function warnOfBytes(
  { podEvent }: Pick<NodePorts, "podEvent">,
  pod: NodePod,
  { name }: ContainerSpec,
  { envs = [] }: ContainerConfig,
): void {
  const keys = envs.filter(({ value }) => !value.isWellFormed()).map(({ key }) => key);
  const message = `${keys.join(", ")}: the value is not valid UTF-8, and containerd replaces the invalid bytes: mount the Secret as a file`;
  if (keys.length > 0) podEvent(pod, { type: "Warning", reason: "InvalidEnvironmentVariableValues", message, container: name });
}

/** Returns the value of the metric label. Source: pkg/kubelet/metrics/metrics.go Container, InitContainer, EphemeralContainer. */
export function containerType(pod: NodePod, { name }: ContainerSpec): "init_container" | "container" | "ephemeral_container" {
  if (initContainersOf(pod).some((one) => one.name === name)) return "init_container";
  return ephemeralContainersOf(pod).some((one) => one.name === name) ? "ephemeral_container" : "container";
}

/**
 * Removes earlier instances that were created but never started, once their successor exists, because a lost sync could still start them.
 * Differs from upstream, which has no lost syncs and leaves them to garbage collection.
 */
async function removeUnstarted({ cri }: Pick<NodePorts, "cri">, { container, observed }: StartInput): Promise<void> {
  for (const { id, name, state } of observed.containers)
    if (name === container.name && state === "CONTAINER_CREATED") await cri.removeContainer(id).catch(unlessGone);
}

/** Whether the error means that the configuration is invalid or unavailable. */
function isConfigError(error: unknown): error is Error {
  return error instanceof ContainerConfigError || isExternalError(error);
}

/**
 * Returns the back-off to store when the container starts. The first start after the agent stopped the container for a restart is
 * immediate. If it fails, the stop counts as an exit, so that a back-off follows. Source: kuberuntime_manager.go SyncPod, doBackOff.
 */
async function checkBackOff(
  ports: Pick<NodePorts, "store" | "clock" | "podEvent">,
  { pod, container, observed }: StartInput,
): Promise<BackOffEntry | undefined> {
  const key = restartBackOffKey(pod, container);
  const [entry, reasons] = await Promise.all([ports.store.read("backOffs", key), ports.store.read("reasons", pod.metadata.uid)]);
  const isFirstTry = ownAt(reasons, container.name) === undefined;
  const containers = isFirstTry ? observed.containers.filter(({ endedForRestart }) => endedForRestart !== true) : observed.containers;
  const decision = restartDecision({ pod, container, observed: { ...observed, containers }, entry, nowMs: ports.clock.now() });
  if (!decision.start) {
    ports.podEvent(pod, {
      type: "Warning",
      reason: "BackOff",
      message: `Back-off restarting failed container ${container.name} in pod ${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`,
      container: container.name,
    });
    throw new StartError("CrashLoopBackOff", decision.message, { retryAtMs: decision.untilMs });
  }
  return decision.entry;
}

async function buildConfig(
  ports: Pick<NodePorts, "files" | "objects" | "options" | "resources">,
  input: StartInput,
  image: Image,
): Promise<ContainerConfig> {
  const { files, options, resources } = ports;
  const { pod, container, observed, podIps, volumePaths, objects } = input;
  const services = await readServices(ports, pod);
  const restartCount = await restartCountOf(ports, input);
  const env = makeEnvironment({
    pod,
    container,
    podIps,
    hostIps: options.hostIps,
    services,
    objects,
    allocatable: allocatableOf(resources, options.eviction),
  });
  const hosts = isHostsFileManaged(pod, container, podIps)
    ? await files.writeHostsFile(pod.metadata.uid, hostsFile(pod, podIps, await files.readHostFile("hosts"), options))
    : undefined;
  const terminationLog = await files.makeTerminationLog(pod.metadata.uid, container.name);
  const { mounts: planned } = planMounts({
    pod,
    container,
    volumePaths,
    env,
    terminationLog,
    ...(hosts !== undefined && { hostsFile: hosts }),
  });
  const mounts = await Promise.all(
    planned.map(async ({ subPath, ...mount }) =>
      subPath === undefined ? mount : { ...mount, hostPath: await files.makeSubPath(pod.metadata.uid, subPath.volumePath, subPath.path) },
    ),
  );
  await files.makeLogDirectory(`${podLogDirectory(pod)}/${container.name}`);
  const target = container.targetContainerName === undefined ? undefined : newestOf(observed, container.targetContainerName);
  if (container.targetContainerName !== undefined && target === undefined)
    throw new ContainerConfigError(`unable to find target container ${container.targetContainerName}`);
  return containerConfig({
    pod,
    container,
    restartCount,
    image,
    envs: env,
    mounts,
    options,
    resources,
    ...(target !== undefined && { targetContainerId: target.id }),
  });
}

/** Returns at least the Services that existed when the pod arrived, because one manifest can create both. */
async function readServices({ objects }: Pick<NodePorts, "objects">, pod: NodePod): Promise<readonly ServiceInfo[]> {
  const seenMs = parseTime(pod.metadata.annotations?.[CONFIG_ANNOTATIONS.seen]) ?? 0;
  try {
    return (await objects.services(seenMs)).map(serviceInfo);
  } catch (error) {
    // The pod does not wait for Services, because a static pod may be the API server itself.
    if (isStaticPod(pod) && (isUnanswered(error) || error instanceof NotSentError)) return [];
    throw error;
  }
}

/** Returns one more than the count of the newest instance or, after garbage collection, of the newest log file. */
async function restartCountOf({ files }: Pick<NodePorts, "files">, { pod, container, observed }: StartInput): Promise<number> {
  const newest = newestOf(observed, container.name);
  if (newest !== undefined) return newest.restartCount + 1;
  const highest = await files.highestLogNumber(`${podLogDirectory(pod)}/${container.name}`);
  return highest === undefined ? 0 : highest + 1;
}

/** Creates the log symlink. A failure affects only users and log collectors, so it is only logged. */
async function linkLog(
  { cri, files, log }: Pick<NodePorts, "cri" | "files" | "log">,
  { pod, container }: StartInput,
  containerId: string,
): Promise<void> {
  try {
    const { logPath } = await cri.containerStatus(containerId);
    await files.linkContainerLog(containerLogLink(pod.metadata, container.name, containerId), logPath);
  } catch (error) {
    const { name, namespace } = pod.metadata;
    log.warn("failed to link the container's log", { pod: `${namespace}/${name}`, container: container.name, error: String(error) });
  }
}

/** Links the log and runs the hook in one operation, so that later containers wait and no sync can end between the two. */
async function postStart(
  ports: EndPodPorts & Pick<NodePorts, "store" | "files">,
  input: StartInput,
  { containerId, handler }: { readonly containerId: string; readonly handler: LifecycleHandler },
): Promise<void> {
  const { pod, container, podIps, observed } = input;
  const { uid } = pod.metadata;
  await ports.operations.run({
    uid,
    name: `hook:post:${containerId}`,
    pause: `postStart hook of ${container.name} is running in pod ${observed.name}`,
    act: async (signal) => {
      await linkLog(ports, input, containerId);
      try {
        await runHook(ports, { handler, container, containerId, podIp: podIps[0] ?? "", signal });
      } catch (error) {
        if (!(error instanceof HookError)) throw error;
        ports.podEvent(pod, {
          type: "Warning",
          reason: "FailedPostStartHook",
          message: "PostStartHook failed",
          container: container.name,
        });
        await killStarted(ports, pod, await input.observe(), { containerId, podIp: podIps[0] ?? "", signal });
        // The reason is stored without the fence, because the sync that started the container may have ended.
        const reason = { reason: "PostStartHookError", message: error.message };
        await ports.store.update("reasons", uid, (reasons) => ({ ...reasons, [container.name]: reason }));
        throw new StartError(reason.reason, reason.message, { cause: error });
      }
      await ports.store.update("reasons", uid, (reasons) => withoutReason(reasons, container.name));
    },
  });
}

/** Returns the reasons after `name` has started successfully. */
export function withoutReason(reasons: NodeRow<"reasons"> | undefined, name: string): NodeRow<"reasons"> | undefined {
  if (reasons === undefined || !Object.hasOwn(reasons, name)) return reasons;
  const rest = Object.entries(reasons).filter(([key]) => key !== name);
  return rest.length === 0 ? undefined : Object.fromEntries(rest);
}
