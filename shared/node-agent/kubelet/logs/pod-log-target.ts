/**
 * Selects the container instance for a log request, or returns the error for the client (node-agent §15). Source:
 * pkg/kubelet/kubelet_pods.go validateContainerLogStatus.
 */
import type { PodStatus } from "../../ports/node-store.ts";
import type { ContainerStatusEntry } from "../types/pod.ts";

export type PodLogTarget =
  /** `containerId` is the id in the status, `containerd://<id>`; `id` is the runtime's own id. */
  { readonly kind: "container"; readonly containerId: string; readonly id: string } | { readonly kind: "refused"; readonly text: string };

/**
 * With `previous`, selects the last instance that has ended; otherwise the running or, if none runs, the last instance. `status` is the
 * cached status.
 */
export function podLogTarget(podName: string, status: PodStatus, container: string, previous: boolean): PodLogTarget {
  const entry = entryOf(status, container);
  const subject = `container "${container}" in pod "${podName}"`;
  if (entry === undefined) return refused(`${subject} is not available`);
  const { waiting, running, terminated } = entry.state ?? {};
  const last = entry.lastState?.terminated;

  if (previous) return last?.containerID ? target(last.containerID) : refused(`previous terminated ${subject} not found`);
  if (running !== undefined) return target(entry.containerID ?? "");
  // Without an id, this state belongs to an instance that never started, so the previous instance is used.
  if (terminated !== undefined) return targetOr(terminated.containerID || last?.containerID, `${subject} is terminated`);
  if (last !== undefined) return targetOr(last.containerID, `${subject} is terminated`);
  if (waiting !== undefined) return refused(`${subject} is waiting to start: ${waitingText(waiting.reason ?? "")}`);
  return refused(`${subject} is waiting to start - no logs yet`);
}

function entryOf(status: PodStatus, container: string): ContainerStatusEntry | undefined {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = status;
  return [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses].find(({ name }) => name === container);
}

/** Returns upstream's words for the two pull failures, otherwise the reason itself. */
function waitingText(reason: string): string {
  if (reason === "ErrImagePull") return "image can't be pulled";
  if (reason === "ImagePullBackOff") return "trying and failing to pull image";
  return reason;
}

function targetOr(containerId: string | undefined, text: string): PodLogTarget {
  return containerId ? target(containerId) : refused(text);
}

function target(containerId: string): PodLogTarget {
  const separator = containerId.indexOf("://");
  return { kind: "container", containerId, id: separator === -1 ? "" : containerId.slice(separator + 3) };
}

function refused(text: string): PodLogTarget {
  return { kind: "refused", text };
}
