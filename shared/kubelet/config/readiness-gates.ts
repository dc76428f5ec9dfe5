import type { NodePod } from "../pod.ts";

/**
 * Somebody set a condition that a readiness gate of the pod waits for, so that its Ready condition must be computed anew (node-agent §3).
 * Source: pkg/kubelet/kubelet.go HandlePodReconcile, status.NeedToReconcilePodReadiness.
 */
export function readinessGatesChanged(before: NodePod, after: NodePod): boolean {
  const statusOf = (pod: NodePod, type: string): string | undefined =>
    pod.status?.conditions?.find((condition) => condition.type === type)?.status;
  return (after.spec.readinessGates ?? []).some(({ conditionType }) => statusOf(before, conditionType) !== statusOf(after, conditionType));
}
