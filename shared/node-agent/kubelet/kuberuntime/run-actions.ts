/** Does what computePodActions says, in its order (node-agent §6.6). */
import type { PodSandboxConfig } from "../../ports/cri-types.ts";
import type { Fence } from "../../ports/node-store.ts";
import type { PodActions } from "./compute-pod-actions.ts";
import { restartsOf } from "./restarts.ts";
import { jsonEqual } from "../types/json-equal.ts";
import type { ReferencedObjects } from "../types/referenced-objects.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedContainer, ObservedPod } from "../types/observed-pod.ts";
import { ephemeralContainersOf, initContainersOf, isSidecar } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import { MISSING_CLUSTER_DNS, podDns, PodSandboxConfigError } from "./dns-config.ts";
import type { PodDns } from "./dns-config.ts";
import { nodeReference } from "../events/event-recorder.ts";
import { podSandboxConfig } from "./sandbox-config.ts";
import { containerLogLink, podLogDirectory } from "../types/log-paths.ts";
import { endPod, killContainers, stopName, unlessGone } from "./kill-pod.ts";
import { podEvent } from "../events/pod-events.ts";
import type { VolumePaths } from "../volume/prepare-volumes.ts";
import { refitPod, ResizeError, resizeContainers } from "./resize.ts";
import { containerType, startContainer, withoutReason } from "./start-container.ts";
import type { StartInput } from "./start-container.ts";
import { Pause, StartError } from "../node-ports/operations.ts";
import { updateFenced } from "../pod-workers/update-worker.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";

export interface ActionsInput {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly actions: PodActions;
  readonly volumePaths: VolumePaths;
  readonly objects: ReferencedObjects;
  readonly fence: Fence;
  /** @throws when another turn has begun, or the pod is to end */
  readonly mayGoOn: () => Promise<void>;
}

export interface ActionsResult {
  /** Something was done to the runtime. */
  readonly acted: boolean;
  /** What did not start, by container; all were tried as far as the order allows. */
  readonly failed: ReadonlyMap<string, StartError>;
  /** A start outlives the turn; what stands behind it was not tried. */
  readonly goesOn: boolean;
  /** Not all that was granted could be set. */
  readonly resizeError?: ResizeError;
}

/** @throws what keeps the whole pod from going on: a kill or a sandbox that failed */
export async function runActions(ports: NodePorts, input: ActionsInput): Promise<ActionsResult> {
  const { pod, observed, actions } = input;
  if (actions.createSandbox && actions.sandboxId !== "")
    podEvent(ports, pod, { type: "Normal", reason: "SandboxChanged", message: "Pod sandbox changed, it will be killed and re-created." });
  await storeRestarts(ports, input);
  if (actions.killPod) await endAll(ports, input);
  else await endContainers(ports, input);
  if (!actions.createSandbox) await pruneInitContainers(ports, pod, observed);
  const resizeError = await resize(ports, input);
  const done = { ...(resizeError !== undefined && { resizeError }) };
  if (!startsAnything(actions)) {
    const acted = actions.killPod || actions.containersToKill.length + actions.containersToUpdate.length > 0;
    return { ...done, acted, failed: new Map(), goesOn: false };
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
    if (outcome === "goesOn") return { ...done, acted: true, failed, goesOn: true };
    if (outcome === "failed" && isPlainInit(pod, container)) break;
  }
  return { ...done, acted: true, failed, goesOn: false };
}

/** One that fails keeps nobody from starting. */
async function resize(ports: NodePorts, input: ActionsInput): Promise<ResizeError | undefined> {
  const { actions, pod } = input;
  try {
    if (actions.containersToUpdate.length > 0) await resizeContainers(ports, input, actions.containersToUpdate);
    else if (startsAnything(actions)) await refitPod(ports, pod);
    return undefined;
  } catch (error) {
    if (error instanceof ResizeError) return error;
    throw error;
  }
}

/** Each waits for all of the one before it: its image, its start and its hook. One that fails is passed over, unless the others need it. */
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

/** The containers behind one whose postStart hook has not ended wait for it: some rely on that, for a proxy that must be there first. */
export function isHookRunning({ operations }: Pick<NodePorts, "operations">, { metadata }: NodePod): boolean {
  return operations.names(metadata.uid).some((name) => name.startsWith("hook:post:"));
}

/** Before anything is stopped: the turn that starts it again may be another one, of another agent. */
async function storeRestarts(ports: NodePorts, { pod, observed, actions, fence }: ActionsInput): Promise<void> {
  const { uid } = pod.metadata;
  const goingOn = ports.operations.names(uid);
  const restarts = restartsOf(pod, observed, actions, (id) => goingOn.includes(KILL) || goingOn.includes(stopName(id)));
  await updateFenced(ports, "restarts", uid, (row) => (jsonEqual(row, restarts) ? row : restarts), fence);
}

/** One after the other; the first failure ends it, and one that gets its time to end makes the turn end. */
async function endContainers(ports: NodePorts, { pod, observed, actions }: ActionsInput): Promise<void> {
  for (const wanted of actions.containersToKill) {
    await ports.operations.run({
      uid: pod.metadata.uid,
      name: stopName(wanted.id),
      act: (signal) => killContainers(ports, pod, observed, [wanted], signal),
      pause: `container ${wanted.name} is ending`,
    });
  }
}

function startsAnything({ createSandbox, ...starts }: PodActions): boolean {
  return (
    createSandbox || starts.ephemeralContainersToStart.length + starts.initContainersToStart.length + starts.containersToStart.length > 0
  );
}

async function sandboxConfigOf(ports: NodePorts, pod: NodePod, attempt: number): Promise<PodSandboxConfig> {
  const { options, resources } = ports;
  const resolvConf = options.resolvConf === "" ? undefined : await ports.files.readHostFile("resolv.conf");
  try {
    const dns = podDns(pod, options, resolvConf);
    tellOfDns(ports, pod, dns);
    return podSandboxConfig({ pod, attempt, options, dns: dns.config, resources });
  } catch (error) {
    if (error instanceof PodSandboxConfigError)
      podEvent(ports, pod, {
        type: "Warning",
        reason: "FailedCreatePodSandBox",
        message: `Failed to create pod sandbox: ${error.message}`,
      });
    throw error;
  }
}

/** Source: pkg/kubelet/network/dns/dns.go GetPodDNS, formDNSConfigFitsLimits. */
function tellOfDns(ports: NodePorts, pod: NodePod, { lacksClusterDns, problems }: PodDns): void {
  const { name, namespace, uid } = pod.metadata;
  if (lacksClusterDns) {
    const event = { type: "Warning", reason: "MissingClusterDNS" } as const;
    ports.record({ involved: nodeReference(ports.options.nodeName), ...event, message: MISSING_CLUSTER_DNS });
    podEvent(ports, pod, { ...event, message: `pod: "${name}_${namespace}(${uid})". ${MISSING_CLUSTER_DNS}` });
  }
  for (const message of problems) podEvent(ports, pod, { type: "Warning", reason: "DNSConfigForming", message });
}

/** Of the operation that ends all of a pod which lives on. */
const KILL = "kill";

/** A pod whose sandbox changed, or that has nothing left to run. With a new sandbox, old init containers must not count. */
async function endAll(ports: NodePorts, { pod, observed, actions }: ActionsInput): Promise<void> {
  await endPod(ports, pod, observed, { name: KILL });
  if (!actions.createSandbox) return;
  const names = new Set(initContainersOf(pod).map(({ name }) => name));
  await removeAll(
    ports,
    pod,
    observed.containers.filter(({ name }) => names.has(name)),
  );
}

/** Of each init container only the newest dead instance stays. */
async function pruneInitContainers(ports: NodePorts, pod: NodePod, observed: ObservedPod): Promise<void> {
  const dead = observed.containers.filter(({ state }) => state === "CONTAINER_EXITED" || state === "CONTAINER_UNKNOWN");
  for (const { name } of initContainersOf(pod)) await removeAll(ports, pod, dead.filter((container) => container.name === name).slice(1));
}

/** Logs first: if that fails the container stays, and the next turn tries again. */
async function removeAll({ cri, files }: NodePorts, pod: NodePod, containers: readonly ObservedContainer[]): Promise<void> {
  for (const { id, name, logPath } of containers) {
    await files.removeContainerLogs(logPath, containerLogLink(pod.metadata, name, id));
    await cri.removeContainer(id).catch(unlessGone);
  }
}

async function createSandbox(
  ports: NodePorts,
  { pod, mayGoOn }: ActionsInput,
  config: PodSandboxConfig,
): Promise<{ readonly id: string; readonly ips: readonly string[] }> {
  const { cri, files, operations, metrics } = ports;
  const failed = async (error: unknown): Promise<never> => {
    await mayGoOn(); // of a pod that is to end nobody needs to hear it
    metrics?.count("kubelet_started_pods_errors_total", {});
    const message = `Failed to create pod sandbox: ${messageOf(error)}`;
    podEvent(ports, pod, { type: "Warning", reason: "FailedCreatePodSandBox", message });
    throw new Error(message, { cause: error });
  };
  metrics?.count("kubelet_started_pods_total", {});
  await files.makeLogDirectory(podLogDirectory(pod)).catch(failed);
  const handler = await runtimeHandler(ports, pod).catch(failed);
  await mayGoOn();
  const id = await operations.run({
    uid: pod.metadata.uid,
    name: `sandbox:${config.metadata.attempt}`,
    act: () => cri.runPodSandbox(config, handler),
    pause: "the sandbox is being made",
    orElse: failed,
  });
  const status = await cri.podSandboxStatus(id).catch((error: unknown) => {
    podEvent(ports, pod, {
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
 * By which of its runtimes the runtime is to run it; empty: the default one.
 *
 * @throws when there is no such class, or that cannot be found out
 *
 * Source: pkg/kubelet/runtimeclass/runtimeclass_manager.go LookupRuntimeHandler.
 */
async function runtimeHandler({ objects }: NodePorts, { spec: { runtimeClassName = "" } }: NodePod): Promise<string> {
  if (runtimeClassName === "") return "";
  const found = await objects.get("runtimeclasses", "", runtimeClassName).catch((error: unknown) => {
    throw new Error(`failed to lookup RuntimeClass ${runtimeClassName}: ${messageOf(error)}`, { cause: error });
  });
  if (found === undefined) throw new Error(`runtimeclass.node.k8s.io "${runtimeClassName}" not found`);
  return (found as KubeObject & { readonly handler?: string }).handler ?? ""; // a RuntimeClass, as the API server has it
}

/** If it failed, its status says why. */
async function tryStart(ports: NodePorts, input: StartInput, failed: Map<string, StartError>): Promise<"started" | "failed" | "goesOn"> {
  const { pod, container } = input;
  const { uid } = pod.metadata;
  try {
    await startContainer(ports, input);
    await updateFenced(ports, "reasons", uid, (reasons) => withoutReason(reasons, container.name), input.fence);
    return "started";
  } catch (error) {
    if (error instanceof Pause && !error.isTerminating) return "goesOn";
    if (!(error instanceof StartError)) throw error;
    failed.set(container.name, error);
    const { reason, message } = error;
    if (reason !== "CrashLoopBackOff")
      ports.metrics?.count("kubelet_started_containers_errors_total", { container_type: containerType(pod, container), code: reason });
    await updateFenced(ports, "reasons", uid, (reasons) => ({ ...reasons, [container.name]: { reason, message } }), input.fence);
    return "failed";
  }
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new Error(`a decision names container ${index} of ${items.length}`);
  return item;
}
