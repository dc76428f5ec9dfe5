/** Decides on in-place resizes and their order (node-agent §6.11). */
import { admit, type Admission, type AdmissionInput } from "./admission.ts";
import { podRequests, qosClass, wholeAmount } from "../types/pod-requests.ts";
import { isStaticPod } from "../types/labels.ts";
import type { PodAllocation } from "../../ports/node-store.ts";
import type { NodePod } from "../types/pod.ts";
import { allocatedPod } from "./allocation.ts";
import type { Refusal } from "./resize-conditions.ts";

const RESIZED = ["cpu", "memory"] as const;

/**
 * Returns why a resize cannot be granted now, or undefined if it can. Infeasible means that it exceeds the node's capacity; otherwise it
 * is Deferred.
 *
 *     4 CPUs, another pod has 3, requested 2 → Deferred        requested 5 → Infeasible
 *
 * Source: pkg/kubelet/allocation/handlers.go, allocation_manager.go canAdmitPod. Differs from upstream: v1.36 leaves infeasible resizes to
 * the API server. Older API servers accept them, so this reports them with the messages of older kubelets.
 */
export function resizeRefusal(input: AdmissionInput): Refusal | undefined {
  return infeasible(input) ?? deferred(admit(input));
}

function infeasible({ pod, allocatable }: AdmissionInput): Refusal | undefined {
  const reason = "Infeasible";
  if (isStaticPod(pod)) return { cause: reason, reason, message: "In-place resize of static-pods is not supported" };
  const requests = podRequests(pod);
  const capacities = { cpu: allocatable.cpuMilli, memory: allocatable.memoryBytes };
  const excess = RESIZED.filter((name) => wholeAmount(requests, name) > capacities[name]).map(
    (name) => `${name}, requested: ${wholeAmount(requests, name)}, capacity: ${capacities[name]}`,
  );
  if (excess.length === 0) return undefined;
  return { cause: reason, reason, message: `Node didn't have enough capacity: ${excess.join("; ")}` };
}

function deferred(admission: Admission): Refusal | undefined {
  return admission.admitted ? undefined : { cause: admission.reason, reason: "Deferred", message: admission.message };
}

/**
 * Sorts resizes: decreases first, then by priority, then Guaranteed pods, then the longest wait. Source: allocation_manager.go
 * sortPendingResizes.
 */
export function inResizeOrder(pods: readonly NodePod[], allocations: ReadonlyMap<string, PodAllocation>): readonly NodePod[] {
  const ranked = pods.map((pod) => {
    const allocation = allocations.get(pod.metadata.uid);
    const rank = [
      isIncrease(pod, allocation) ? 1 : 0,
      -(pod.spec.priority ?? 0),
      qosClass(pod) === "Guaranteed" ? 0 : 1,
      allocation?.pending?.sinceMs ?? Number.POSITIVE_INFINITY,
    ];
    return { pod, rank };
  });
  return ranked.toSorted((a, b) => compare(a.rank, b.rank)).map(({ pod }) => pod);
}

function isIncrease(pod: NodePod, allocation: PodAllocation | undefined): boolean {
  const [has, wants] = [podRequests(allocatedPod(pod, allocation)), podRequests(pod)];
  return RESIZED.some((name) => (wants.get(name) ?? 0n) > (has.get(name) ?? 0n));
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index]);
  return at === -1 ? 0 : (a[at] ?? 0) < (b[at] ?? 0) ? -1 : 1;
}
