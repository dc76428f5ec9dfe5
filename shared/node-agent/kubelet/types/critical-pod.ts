/** Pods that a node keeps and admits whatever it runs short of (node-agent §14.5). */
import { isMirrorPod, isStaticPod } from "./labels.ts";
import type { NodePod } from "./pod.ts";

/** Source: pkg/apis/scheduling/types.go SystemCriticalPriority. */
export const SYSTEM_CRITICAL_PRIORITY = 2_000_000_000;

/** Source: pkg/kubelet/types/pod_update.go IsCriticalPod: a static pod is not admitted again once it is evicted. */
export function isCriticalPod(pod: NodePod): boolean {
  return isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= SYSTEM_CRITICAL_PRIORITY;
}
