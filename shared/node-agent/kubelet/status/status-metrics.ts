import { parseTime } from "@deltaloop/kube/objects";
import type { PodStatus } from "../../ports/node-store.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { CONFIG_ANNOTATIONS } from "../types/labels.ts";
import type { NodePod } from "../types/pod.ts";
import { terminationsBetween } from "./terminations.ts";

/**
 * Observes the start latency of a pod that began to run. Source: pkg/kubelet/kubelet.go SyncPod. Differs from upstream: because of
 * operator precedence, upstream also counts the first sync of every pod.
 */
export function countStart({ metrics, clock }: Pick<NodePorts, "clock" | "metrics">, { metadata }: NodePod): void {
  const seenMs = parseTime(metadata.annotations?.[CONFIG_ANNOTATIONS.seen]);
  if (seenMs !== undefined) metrics?.observe("kubelet_pod_start_duration_seconds", {}, (clock.now() - seenMs) / 1000);
}

export function countEnds({ metrics }: Pick<NodePorts, "metrics">, before: PodStatus, after: PodStatus): void {
  for (const { containerType, exitCode, reason } of terminationsBetween(before, after))
    metrics?.count("kubelet_terminated_containers_total", { container_type: containerType, exit_code: String(exitCode), reason });
}
