/**
 * Selects the pods to preempt for a critical pod (node-agent §14.4): lower QoS classes first, and as few pods as possible. Source:
 * pkg/kubelet/preemption/preemption.go getPodsToPreempt; pkg/kubelet/types/pod_update.go Preemptable.
 */
import type { NodePod } from "../types/pod.ts";
import { isCriticalPod } from "../types/critical-pod.ts";
import { podRequests, qosClass, wholeAmount } from "../types/pod-requests.ts";

/** The missing amount in whole units; `cpu` is in millicores. */
export interface Shortage {
  readonly resource: string;
  readonly missing: number;
}

export type Preemption =
  | { readonly kind: "preempts"; readonly pods: readonly NodePod[]; /** Value of the metric's label. */ readonly signal: string }
  /** Returned if preempting all candidates would not free enough. */
  | { readonly kind: "impossible"; readonly missing: readonly Shortage[] };

/** @param active the other active pods @param shortages the missing resources, at least one */
export function preemptionFor(critical: NodePod, active: readonly NodePod[], shortages: readonly Shortage[]): Preemption {
  const candidates = active.filter((pod) => isPreemptable(critical, pod));
  const missing = without(shortages, candidates);
  if (missing.length > 0) return { kind: "impossible", missing };
  const [bestEffort, burstable, guaranteed] = (["BestEffort", "Burstable", "Guaranteed"] as const).map((wanted) =>
    candidates.filter((pod) => qosClass(pod) === wanted),
  ) as [NodePod[], NodePod[], NodePod[]]; // one list per QoS class Each class provides only what the lower classes together cannot.
  const ofGuaranteed = nearest(guaranteed, without(shortages, [...bestEffort, ...burstable]));
  const ofBurstable = nearest(burstable, without(shortages, [...bestEffort, ...ofGuaranteed]));
  const ofBestEffort = nearest(bestEffort, without(shortages, [...ofBurstable, ...ofGuaranteed]));
  return { kind: "preempts", pods: [...ofBestEffort, ...ofBurstable, ...ofGuaranteed], signal: shortages[0]?.resource ?? "" };
}

function isPreemptable(critical: NodePod, other: NodePod): boolean {
  if (!isCriticalPod(other)) return true;
  const [own, its] = [critical.spec.priority, other.spec.priority];
  return own !== undefined && its !== undefined && own > its;
}

function amountOf(pod: NodePod, resource: string): number {
  return resource === "pods" ? 1 : wholeAmount(podRequests(pod), resource);
}

/** Returns the shortages that remain if these pods are preempted. */
function without(shortages: readonly Shortage[], pods: readonly NodePod[]): readonly Shortage[] {
  return shortages.flatMap(({ resource, missing }) => {
    const left = pods.reduce((rest, pod) => rest - amountOf(pod, resource), missing);
    return left > 0 ? [{ resource, missing: left }] : [];
  });
}

/**
 * Repeatedly selects the pod that covers most of the remaining shortages. In case of a tie, selects the smaller pod, and then the later
 * one.
 */
function nearest(pods: readonly NodePod[], shortages: readonly Shortage[]): readonly NodePod[] {
  const rest = [...pods];
  const taken: NodePod[] = [];
  let missing = shortages;
  while (missing.length > 0 && rest.length > 0) {
    let best = 0;
    let bestDistance = Infinity;
    for (const [i, pod] of rest.entries()) {
      const distance = distanceOf(pod, missing);
      const isBetter = distance < bestDistance || (distance === bestDistance && isNoLarger(pod, rest[best]));
      if (isBetter) [best, bestDistance] = [i, distance];
    }
    const [pod] = rest.splice(best, 1, ...rest.slice(-1)); // fills the gap with the last pod, as upstream does, which decides ties
    rest.pop();
    if (pod === undefined) break;
    taken.push(pod);
    missing = without(missing, [pod]);
  }
  return taken;
}

/** Weighs all shortages equally, regardless of their units. */
function distanceOf(pod: NodePod, shortages: readonly Shortage[]): number {
  return shortages.reduce((sum, { resource, missing }) => sum + (Math.max(0, missing - amountOf(pod, resource)) / missing) ** 2, 0);
}

function isNoLarger(a: NodePod, b: NodePod | undefined): boolean {
  if (b === undefined) return true;
  for (const resource of ["memory", "cpu"]) {
    const [of, than] = [amountOf(a, resource), amountOf(b, resource)];
    if (of !== than) return of < than;
  }
  return true;
}
