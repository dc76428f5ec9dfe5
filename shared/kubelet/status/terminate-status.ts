/** The last status of a pod, when all of it is gone (node-agent §13.6, TerminatePod). */
import { formatTime } from "../../api/time.ts";
import type { PodStatus } from "../../ports/node-store.ts";
import { UNSEEN_AT_END, UNSEEN_EXIT } from "./container-statuses.ts";
import { isStaticPod } from "../labels.ts";
import { withTerminalReadiness } from "./pod-conditions.ts";
import { initContainersOf, isTerminalPhase } from "../pod.ts";
import type { ContainerStatusEntry, NodePod } from "../pod.ts";

/**
 * `status` (the cached one, else the API server's) with nothing left open: a container that nobody saw end failed, unless the
 * pod never came to start it, and the phase is terminal.
 *
 *     no init containers, a RUNNING         → a Terminated 137 ContainerStatusUnknown, Failed
 *     init i1, i2 waiting, a waiting        → i1 Terminated 137, i2 and a as they are, Failed
 *     init i1 waiting, i2 ended 1, a waiting → i1 Terminated 137, Failed
 *
 * A static pod keeps its phase.
 *
 * Source: pkg/kubelet/status/status_manager.go TerminatePod, hasPodInitialized, initializedContainers.
 * Differs from upstream: whether the pod was initialised is read from `status` as well as from what the API server has; a
 * container ended this way is neither started nor ready, and no more is the pod.
 */
export function terminatedStatus(pod: NodePod, status: PodStatus, nowMs: number): PodStatus {
  const { containerStatuses, initContainerStatuses, conditions } = status;
  const initialized = hasPodInitialized(pod, status) || hasPodInitialized(pod, pod.status ?? {});
  const phase = isStaticPod(pod) || isTerminalPhase(status.phase) ? status.phase : "Failed";
  return {
    ...status,
    ...(phase !== undefined && { phase }),
    ...(containerStatuses && { containerStatuses: initialized ? containerStatuses.map(ended) : containerStatuses }),
    ...(initContainerStatuses && { initContainerStatuses: withBegunEnded(initContainerStatuses) }),
    ...(conditions && { conditions: [...withTerminalReadiness(conditions, phase, formatTime(nowMs))] }),
  };
}

function ended(container: ContainerStatusEntry): ContainerStatusEntry {
  if (container.state?.terminated !== undefined) return container;
  return { ...container, state: { terminated: { ...UNSEEN_EXIT, message: UNSEEN_AT_END } }, ready: false, started: false };
}

/** Up to the last one that ever started; at least the first. */
function withBegunEnded(containers: readonly ContainerStatusEntry[]): ContainerStatusEntry[] {
  const lastBegun = containers.findLastIndex(hasBegun);
  return containers.map((container, index) => (index <= Math.max(lastBegun, 0) ? ended(container) : container));
}

function hasBegun({ state, lastState }: ContainerStatusEntry): boolean {
  return state?.waiting === undefined || lastState?.terminated !== undefined;
}

/** A regular container left Waiting once, or the last init container ended with 0. */
function hasPodInitialized(pod: NodePod, { containerStatuses = [], initContainerStatuses = [] }: PodStatus): boolean {
  if (initContainersOf(pod).length === 0 || containerStatuses.some(hasBegun)) return true;
  const { state, lastState } = initContainerStatuses.at(-1) ?? {};
  return state?.terminated?.exitCode === 0 || lastState?.terminated?.exitCode === 0;
}
