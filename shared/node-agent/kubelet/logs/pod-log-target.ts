/**
 * Which instance of a container a log request means, or what the user is told instead (node-agent §15).
 *
 * Source: pkg/kubelet/kubelet_pods.go validateContainerLogStatus.
 */
import type { PodStatus } from "../../ports/node-store.ts";
import type { ContainerStatusEntry } from "../types/pod.ts";

export type PodLogTarget =
  /** `containerId` is as the status has it, `containerd://<id>`; `id` is the runtime's own. */
  { readonly kind: "container"; readonly containerId: string; readonly id: string } | { readonly kind: "refused"; readonly text: string };

/** With `previous` the last one that ended; else the one that runs, or ended last. `status` is the pod's cached one. */
export function podLogTarget(podName: string, status: PodStatus, container: string, previous: boolean): PodLogTarget {
  const entry = entryOf(status, container);
  const subject = `container "${container}" in pod "${podName}"`;
  if (entry === undefined) return refused(`${subject} is not available`);
  const { waiting, running, terminated } = entry.state ?? {};
  const last = entry.lastState?.terminated;

  if (previous) return last?.containerID ? target(last.containerID) : refused(`previous terminated ${subject} not found`);
  if (running !== undefined) return target(entry.containerID ?? "");
  // The next instance did not start, so this state is nobody's: the one before is the newest that has a log.
  if (terminated !== undefined) return targetOr(terminated.containerID || last?.containerID, `${subject} is terminated`);
  if (last !== undefined) return targetOr(last.containerID, `${subject} is terminated`);
  if (waiting !== undefined) return refused(`${subject} is waiting to start: ${waitingText(waiting.reason ?? "")}`);
  return refused(`${subject} is waiting to start - no logs yet`);
}

function entryOf(status: PodStatus, container: string): ContainerStatusEntry | undefined {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = status;
  return [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses].find(({ name }) => name === container);
}

/** The two pull failures are said in words, everything else by its reason. */
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
