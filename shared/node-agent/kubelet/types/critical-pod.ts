import { isMirrorPod, isStaticPod } from "./labels.ts";
import type { NodePod } from "./pod.ts";

/** The lowest priority that is reserved for the system. Source: pkg/apis/scheduling/types.go SystemCriticalPriority. */
export const SYSTEM_CRITICAL_PRIORITY = 2_000_000_000;

/**
 * Whether the pod is admitted under node pressure and never evicted (node-agent §14.5). Static pods are critical, because nothing
 * recreates them after an eviction.
 * Source: pkg/kubelet/types/pod_update.go IsCriticalPod.
 */
export function isCriticalPod(pod: NodePod): boolean {
  return isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= SYSTEM_CRITICAL_PRIORITY;
}
