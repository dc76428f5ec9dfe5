/** Events about a pod and its containers (node-agent §9). */
import type { NodeEvent } from "./event-recorder.ts";
import { ephemeralContainersOf, initContainersOf } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";

export function podEvent(
  { record }: { readonly record: (event: NodeEvent) => void },
  pod: NodePod,
  event: Omit<NodeEvent, "involved"> & { readonly container?: string },
): void {
  const { container, ...said } = event;
  const { namespace, name, uid } = pod.metadata;
  const fieldPath = container === undefined ? undefined : fieldPathOf(pod, container);
  record({ involved: { kind: "Pod", apiVersion: "v1", namespace, name, uid, ...(fieldPath !== undefined && { fieldPath }) }, ...said });
}

/** Source: pkg/kubelet/container/ref.go fieldPath. */
function fieldPathOf(pod: NodePod, container: string): string {
  if (initContainersOf(pod).some(({ name }) => name === container)) return `spec.initContainers{${container}}`;
  if (ephemeralContainersOf(pod).some(({ name }) => name === container)) return `spec.ephemeralContainers{${container}}`;
  return `spec.containers{${container}}`;
}
