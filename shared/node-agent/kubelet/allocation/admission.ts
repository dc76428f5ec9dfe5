/** Admission of pods on this node (node-agent §14.4). The scheduler may have used stale data, and static pods bypass it. */
import type { Labels, Wire } from "@deltaloop/kube/objects";
import { EVICTED, nodeConditionMessage } from "../eviction/messages.ts";
import type { PressureCondition } from "../types/eviction-thresholds.ts";
import { isCriticalPod } from "../types/critical-pod.ts";
import { hostPortConflict } from "./host-ports.ts";
import { isStaticPod } from "../types/labels.ts";
import { matchesNodeAffinity } from "./node-affinity.ts";
import { hugePagesName, type NodeResources } from "../types/node-options.ts";
import type { NodePod } from "../types/pod.ts";
import { podRequests, qosClass, wholeAmount } from "../types/pod-requests.ts";
import { preemptionFor, type Preemption } from "./preemption.ts";
import { forbiddenSysctl } from "./sysctls.ts";
import type { V1Toleration } from "@kubernetes/client-node";

export interface AdmissionInput {
  readonly pod: NodePod;
  /** The other active pods on this node. */
  readonly others: readonly NodePod[];
  readonly node: { readonly labels: Labels; readonly name: string; readonly taints: readonly Taint[] };
  readonly allocatable: NodeResources;
  /** Pressure conditions of the node. Default: none. */
  readonly pressure?: readonly PressureCondition[];
  readonly shuttingDown?: true;
}

export type Admission =
  | {
      readonly admitted: true;
      /** Pods that must be preempted first. */ readonly preemption?: Extract<Preemption, { readonly kind: "preempts" }>;
    }
  | {
      readonly admitted: false;
      /** Reason of the Event and of the status. */
      readonly reason: string;
      /** Rejection message. The status prefixes it with `Pod was rejected: `. */
      readonly message: string;
      /** Set if only node labels or taints reject the pod. They may be stale, so the caller reads the Node and admits again. */
      readonly rereadNode?: true;
    };

type Rejection = Extract<Admission, { readonly admitted: false }>;

/** Amounts in whole units; `cpu` is in millicores. */
interface OutOf {
  readonly resource: string;
  readonly requested: number;
  readonly used: number;
  readonly capacity: number;
}

/** Rejection when the Node cannot be read. */
export const INVALID_NODE_INFO: Admission = { admitted: false, reason: "InvalidNodeInfo", message: "Kubelet cannot get node info." };

const NODE_SHUTDOWN: Admission = { admitted: false, reason: "NodeShutdown", message: "Pod was rejected as the node is shutting down." };

/** Predicates on the Node's labels and taints, which may be stale. */
const NODE_PREDICATES: ReadonlySet<string> = new Set(["NodeAffinity", "TaintToleration"]);
const OS = "linux";
const OS_LABEL = "kubernetes.io/os";

/**
 * Returns the first rejection, if any. Source: pkg/kubelet/lifecycle/predicate.go Admit, pkg/scheduler/eventhandlers.go AdmissionCheck,
 * pkg/kubelet/sysctl. Differs from upstream: no preemption on a node that is shutting down.
 */
export function admit(input: AdmissionInput): Admission {
  const early = pressureRejection(input) ?? sysctlRejection(input.pod) ?? osRejection(input.pod);
  if (early !== undefined) return early;
  const [shortages, placements] = [shortagesOf(input), placementRejections(input)];
  const isCritical = isCriticalPod(input.pod);
  const rejections = isCritical ? placements : [...shortages.map(outOf), ...placements];
  const [first] = rejections;
  if (first !== undefined) return rejections.every(({ reason }) => NODE_PREDICATES.has(reason)) ? { ...first, rereadNode: true } : first;
  if (input.shuttingDown) return NODE_SHUTDOWN;
  return shortages.length === 0 ? { admitted: true } : preemptFor(input, shortages);
}

/** Preempts pods for a critical pod, if that frees enough. Source: preemption.go HandleAdmissionFailure. */
function preemptFor({ pod, others }: AdmissionInput, shortages: readonly OutOf[]): Admission {
  const wanted = shortages.map(({ resource, requested, used, capacity }) => ({ resource, missing: requested - (capacity - used) }));
  const preemption = preemptionFor(pod, others, wanted);
  if (preemption.kind === "preempts") return { admitted: true, preemption };
  const missing = preemption.missing.map(({ resource, missing: quantity }) => `(res: ${resource}, q: ${quantity}), `).join("");
  const why = `preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [${missing}]`;
  return rejected("UnexpectedAdmissionError", `Unexpected error while attempting to recover from admission failure: ${why}`);
}

/**
 * Under memory pressure alone, rejects only BestEffort pods without the toleration; otherwise rejects all but critical pods. Source:
 * pkg/kubelet/eviction/eviction_manager.go Admit.
 */
function pressureRejection({ pod, pressure = [] }: AdmissionInput): Rejection | undefined {
  if (pressure.length === 0 || isCriticalPod(pod)) return undefined;
  const isOfMemoryAlone = pressure.every((condition) => condition === "MemoryPressure");
  if (isOfMemoryAlone && (qosClass(pod) !== "BestEffort" || isTolerated(MEMORY_PRESSURE, pod.spec.tolerations ?? []))) return undefined;
  return rejected(EVICTED, nodeConditionMessage(pressure));
}

const MEMORY_PRESSURE: Taint = { key: "node.kubernetes.io/memory-pressure", effect: "NoSchedule" };

function sysctlRejection({ spec }: NodePod): Rejection | undefined {
  const problem = forbiddenSysctl(spec);
  return problem === undefined ? undefined : rejected("SysctlForbidden", `forbidden sysctl: ${problem}`);
}

function osRejection({ metadata, spec }: NodePod): Rejection | undefined {
  if ((metadata.labels?.[OS_LABEL] ?? OS) !== OS)
    return rejected("PodOSSelectorNodeLabelDoesNotMatch", `Failed to admit pod as the \`${OS_LABEL}\` label doesn't match node label`);
  if ((spec.os?.name ?? OS) !== OS) return rejected("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS");
  return undefined;
}

/**
 * Returns all resources of which the node has too little left for the pod. Unknown huge page sizes have capacity 0; other unknown
 * resources are ignored. Source: plugins/noderesources/fit.go fitsRequest; predicate.go removeMissingExtendedResources.
 */
function shortagesOf({ pod, others, allocatable }: AdmissionInput): readonly OutOf[] {
  const requests = podRequests(pod);
  const hugePages = new Map(Object.entries(allocatable.hugePageBytes ?? {}).map(([size, bytes]) => [hugePagesName(size), bytes]));
  const usedBy = others.map(podRequests);
  const capacities: readonly (readonly [string, number])[] = [
    ["cpu", allocatable.cpuMilli],
    ["memory", allocatable.memoryBytes],
    ["ephemeral-storage", allocatable.ephemeralStorageBytes],
    ...[...requests.keys()].filter((name) => name.startsWith("hugepages-")).map((name) => [name, hugePages.get(name) ?? 0] as const),
  ];
  const shortages = capacities.flatMap(([resource, capacity]) => {
    const requested = wholeAmount(requests, resource);
    const used = usedBy.reduce((sum, other) => sum + wholeAmount(other, resource), 0);
    return requested > 0 && requested > capacity - used ? [{ resource, requested, used, capacity }] : [];
  });
  const podsUsed = others.length;
  return podsUsed + 1 > allocatable.pods
    ? [{ resource: "pods", requested: 1, used: podsUsed, capacity: allocatable.pods }, ...shortages]
    : shortages;
}

function outOf({ resource, requested, used, capacity }: OutOf): Rejection {
  const amounts = `requested: ${requested}, used: ${used}, capacity: ${capacity}`;
  return rejected(`OutOf${resource}`, `Node didn't have enough resource: ${resource}, ${amounts}`);
}

function placementRejections({ pod, others, node }: AdmissionInput): readonly Rejection[] {
  const rejections: Rejection[] = [];
  if (!matchesNodeAffinity(pod.spec, node)) rejections.push(predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
  if ((pod.spec.nodeName ?? "") !== "" && pod.spec.nodeName !== node.name)
    rejections.push(predicate("NodeName", "node(s) didn't match the requested node name"));
  if (hostPortConflict(pod, others)) rejections.push(predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
  if (!isStaticPod(pod) && node.taints.some((taint) => taint.effect === "NoExecute" && !isTolerated(taint, pod.spec.tolerations ?? [])))
    rejections.push(predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
  return rejections;
}

function predicate(name: string, why: string): Rejection {
  return rejected(name, `Predicate ${name} failed: ${why}`);
}

function rejected(reason: string, message: string): Rejection {
  return { admitted: false, reason, message };
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/**
 * A toleration with an empty key matches every taint key, and one with an empty effect matches every effect. Source: k8s.io/api core/v1
 * toleration.go ToleratesTaint.
 */
function isTolerated(taint: Taint, tolerations: readonly Wire<V1Toleration>[]): boolean {
  return tolerations.some(({ key = "", operator = "Equal", value = "", effect = "" }) => {
    if (effect !== "" && effect !== taint.effect) return false;
    if (key !== "" && key !== taint.key) return false;
    if (operator === "Exists") return true;
    return (operator === "Equal" || operator === "") && value === (taint.value ?? "");
  });
}
