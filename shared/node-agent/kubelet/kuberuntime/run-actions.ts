/** Executes the actions that computePodActions returned (node-agent §6.6). */
import type { PodSandboxConfig } from "../../ports/cri-types.ts";
import type { PodActions } from "./compute-pod-actions.ts";
import { restartsOf } from "./restarts.ts";
import { jsonEqual } from "../types/json-equal.ts";
import type { ReferencedObjects } from "../types/referenced-objects.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { ephemeralContainersOf, initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { MISSING_CLUSTER_DNS, podDns, PodSandboxConfigError, type PodDns } from "./dns-config.ts";
import { nodeReference } from "../events/event-recorder.ts";
import { podSandboxConfig } from "./sandbox-config.ts";
import { podLogDirectory } from "../types/log-paths.ts";
import { stopName, endUnwanted, KILL_ALL } from "./kill-pod.ts";
import type { VolumePaths } from "../volume/prepare-volumes.ts";
import { resizePod, type ResizeError } from "./resize.ts";
import { containerType, startContainer, withoutReason, type StartInput } from "./start-container.ts";
import { Pause, StartError } from "../node-ports/operations.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";
import { messageOf, type KubeObject } from "@deltaloop/kube/objects";
import type { NoteActuated } from "../allocation/allocation-manager.ts";

export interface ActionsInput {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly actions: PodActions;
  readonly volumePaths: VolumePaths;
  readonly objects: ReferencedObjects;
  readonly update: FencedUpdate;
  readonly noteActuated: NoteActuated;
  readonly observe: () => Promise<ObservedPod>;
  /** @throws if another sync has begun or the pod is terminating */
  readonly ensureNotTerminating: () => Promise<void>;
}

export interface ActionsResult {
  /** Whether a call has changed the runtime. */
  readonly acted: boolean;
  /** Start failures, keyed by container name. */
  readonly failed: ReadonlyMap<string, StartError>;
  /** Whether the start of a container outlasts the sync, so that later containers were not tried. */
  readonly isRunning: boolean;
  /** Why the resize is incomplete; absent if it is complete. */
  readonly resizeError?: ResizeError;
}

/** @throws if a kill or the creation of the sandbox fails, because that blocks the whole pod */
export async function runActions(ports: NodePorts, input: ActionsInput): Promise<ActionsResult> {
  const { pod, observed, actions } = input;
  if (actions.createSandbox && actions.sandboxId !== "")
    ports.podEvent(pod, { type: "Normal", reason: "SandboxChanged", message: "Pod sandbox changed, it will be killed and re-created." });
  await storeRestarts(ports, input);
  await endUnwanted(ports, input);
  const resizeError = await resizePod(ports, input, { updates: actions.containersToUpdate, isStarting: startsAnything(actions) });
  const done = { ...(resizeError !== undefined && { resizeError }) };
  if (!startsAnything(actions)) {
    const acted = actions.killPod || actions.containersToKill.length + actions.containersToUpdate.length > 0;
    return { ...done, acted, failed: new Map(), isRunning: false };
  }

  const sandboxConfig = await sandboxConfigOf(ports, pod, actions.attempt);
  const sandbox = actions.createSandbox ? await createSandbox(ports, input, sandboxConfig) : { id: actions.sandboxId, ips: observed.ips };
  const common: Omit<StartInput, "container"> = {
    ...input,
    sandboxId: sandbox.id,
    sandboxConfig,
    podIps: pod.spec.hostNetwork === true ? ports.options.hostIps : sandbox.ips,
  };
  const failed = new Map<string, StartError>();
  for (const container of inOrder(pod, actions)) {
    const outcome = await tryStart(ports, { ...common, container }, failed);
    if (outcome === "running") return { ...done, acted: true, failed, isRunning: true };
    if (outcome === "failed" && isPlainInit(pod, container)) break;
  }
  return { ...done, acted: true, failed, isRunning: false };
}

/**
 * Returns the containers in start order. Each one waits for the previous one's image, start and hook. A failed one is skipped, unless it
 * is a plain init container.
 */
function inOrder(pod: NodePod, actions: PodActions): readonly ContainerSpec[] {
  return [
    ...actions.ephemeralContainersToStart.map((index) => at(ephemeralContainersOf(pod), index)),
    ...actions.initContainersToStart.map((index) => at(initContainersOf(pod), index)),
    ...actions.containersToStart.map((index) => at(pod.spec.containers, index)),
  ];
}

function isPlainInit(pod: NodePod, { name }: ContainerSpec): boolean {
  return initContainersOf(pod).some((container) => container.name === name && !isSidecar(container));
}

/** Whether a postStart hook is running. Later containers wait for it, because the hook may wait for a proxy, for example. */
export function isHookRunning({ operations }: Pick<NodePorts, "operations">, { metadata }: NodePod): boolean {
  return operations.names(metadata.uid).some((name) => name.startsWith("hook:post:"));
}

/** Stores the restarts before the first stop, because another sync or another agent may have to start the containers again. */
async function storeRestarts(
  ports: Pick<NodePorts, "store" | "operations">,
  { pod, observed, actions, update }: ActionsInput,
): Promise<void> {
  const { uid } = pod.metadata;
  const running = ports.operations.names(uid);
  const restarts = restartsOf(pod, observed, actions, (id) => running.includes(KILL_ALL) || running.includes(stopName(id)));
  await update("restarts", uid, (row) => (jsonEqual(row, restarts) ? row : restarts));
}

function startsAnything({ createSandbox, ...starts }: PodActions): boolean {
  return (
    createSandbox || starts.ephemeralContainersToStart.length + starts.initContainersToStart.length + starts.containersToStart.length > 0
  );
}

async function sandboxConfigOf(
  ports: Pick<NodePorts, "files" | "record" | "podEvent" | "options" | "resources">,
  pod: NodePod,
  attempt: number,
): Promise<PodSandboxConfig> {
  const { options, resources } = ports;
  const resolvConf = options.resolvConf === "" ? undefined : await ports.files.readHostFile("resolv.conf");
  try {
    const dns = podDns(pod, options, resolvConf);
    emitDnsEvents(ports, pod, dns);
    return podSandboxConfig({ pod, attempt, options, dns: dns.config, resources });
  } catch (error) {
    if (error instanceof PodSandboxConfigError)
      ports.podEvent(pod, {
        type: "Warning",
        reason: "FailedCreatePodSandBox",
        message: `Failed to create pod sandbox: ${error.message}`,
      });
    throw error;
  }
}

/** Source: pkg/kubelet/network/dns/dns.go GetPodDNS, formDNSConfigFitsLimits. */
function emitDnsEvents(
  ports: Pick<NodePorts, "record" | "podEvent" | "options">,
  pod: NodePod,
  { lacksClusterDns, problems }: PodDns,
): void {
  const { name, namespace, uid } = pod.metadata;
  if (lacksClusterDns) {
    const event = { type: "Warning", reason: "MissingClusterDNS" } as const;
    ports.record({ involved: nodeReference(ports.options.nodeName), ...event, message: MISSING_CLUSTER_DNS });
    ports.podEvent(pod, { ...event, message: `pod: "${name}_${namespace}(${uid})". ${MISSING_CLUSTER_DNS}` });
  }
  for (const message of problems) ports.podEvent(pod, { type: "Warning", reason: "DNSConfigForming", message });
}

async function createSandbox(
  ports: Pick<NodePorts, "cri" | "files" | "metrics" | "operations" | "objects" | "podEvent">,
  { pod, ensureNotTerminating }: ActionsInput,
  config: PodSandboxConfig,
): Promise<{ readonly id: string; readonly ips: readonly string[] }> {
  const { cri, files, operations, metrics } = ports;
  const failed = async (error: unknown): Promise<never> => {
    await ensureNotTerminating(); // no Event for a terminating pod
    metrics?.count("kubelet_started_pods_errors_total", {});
    const message = `Failed to create pod sandbox: ${messageOf(error)}`;
    ports.podEvent(pod, { type: "Warning", reason: "FailedCreatePodSandBox", message });
    throw new Error(message, { cause: error });
  };
  metrics?.count("kubelet_started_pods_total", {});
  await files.makeLogDirectory(podLogDirectory(pod)).catch(failed);
  const handler = await runtimeHandler(ports, pod).catch(failed);
  await ensureNotTerminating();
  const id = await operations.run({
    uid: pod.metadata.uid,
    name: `sandbox:${config.metadata.attempt}`,
    act: () => cri.runPodSandbox(config, handler),
    pause: "the sandbox is being created",
    orElse: failed,
  });
  const status = await cri.podSandboxStatus(id).catch((error: unknown) => {
    ports.podEvent(pod, {
      type: "Warning",
      reason: "FailedPodSandBoxStatus",
      message: `Unable to get pod sandbox status: ${messageOf(error)}`,
    });
    throw error;
  });
  const { ip = "", additionalIps = [] } = status.network ?? {};
  return { id, ips: [ip, ...additionalIps].filter((one) => one !== "") };
}

/**
 * The runtime handler of the pod's RuntimeClass; empty for the default. @throws when the class is missing or cannot be read Source:
 * pkg/kubelet/runtimeclass/runtimeclass_manager.go LookupRuntimeHandler.
 */
async function runtimeHandler({ objects }: Pick<NodePorts, "objects">, { spec: { runtimeClassName = "" } }: NodePod): Promise<string> {
  if (runtimeClassName === "") return "";
  const found = await objects.get("runtimeclasses", "", runtimeClassName).catch((error: unknown) => {
    throw new Error(`failed to lookup RuntimeClass ${runtimeClassName}: ${messageOf(error)}`, { cause: error });
  });
  if (found === undefined) throw new Error(`runtimeclass.node.k8s.io "${runtimeClassName}" not found`);
  return (found as KubeObject & { readonly handler?: string }).handler ?? ""; // the API server returns a RuntimeClass
}

/** Starts a container. If that fails, stores its waiting reason. */
async function tryStart(ports: NodePorts, input: StartInput, failed: Map<string, StartError>): Promise<"started" | "failed" | "running"> {
  const { pod, container } = input;
  const { uid } = pod.metadata;
  try {
    await startContainer(ports, input);
    await input.update("reasons", uid, (reasons) => withoutReason(reasons, container.name));
    return "started";
  } catch (error) {
    if (error instanceof Pause && !error.isTerminating) return "running";
    if (!(error instanceof StartError)) throw error;
    failed.set(container.name, error);
    const { reason, message } = error;
    if (reason !== "CrashLoopBackOff")
      ports.metrics?.count("kubelet_started_containers_errors_total", { container_type: containerType(pod, container), code: reason });
    await input.update("reasons", uid, (reasons) => ({ ...reasons, [container.name]: { reason, message } }));
    return "failed";
  }
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new Error(`no container at index ${index} of ${items.length}`);
  return item;
}
