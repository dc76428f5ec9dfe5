/** Pods go so that a critical one finds its place, and it waits until they are gone (node-agent §14.4). */
import type { AbnormalTermination } from "../../ports/node-store.ts";
import type { LabelsOf } from "@deltaloop/base/metrics";
import type { Preemption } from "./preemption.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { fullName } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";
import { updateWorker } from "../pod-workers/update-worker.ts";
import type { UpdateWorkerPorts } from "../pod-workers/update-worker.ts";

type PreemptPorts = UpdateWorkerPorts & Pick<NodePorts, "log" | "metrics" | "podEvent">;

const PREEMPTED: AbnormalTermination = {
  phase: "Failed",
  reason: "Preempting",
  message: "Preempted in order to admit critical pod",
  isDisruption: true,
  disruptionMessage: "Pod was preempted by Kubelet to accommodate a critical pod.",
};
/** Source: pkg/kubelet/pod_workers.go killPodNow: half as long again as they were given. */
const GRACE_FACTOR = 1.5;
const WAIT_MS_MIN = 10_000;
const LOOK_MS = 250;

type Preempts = Extract<Preemption, { readonly kind: "preempts" }>;

/**
 * Resolves when their containers have ended, or should have: the critical pod is let in then. Until then nothing else is handled that sources
 * say, as with upstream's loop; what runs already goes on. An end of the agent does not wait for it: nobody waits for what sources say, but the
 * look at pending resizes, which the host gives 5 s.
 *
 * Source: preemption.go evictPodsToFreeRequests. Differs from upstream: they end beside each other, not one after the other.
 */
export async function preempt(ports: PreemptPorts, critical: NodePod, { pods, signal }: Preempts): Promise<void> {
  ports.log.warn("pods make room for a critical one", { pod: fullName(critical), resource: signal, preempted: pods.map(fullName).join() });
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
    await clock.after(LOOK_MS);
  }
  metrics?.count("kubelet_preemptions", { preemption_signal: signal } as LabelsOf<"kubelet_preemptions">); // resources that a machine has
}

async function hasEnded({ store }: Pick<NodePorts, "store">, { metadata }: NodePod): Promise<boolean> {
  const record = await store.read("workers", metadata.uid);
  return record === undefined || record.terminatedAtMs !== undefined;
}
