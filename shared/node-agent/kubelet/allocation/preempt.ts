/** Preempts pods for a critical pod (node-agent §14.4). */
import type { AbnormalTermination } from "../../ports/node-store.ts";
import type { LabelsOf } from "@deltaloop/base/metrics";
import type { Preemption } from "./preemption.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { fullName, type NodePod } from "../types/pod.ts";
import { updateWorker, type UpdateWorkerPorts } from "../pod-workers/update-worker.ts";

type PreemptPorts = UpdateWorkerPorts & Pick<NodePorts, "log" | "metrics" | "podEvent">;

const PREEMPTED: AbnormalTermination = {
  phase: "Failed",
  reason: "Preempting",
  message: "Preempted in order to admit critical pod",
  isDisruption: true,
  disruptionMessage: "Pod was preempted by Kubelet to accommodate a critical pod.",
};
/** Multiple of a preempted pod's grace period for which the agent waits. Source: pkg/kubelet/pod_workers.go killPodNow. */
const GRACE_FACTOR = 1.5;
const WAIT_MS_MIN = 10_000;
const POLL_MS = 250;

type Preempts = Extract<Preemption, { readonly kind: "preempts" }>;

/**
 * Preempts the pods. Resolves when their containers have exited or the wait has timed out. As in upstream, this blocks the pod sources,
 * but not the running pods. When the agent stops, only pending resizes wait for this call, and the host waits up to 5 s for them. Source:
 * preemption.go evictPodsToFreeRequests. Differs from upstream: preempts the pods in parallel.
 */
export async function preempt(ports: PreemptPorts, critical: NodePod, { pods, signal }: Preempts): Promise<void> {
  ports.log.warn("preempting pods for a critical pod", { pod: fullName(critical), resource: signal, preempted: pods.map(fullName).join() });
  await Promise.all(pods.map((pod) => preemptOne(ports, pod, signal)));
}

async function preemptOne(ports: UpdateWorkerPorts & Pick<NodePorts, "metrics" | "podEvent">, pod: NodePod, signal: string): Promise<void> {
  const { clock, metrics } = ports;
  const { reason, message } = PREEMPTED;
  ports.podEvent(pod, { type: "Warning", reason, message });
  await updateWorker(ports, pod, "kill", "preempted", { abnormal: PREEMPTED, evict: true });
  const untilMs = clock.now() + Math.max(WAIT_MS_MIN, (pod.spec.terminationGracePeriodSeconds ?? 0) * 1_000 * GRACE_FACTOR);
  while (!(await hasEnded(ports, pod))) {
    if (clock.now() >= untilMs)
      return ports.podEvent(pod, {
        type: "Warning",
        reason: "ExceededGracePeriod",
        message: "Container runtime did not kill the pod within specified grace period.",
      });
    await clock.after(POLL_MS);
  }
  metrics?.count("kubelet_preemptions", { preemption_signal: signal } as LabelsOf<"kubelet_preemptions">); // `signal` is always one of the metric's labels
}

async function hasEnded({ store }: Pick<NodePorts, "store">, { metadata }: NodePod): Promise<boolean> {
  const record = await store.read("workers", metadata.uid);
  return record === undefined || record.terminatedAtMs !== undefined;
}
