/** A pod's quality of service class, which decides its cgroup and its OOM score (node-agent §7.6, §13.4). */
import { numericQuantity } from "../../api/quantity.ts";
import { initContainersOf } from "../pod.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";

export type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

const COUNTED = ["cpu", "memory"] as const;
type Quantities = Readonly<Record<string, string>> | undefined;

/**
 * What the API server wrote, else from the spec; never changes while the pod lives:
 *
 *     nothing asked for by any container                        → BestEffort
 *     cpu and memory limited in every container, requests equal → Guaranteed
 *     anything else                                             → Burstable
 *
 * Init containers count like the others, ephemeral ones cannot ask for anything.
 *
 * Source: pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS.
 * Differs from upstream: resources of the whole pod are not read; a pod with them is held back (unsupported-features.ts).
 * Requests and limits are compared in each container, not as sums: sums that agree while the parts do not would need
 * requests above limits, which no pod has.
 */
export function qosClass(pod: NodePod): QosClass {
  const written = pod.status?.qosClass;
  if (isQosClass(written)) return written;
  const containers = [...pod.spec.containers, ...initContainersOf(pod)];
  if (containers.every((container) => COUNTED.every((name) => asks(container, name).length === 0))) return "BestEffort";
  return containers.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

/** An unset request is the limit, as API defaulting makes it; a static pod's manifest may not have been through it. */
function isGuaranteed({ resources }: ContainerSpec): boolean {
  return COUNTED.every((name) => {
    const limit = amount(resources?.limits, name);
    return limit !== undefined && (amount(resources?.requests, name) ?? limit) === limit;
  });
}

function asks({ resources }: ContainerSpec, name: string): readonly string[] {
  return [amount(resources?.requests, name), amount(resources?.limits, name)].filter((value) => value !== undefined);
}

/** In units of 10⁻⁹; zero and less ask for nothing. */
function amount(quantities: Quantities, name: string): string | undefined {
  const nanos = numericQuantity(quantities?.[name] ?? "");
  return nanos === undefined || nanos === "0" || nanos.startsWith("-") ? undefined : nanos;
}

function isQosClass(text: string | undefined): text is QosClass {
  return text === "Guaranteed" || text === "Burstable" || text === "BestEffort";
}
