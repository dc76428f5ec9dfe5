/** Computes the phase of a pod from its containers (node-agent §13.2). */
import { isStaticPod } from "../types/labels.ts";
import { isStoppedForRestart, restartsAfter, type ObservedPod } from "../types/observed-pod.ts";
import { initContainersOf, isSidecar, type ContainerSpec, type ContainerStatusEntry, type NodePod } from "../types/pod.ts";

export type PodPhase = "Pending" | "Running" | "Succeeded" | "Failed";

/** Number of containers by role and state. */
interface Counts {
  /** Plain init containers that have not ended yet. */
  pendingInit: number;
  /** Plain init containers that failed permanently. */
  failedInit: number;
  /** Sidecars that have not started. */
  pendingSidecar: number;
  /** Sidecars and regular containers whose state is unknown. */
  unknown: number;
  running: number;
  waiting: number;
  /** Regular containers that have ended, including those in back-off. */
  stopped: number;
  /** Stopped containers that exited with code 0 and are not waiting for a restart. */
  succeeded: number;
  /** Stopped containers that will not be restarted, by their own or the pod's restart policy. */
  stoppedForGood: number;
}

/**
 * Returns the phase; the first matching row applies:
 *
 *     a plain init container failed permanently                                 → Failed
 *     one has not ended; or a sidecar has not started, before any regular one   → Pending
 *     a container that never ran is waiting                                          → Pending
 *     some run, and the states of all are known                                                   → Running
 *     none runs, the states of all are known, and some have stopped:
 *        the pod has ended (`terminal`) and is not static                       → Succeeded if all exited with 0, else Failed
 *        some will restart, by policy or because they were stopped for it       → Running
 *        all exited with 0                                                      → Succeeded, else Failed
 *     anything else                                                             → Pending
 *
 * Ignores stopped sidecars. `statuses` are those of init and regular containers. Source: pkg/kubelet/kubelet_pods.go getPhase.
 */
export function podPhase(pod: NodePod, statuses: readonly ContainerStatusEntry[], observed: ObservedPod, terminal: boolean): PodPhase {
  const counts = count(pod, statuses, observed);
  if (counts.failedInit > 0) return "Failed";
  if (counts.pendingInit > 0 || (counts.pendingSidecar > 0 && !hasRegularContainerInSandbox(pod, observed))) return "Pending";
  if (counts.waiting > 0 || counts.unknown > 0) return "Pending";
  if (counts.running > 0) return "Running";
  if (counts.stopped === 0) return "Pending";
  const isOver = terminal && !isStaticPod(pod);
  if (!isOver && counts.stoppedForGood < counts.stopped) return "Running";
  return counts.succeeded === counts.stopped ? "Succeeded" : "Failed";
}

function count(pod: NodePod, statuses: readonly ContainerStatusEntry[], observed: ObservedPod): Counts {
  const counts: Counts = {
    pendingInit: 0,
    failedInit: 0,
    pendingSidecar: 0,
    unknown: 0,
    running: 0,
    waiting: 0,
    stopped: 0,
    succeeded: 0,
    stoppedForGood: 0,
  };
  const statusOf = ({ name }: ContainerSpec): ContainerStatusEntry | undefined => statuses.find((status) => status.name === name);
  for (const container of initContainersOf(pod)) {
    if (isSidecar(container)) countSidecar(counts, statusOf(container));
    else if (isStoppedForRestart(observed, container.name)) counts.pendingInit++;
    else countInit(counts, pod, container, statusOf(container));
  }
  for (const container of pod.spec.containers)
    if (isStoppedForRestart(observed, container.name)) counts.stopped++;
    else countRegular(counts, pod, container, statusOf(container));
  return counts;
}

function countInit(counts: Counts, pod: NodePod, container: ContainerSpec, status: ContainerStatusEntry | undefined): void {
  const exitCode = exitCodeOf(status);
  if (exitCode === undefined) counts.pendingInit++;
  else if (exitCode !== 0 && !restartsAfter(pod, container, exitCode)) counts.failedInit++;
}

function countSidecar(counts: Counts, status: ContainerStatusEntry | undefined): void {
  if (status === undefined) counts.unknown++;
  else if (status.state?.running !== undefined) {
    counts.running++;
    if (status.started !== true) counts.pendingSidecar++;
  } else if (exitCodeOf(status) === undefined) {
    counts.pendingSidecar++;
    if (status.state?.waiting === undefined) counts.unknown++;
    else counts.waiting++;
  }
}

function countRegular(counts: Counts, pod: NodePod, container: ContainerSpec, status: ContainerStatusEntry | undefined): void {
  const exitCode = exitCodeOf(status);
  if (status?.state?.running !== undefined) counts.running++;
  else if (exitCode !== undefined) {
    counts.stopped++;
    if (status?.state?.terminated?.exitCode === 0) counts.succeeded++;
    if (!restartsAfter(pod, container, exitCode)) counts.stoppedForGood++;
  } else if (status?.state?.waiting === undefined) counts.unknown++;
  else counts.waiting++;
}

/** Returns the exit code of the last termination, even while the container waits for a restart. */
function exitCodeOf(status: ContainerStatusEntry | undefined): number | undefined {
  const { state, lastState } = status ?? {};
  if (state?.running !== undefined) return undefined;
  if (state?.terminated !== undefined) return state.terminated.exitCode;
  return state?.waiting === undefined ? undefined : lastState?.terminated?.exitCode;
}

/**
 * Whether initialization is complete. If it is, a sidecar that restarts must not return the pod to Pending. Source:
 * pkg/kubelet/container/helpers.go HasAnyActiveRegularContainerStarted.
 */
function hasRegularContainerInSandbox(pod: NodePod, { sandboxes, containers }: ObservedPod): boolean {
  const [newest] = sandboxes;
  if (newest?.state !== "SANDBOX_READY") return false;
  return containers.some(({ name, sandboxId }) => sandboxId === newest.id && pod.spec.containers.some((regular) => regular.name === name));
}
