import { isMirrorPod, isStaticPod } from "./labels.ts";
import type { NodePod } from "./pod.ts";

/** Priorities from here on are reserved for the system. Source: pkg/apis/scheduling/types.go SystemCriticalPriority. */
export const SYSTEM_CRITICAL_PRIORITY = 2_000_000_000;

/**
 * Whether the pod is admitted and kept under node pressure (node-agent §14.5). Static pods are critical, because they are not admitted
 * again after an eviction.
 * Source: pkg/kubelet/types/pod_update.go IsCriticalPod.
 */
export function isCriticalPod(pod: NodePod): boolean {
  return isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= SYSTEM_CRITICAL_PRIORITY;
}
