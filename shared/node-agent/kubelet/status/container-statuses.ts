/** Computes container statuses (node-agent §13.1), including readiness (`withReadiness`, §11). */
import { ownAt } from "@deltaloop/base";
import { formatTime } from "@deltaloop/kube/objects";
import type { WaitingReason } from "../../ports/node-store.ts";
import { isStoppedForRestart, newestOf, shouldContainerBeRestarted } from "../types/observed-pod.ts";
import type { ObservedContainer, ObservedPod, ProbeAnswer } from "../types/observed-pod.ts";
import { isSidecar, type ContainerSpec, type ContainerStatusEntry, type NodePod } from "../types/pod.ts";
import { statusResources } from "./container-resources.ts";

/** Exit code and reason of a container whose end was not observed: 128 + SIGKILL. */
export const UNSEEN_EXIT = { exitCode: 137, reason: "ContainerStatusUnknown" } as const;
/** Upstream's texts, which users and tools search for. Source: pkg/kubelet/kubelet_pods.go, status_manager.go. */
export const UNSEEN_AT_END = "The container could not be located when the pod was terminated";
const UNSEEN_AFTER_RUNNING = "The container could not be located when the pod was deleted.  The container used to be Running";
const UNSEEN_INIT_CONTAINER =
  "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";

export type ContainerStateEntry = NonNullable<ContainerStatusEntry["state"]>;

/** One of a pod's three container lists, with its previous statuses. */
export interface ContainerGroup {
  readonly containers: readonly ContainerSpec[];
  readonly previous: readonly ContainerStatusEntry[] | undefined;
  readonly isInit: boolean;
}

interface Known {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  /** Name of the runtime, `containerd`, which is the prefix of container ids in the API. */
  readonly runtimeName: string;
  readonly reasons: Readonly<Record<string, WaitingReason>>;
}

/**
 * Returns one entry per container: init containers in spec order, others sorted by name.
 *
 *     two instances observed            → the newest is `state`, the one before `lastState`
 *     none, never seen before           → Waiting ContainerCreating (PodInitializing with init containers)
 *     none, was Terminated              → unchanged
 *     none, was Running                 → Waiting, lastState Terminated 137, restartCount + 1
 *     to be started, last try failed    → Waiting with that reason; Terminated moves to lastState
 *     stopped for a restart             → also Waiting: the API server never lets a container leave Terminated
 *
 * Source: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses. Differs from upstream: omits `user`, because the port's
 * ContainerStatus has no such field.
 */
export function containerStatuses(known: Known, group: ContainerGroup): ContainerStatusEntry[] {
  const statuses = group.containers.map((container) => containerStatus(known, group, container));
  return group.isInit ? statuses : statuses.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function containerStatus(known: Known, group: ContainerGroup, container: ContainerSpec): ContainerStatusEntry {
  const previous = group.previous?.find(({ name }) => name === container.name);
  const [newest, older] = known.observed.containers.filter(({ name }) => name === container.name);
  const status =
    newest === undefined ? unobserved(known.pod, container, previous) : observedStatus(known, container, { previous, newest, older });
  if (group.isInit) {
    if (newest?.state === "CONTAINER_EXITED" && newest.exitCode === 0 && newest.endedForRestart !== true) return status;
    if (newest === undefined && status.state?.waiting !== undefined && !isSidecar(container) && isRegularContainerCreated(known))
      return { ...status, state: { terminated: { exitCode: 0, reason: "Completed", message: UNSEEN_INIT_CONTAINER } } };
  }
  return withStartFailure(known, container, status);
}

function base(container: ContainerSpec): ContainerStatusEntry {
  const volumeMounts = container.volumeMounts?.map(({ name, mountPath, readOnly }) =>
    readOnly === true ? { name, mountPath, readOnly, recursiveReadOnly: "Disabled" } : { name, mountPath },
  );
  return {
    name: container.name,
    image: container.image ?? "",
    imageID: "",
    ready: false,
    restartCount: 0,
    state: {},
    lastState: {},
    ...(volumeMounts !== undefined && volumeMounts.length > 0 && { volumeMounts }),
  };
}

/**
 * The container has no instance. If one ran before, lastState reports that its exit was missed, so that the pod does not return to Pending.
 */
function unobserved(pod: NodePod, container: ContainerSpec, previous: ContainerStatusEntry | undefined): ContainerStatusEntry {
  if (previous?.state?.terminated !== undefined) return previous;
  const waiting = { ...base(container), state: { waiting: { reason: startingReason(pod) } } };
  if (previous === undefined) return waiting;
  const { restartCount, lastState = {} } = previous;
  if (previous.state?.running === undefined || lastState.terminated !== undefined) return { ...waiting, restartCount, lastState };
  return {
    ...waiting,
    // Containers of a pod that is being deleted are not restarted.
    restartCount: pod.metadata.deletionTimestamp === undefined ? restartCount + 1 : restartCount,
    lastState: { terminated: { ...UNSEEN_EXIT, message: UNSEEN_AFTER_RUNNING } },
  };
}

function startingReason(pod: NodePod): string {
  return (pod.spec.initContainers ?? []).length > 0 ? "PodInitializing" : "ContainerCreating";
}

/** The restart count never decreases. The last termination is kept when its container is removed (§16.1). */
function observedStatus(
  { runtimeName }: Known,
  container: ContainerSpec,
  {
    previous,
    newest,
    older,
  }: {
    readonly previous: ContainerStatusEntry | undefined;
    readonly newest: ObservedContainer;
    readonly older: ObservedContainer | undefined;
  },
): ContainerStatusEntry {
  const wasRunning = previous?.state?.running !== undefined;
  const restartCount = previous?.restartCount ?? 0;
  return {
    ...base(container),
    image: newest.image,
    imageID: newest.imageRef,
    containerID: `${runtimeName}://${newest.id}`,
    restartCount: newest.state === "CONTAINER_UNKNOWN" && wasRunning ? restartCount + 1 : Math.max(restartCount, newest.restartCount),
    ...statusResources(container, newest, previous),
    state: withMessage(stateOf(newest, wasRunning, runtimeName), previous),
    lastState: older === undefined ? lastEnd(newest, previous) : withMessage(stateOf(older, wasRunning, runtimeName), previous),
  };
}

function lastEnd(newest: ObservedContainer, previous: ContainerStatusEntry | undefined): ContainerStateEntry {
  const ended = previous?.state?.terminated;
  if (ended !== undefined && runtimeId(previous) !== newest.id) return { terminated: ended };
  const before = previous?.lastState?.terminated;
  return before === undefined ? {} : { terminated: before };
}

/**
 * Keeps the message that was reported for a terminated container. Its termination log is removed with the pod's directory, while the
 * container may still exist. Upstream keeps the directory until the pod object is deleted.
 */
function withMessage(state: ContainerStateEntry, previous: ContainerStatusEntry | undefined): ContainerStateEntry {
  const { terminated } = state;
  if (terminated === undefined || terminated.message !== undefined || terminated.containerID === undefined) return state;
  const known = [previous?.state?.terminated, previous?.lastState?.terminated].find((end) => end?.containerID === terminated.containerID);
  return known?.message === undefined ? state : { terminated: { ...terminated, message: known.message } };
}

function stateOf(container: ObservedContainer, wasRunning: boolean, runtimeName: string): ContainerStateEntry {
  const startedAt = container.startedAtMs === undefined ? {} : { startedAt: formatTime(container.startedAtMs) };
  switch (container.state) {
    case "CONTAINER_RUNNING":
      return { running: startedAt };
    case "CONTAINER_CREATED":
      return { waiting: {} };
    case "CONTAINER_EXITED": {
      const { exitCode, reason, message, finishedAtMs } = container;
      return {
        terminated: {
          exitCode,
          ...(reason !== "" && { reason }),
          ...(message !== "" && { message }),
          ...startedAt,
          ...(finishedAtMs !== undefined && { finishedAt: formatTime(finishedAtMs) }),
          containerID: `${runtimeName}://${container.id}`,
        },
      };
    }
    case "CONTAINER_UNKNOWN":
      return wasRunning ? { terminated: { ...UNSEEN_EXIT, message: UNSEEN_AT_END } } : { waiting: {} };
  }
}

/** Source: pkg/kubelet/kuberuntime/kuberuntime_container.go HasAnyRegularContainerCreated. */
function isRegularContainerCreated({ pod, observed }: Known): boolean {
  return pod.spec.containers.some(({ name }) => {
    const state = newestOf(observed, name)?.state;
    return state !== undefined && state !== "CONTAINER_UNKNOWN";
  });
}

function withStartFailure({ pod, observed, reasons }: Known, container: ContainerSpec, status: ContainerStatusEntry): ContainerStatusEntry {
  const isRestarting = isStoppedForRestart(observed, container.name);
  const failure = ownAt(reasons, container.name) ?? (isRestarting ? { reason: startingReason(pod), message: "" } : undefined);
  if (failure === undefined || !shouldContainerBeRestarted(pod, container, observed)) return status;
  const { state = {}, lastState = {} } = status;
  const waiting = { reason: failure.reason, ...(failure.message !== "" && { message: failure.message }) };
  return { ...status, state: { waiting }, lastState: state.terminated === undefined ? lastState : state };
}

/** Readiness by the runtime's container id. */
export interface ReadinessProbes {
  readiness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

/** Returns the statuses of init or regular containers with their readiness. */
export function probedStatuses(known: Known & { readonly probes: ReadinessProbes }, group: ContainerGroup): ContainerStatusEntry[] {
  return withReadiness(group.containers, containerStatuses(known, group), { isInit: group.isInit, probes: known.probes });
}

/**
 * Sets the readiness of a regular container or sidecar:
 *
 *     not RUNNING                               → not started, not ready
 *     startup probe without Success             → not started, not ready
 *     started, readiness probe without Success  → started, not ready
 *     started, no readiness probe, or Success   → ready
 *
 * A plain init container is ready once it exited with 0. Source: pkg/kubelet/prober/prober_manager.go UpdatePodStatus, isContainerStarted.
 * Differs from upstream: a container whose probe has no result yet is not started or not ready, even after an agent restart (feature gate
 * ChangeContainerStatusOnKubeletRestart).
 */
export function withReadiness(
  containers: readonly ContainerSpec[],
  statuses: readonly ContainerStatusEntry[],
  { isInit, probes }: { readonly isInit: boolean; readonly probes: ReadinessProbes },
): ContainerStatusEntry[] {
  return statuses.map((status) => {
    const container = containers.find(({ name }) => name === status.name);
    if (container === undefined) return status;
    const started = isStarted(container, status, probes);
    if (isInit && !isSidecar(container)) return { ...status, started, ready: status.state?.terminated?.exitCode === 0 };
    return { ...status, started, ready: started && isReady(container, status, probes) };
  });
}

function isStarted(container: ContainerSpec, status: ContainerStatusEntry, probes: ReadinessProbes): boolean {
  if (status.state?.running === undefined) return false;
  const answer = probes.startup(runtimeId(status));
  return answer === undefined ? container.startupProbe === undefined : answer === "Success";
}

function isReady(container: ContainerSpec, status: ContainerStatusEntry, probes: ReadinessProbes): boolean {
  return container.readinessProbe === undefined || probes.readiness(runtimeId(status)) === "Success";
}

/** The runtime's id. */
function runtimeId({ containerID = "" }: Partial<ContainerStatusEntry> = {}): string {
  return containerID.replace(/^.*?:\/\//u, "");
}
