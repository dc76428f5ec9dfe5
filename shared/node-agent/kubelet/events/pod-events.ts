import type { NodeEvent } from "./event-recorder.ts";
import { ephemeralContainersOf, initContainersOf, type NodePod } from "../types/pod.ts";

export type PodEvent = Omit<NodeEvent, "involved"> & { readonly container?: string };

/** Returns a function that records Events about a pod and its containers (node-agent §9). */
export function podEventRecorder(record: (event: NodeEvent) => void): (pod: NodePod, event: PodEvent) => void {
  return (pod, { container, ...event }) => {
    const { namespace, name, uid } = pod.metadata;
    const fieldPath = container === undefined ? undefined : fieldPathOf(pod, container);
    record({ involved: { kind: "Pod", apiVersion: "v1", namespace, name, uid, ...(fieldPath !== undefined && { fieldPath }) }, ...event });
  };
}

/** Source: pkg/kubelet/container/ref.go fieldPath. */
function fieldPathOf(pod: NodePod, container: string): string {
  if (initContainersOf(pod).some(({ name }) => name === container)) return `spec.initContainers{${container}}`;
  if (ephemeralContainersOf(pod).some(({ name }) => name === container)) return `spec.ephemeralContainers{${container}}`;
  return `spec.containers{${container}}`;
}
