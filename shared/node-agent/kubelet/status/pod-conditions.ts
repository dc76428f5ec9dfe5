/** Computes the pod conditions of the agent (node-agent §13.3), without transition times (accept-status.ts). */
import type { ObservedPod } from "../types/observed-pod.ts";
import { initContainersOf, isSidecar, isTerminalPhase } from "../types/pod.ts";
import type { ContainerSpec, ContainerStatusEntry, NodePod, PodCondition } from "../types/pod.ts";
import { podSandboxChanged } from "../kuberuntime/compute-pod-actions.ts";
type Statuses = readonly ContainerStatusEntry[] | undefined;

/** Set when the agent terminates a pod; other components may also set it. */
export const DISRUPTION_TARGET = "DisruptionTarget";

export const RESIZE_CONDITIONS: ReadonlySet<string> = new Set(["PodResizeInProgress", "PodResizePending"]);

const OWNED = new Set([
  "PodScheduled",
  "Ready",
  "Initialized",
  "ContainersReady",
  "PodReadyToStartContainers",
  ...RESIZE_CONDITIONS,
  "AllContainersRestarting",
]);

/** Whether only the kubelet sets this condition. Source: pkg/kubelet/types/pod_status.go PodConditionByKubelet. */
export function isOwnedCondition(type: string): boolean {
  return OWNED.has(type);
}

/** Returns the agent's conditions in upstream's order. `others` are the conditions that readiness gates can refer to. */
export function ownedConditions(
  pod: NodePod,
  observed: ObservedPod,
  { phase, statuses, others }: { readonly phase: string; readonly statuses: Statuses; readonly others: readonly PodCondition[] },
): readonly PodCondition[] {
  return [
    readyToStartCondition(pod, observed),
    initializedCondition(pod, statuses, phase),
    podReadyCondition(pod, others, statuses, phase),
    containersReadyCondition(pod, statuses, phase),
    condition(pod, "PodScheduled", { isTrue: true }),
  ];
}

/** Source: pkg/kubelet/status/generate.go GeneratePodReadyToStartContainersCondition. */
function readyToStartCondition(pod: NodePod, observed: ObservedPod): PodCondition {
  const { changed, reason } = podSandboxChanged(pod, observed);
  return condition(pod, "PodReadyToStartContainers", {
    isTrue: !changed,
    ...(changed && { reason: "PodSandboxNotReady", message: reason }),
  });
}

/**
 * Ready is True if all containers are ready and the conditions of all readiness gates are True. Source: pkg/kubelet/status/generate.go
 * GeneratePodReadyCondition.
 */
export function podReadyCondition(pod: NodePod, conditions: readonly PodCondition[], statuses: Statuses, phase: string): PodCondition {
  const { status, reason, message } = containersReadyCondition(pod, statuses, phase);
  if (status !== "True") return condition(pod, "Ready", { isTrue: false, reason: reason ?? "", message: message ?? "" });
  const unready = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const gate = conditions.find(({ type }) => type === conditionType);
    if (gate === undefined) return [`corresponding condition of pod readiness gate "${conditionType}" does not exist.`];
    return gate.status === "True" ? [] : [`the status of pod readiness gate "${conditionType}" is not "True", but ${gate.status}`];
  });
  if (unready.length === 0) return condition(pod, "Ready", { isTrue: true });
  return condition(pod, "Ready", { isTrue: false, reason: "ReadinessGatesNotReady", message: unready.join(", ") });
}

/** ContainersReady covers regular containers and sidecars. Source: generate.go GenerateContainersReadyCondition. */
function containersReadyCondition(pod: NodePod, statuses: Statuses, phase: string): PodCondition {
  const type = "ContainersReady";
  if (statuses === undefined) return condition(pod, type, { isTrue: false, reason: "UnknownContainerStatuses" });
  const sidecars = initContainersOf(pod).filter((container) => isSidecar(container));
  const { unknown, lacking } = sorted([...sidecars, ...pod.spec.containers], statuses, (_, { ready }) => ready);
  if (phase === "Failed" || (phase === "Succeeded" && unknown.length === 0))
    return condition(pod, type, { isTrue: false, reason: terminalReason(phase) });
  const message = containersMessage(unknown, lacking, "unready");
  if (message === "") return condition(pod, type, { isTrue: true });
  return condition(pod, type, { isTrue: false, reason: "ContainersNotReady", message });
}

/** Source: generate.go GeneratePodInitializedCondition. */
function initializedCondition(pod: NodePod, statuses: Statuses, phase: string): PodCondition {
  const type = "Initialized";
  const initContainers = initContainersOf(pod);
  if (statuses === undefined && initContainers.length > 0)
    return condition(pod, type, { isTrue: false, reason: "UnknownContainerStatuses" });
  const { unknown, lacking } = sorted(initContainers, statuses ?? [], (container, { ready, started }) =>
    isSidecar(container) ? started === true : ready,
  );
  if (phase === "Succeeded" && unknown.length === 0) return condition(pod, type, { isTrue: true, reason: terminalReason(phase) });
  const message = containersMessage(unknown, lacking, "incomplete");
  // A sidecar that restarts does not make the pod uninitialized again.
  if (message === "" || hasRegularContainerStarted(pod, statuses ?? [])) return condition(pod, type, { isTrue: true });
  return condition(pod, type, { isTrue: false, reason: "ContainersNotInitialized", message });
}

/**
 * Sets Ready and ContainersReady of a terminal pod to False; returns `conditions` if neither is True. Source:
 * pkg/kubelet/status/status_manager.go mergePodStatus, its last step.
 */
export function withTerminalReadiness(
  conditions: readonly PodCondition[],
  phase: string | undefined,
  nowText: string,
): readonly PodCondition[] {
  const isReadiness = ({ type }: PodCondition): boolean => type === "Ready" || type === "ContainersReady";
  if (!isTerminalPhase(phase) || !conditions.some((one) => isReadiness(one) && one.status === "True")) return conditions;
  return conditions.map((one) => {
    if (!isReadiness(one)) return one;
    const { type, status, observedGeneration, lastTransitionTime } = one;
    return {
      type,
      status: "False",
      reason: terminalReason(phase),
      ...(observedGeneration !== undefined && { observedGeneration }),
      lastTransitionTime: status === "False" && lastTransitionTime !== undefined ? lastTransitionTime : nowText,
    };
  });
}

function terminalReason(phase: "Succeeded" | "Failed"): string {
  return phase === "Failed" ? "PodFailed" : "PodCompleted";
}

/** Source: pkg/kubelet/container/helpers.go HasAnyRegularContainerStarted. */
function hasRegularContainerStarted(pod: NodePod, statuses: readonly ContainerStatusEntry[]): boolean {
  return statuses.some(
    ({ name, state }) =>
      (state?.running !== undefined || state?.terminated !== undefined) && pod.spec.containers.some((regular) => regular.name === name),
  );
}

/** Returns, in spec order, the names of containers without a status, and of containers whose status does not satisfy `isFine`. */
function sorted(
  containers: readonly ContainerSpec[],
  statuses: readonly ContainerStatusEntry[],
  isFine: (container: ContainerSpec, status: ContainerStatusEntry) => boolean,
): { readonly unknown: readonly string[]; readonly lacking: readonly string[] } {
  const statusOf = (container: ContainerSpec): ContainerStatusEntry | undefined => statuses.find(({ name }) => name === container.name);
  const lacks = (container: ContainerSpec): boolean => {
    const status = statusOf(container);
    return status !== undefined && !isFine(container, status);
  };
  return {
    unknown: containers.filter((container) => statusOf(container) === undefined).map(({ name }) => name),
    lacking: containers.filter(lacks).map(({ name }) => name),
  };
}

/** Returns a message such as `containers with unknown status: [a], containers with unready status: [b c]`. */
function containersMessage(unknown: readonly string[], lacking: readonly string[], word: string): string {
  const part = (names: readonly string[], what: string): readonly string[] =>
    names.length === 0 ? [] : [`containers with ${what} status: [${names.join(" ")}]`];
  return [...part(unknown, "unknown"), ...part(lacking, word)].join(", ");
}

function condition(
  pod: NodePod,
  type: string,
  { isTrue, reason = "", message = "" }: { readonly isTrue: boolean; readonly reason?: string; readonly message?: string },
): PodCondition {
  const { generation = 0 } = pod.metadata;
  return {
    type,
    status: isTrue ? "True" : "False",
    ...(reason !== "" && { reason }),
    ...(message !== "" && { message }),
    ...(generation !== 0 && { observedGeneration: generation }),
  };
}
