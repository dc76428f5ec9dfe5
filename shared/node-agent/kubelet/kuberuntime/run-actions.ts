/** Does what computePodActions says, in its order (node-agent §6.6). */
import type { PodSandboxConfig } from "../../ports/cri-types.ts";
import type { PodActions } from "./compute-pod-actions.ts";
import { restartsOf } from "./restarts.ts";
import { jsonEqual } from "../types/json-equal.ts";
import type { ReferencedObjects } from "../types/referenced-objects.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { ephemeralContainersOf, initContainersOf, isSidecar } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import { MISSING_CLUSTER_DNS, podDns, PodSandboxConfigError } from "./dns-config.ts";
import type { PodDns } from "./dns-config.ts";
import { nodeReference } from "../events/event-recorder.ts";
import { podSandboxConfig } from "./sandbox-config.ts";
import { podLogDirectory } from "../types/log-paths.ts";
import { stopName, endUnwanted, KILL_ALL } from "./kill-pod.ts";
import type { VolumePaths } from "../volume/prepare-volumes.ts";
import { resizePod } from "./resize.ts";
import type { ResizeError } from "./resize.ts";
import { containerType, startContainer, withoutReason } from "./start-container.ts";
import type { StartInput } from "./start-container.ts";
import { Pause, StartError } from "../node-ports/operations.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import type { NoteActuated } from "../allocation/allocation-manager.ts";

export interface ActionsInput {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly actions: PodActions;
  readonly volumePaths: VolumePaths;
  readonly objects: ReferencedObjects;
  readonly update: FencedUpdate;
  readonly noteActuated: NoteActuated;
  /** Reads the pod from the runtime. */
  readonly observe: () => Promise<ObservedPod>;
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
    ports.podEvent(pod, { type: "Normal", reason: "SandboxChanged", message: "Pod sandbox changed, it will be killed and re-created." });
  await storeRestarts(ports, input);
  await endUnwanted(ports, input);
  const resizeError = await resizePod(ports, input, { updates: actions.containersToUpdate, isStarting: startsAnything(actions) });
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
async function storeRestarts(
  ports: Pick<NodePorts, "store" | "operations">,
  { pod, observed, actions, update }: ActionsInput,
): Promise<void> {
  const { uid } = pod.metadata;
  const goingOn = ports.operations.names(uid);
  const restarts = restartsOf(pod, observed, actions, (id) => goingOn.includes(KILL_ALL) || goingOn.includes(stopName(id)));
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
    tellOfDns(ports, pod, dns);
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
function tellOfDns(ports: Pick<NodePorts, "record" | "podEvent" | "options">, pod: NodePod, { lacksClusterDns, problems }: PodDns): void {
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
  { pod, mayGoOn }: ActionsInput,
  config: PodSandboxConfig,
): Promise<{ readonly id: string; readonly ips: readonly string[] }> {
  const { cri, files, operations, metrics } = ports;
  const failed = async (error: unknown): Promise<never> => {
    await mayGoOn(); // of a pod that is to end nobody needs to hear it
    metrics?.count("kubelet_started_pods_errors_total", {});
    const message = `Failed to create pod sandbox: ${messageOf(error)}`;
    ports.podEvent(pod, { type: "Warning", reason: "FailedCreatePodSandBox", message });
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
 * By which of its runtimes the runtime is to run it; empty: the default one.
 *
 * @throws when there is no such class, or that cannot be found out
 *
 * Source: pkg/kubelet/runtimeclass/runtimeclass_manager.go LookupRuntimeHandler.
 */
async function runtimeHandler({ objects }: Pick<NodePorts, "objects">, { spec: { runtimeClassName = "" } }: NodePod): Promise<string> {
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
    await input.update("reasons", uid, (reasons) => withoutReason(reasons, container.name));
    return "started";
  } catch (error) {
    if (error instanceof Pause && !error.isTerminating) return "goesOn";
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
  if (item === undefined) throw new Error(`a decision names container ${index} of ${items.length}`);
  return item;
}
