import { parseTime } from "@deltaloop/kube/objects";
import type { PodStatus } from "../../ports/node-store.ts";
import type { NodePod } from "../types/pod.ts";

/**
 * Whether the pod exceeded its active deadline (node-agent §13.2), counted from startTime, which is when the agent first saw the pod.
 * Source: pkg/kubelet/active_deadline.go pastActiveDeadline.
 */
export function isPastActiveDeadline(pod: NodePod, status: PodStatus | undefined, nowMs: number): boolean {
  const seconds = pod.spec.activeDeadlineSeconds;
  const startedMs = parseTime((status ?? pod.status)?.startTime);
  return seconds !== undefined && startedMs !== undefined && nowMs - startedMs >= seconds * 1000;
}
