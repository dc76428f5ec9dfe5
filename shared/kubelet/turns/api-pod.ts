import { CONFIG_ANNOTATIONS, isStaticPod } from "../labels.ts";
import type { PodManager } from "../config/pod-manager.ts";
import type { NodePod } from "../pod.ts";

/**
 * The pod that stands for `pod` in the API server: itself, or the mirror of a static pod. A mirror of its name that was made for an
 * earlier manifest is not its own: what is said there is of another pod, and that one's end must not be taken for this one's.
 */
export function apiPodOf(pods: PodManager, pod: NodePod): NodePod | undefined {
  if (!isStaticPod(pod)) return pod;
  const mirror = pods.mirrorOf(pod);
  const isOwn = mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash];
  return isOwn ? mirror : undefined;
}
