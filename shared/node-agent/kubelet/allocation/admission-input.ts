import type { KubeObject, Labels } from "@deltaloop/kube/objects";
import type { PodAllocation } from "../../ports/node-store.ts";
import { allocatedPod } from "./allocation.ts";
import { activePods } from "../pod-workers/active-pods.ts";
import type { AdmissionInput, Taint } from "./admission.ts";
import { isStaticPod } from "../types/labels.ts";
import { allocatableOf } from "../types/node-options.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";

export type ActivePodsPorts = Pick<NodePorts, "store" | "pods" | "condition">;
type AdmissionPorts = Pick<NodePorts, "condition" | "options" | "resources">;

/** The active pods (node-agent §14.4), each with its allocated resources. */
export async function activePodsOf({
  store,
  pods,
  condition,
}: {
  readonly store: Pick<NodePorts["store"], "rows">;
  readonly pods: Pick<NodePorts["pods"], "desired">;
  readonly condition: { readonly relisted?: object };
}): Promise<readonly NodePod[]> {
  const [records, statuses, allocations] = [await store.rows("workers"), await store.rows("statuses"), await store.rows("allocations")];
  const active = activePods({ desired: pods.desired(), records, statuses, hasRelisted: condition.relisted !== undefined });
  return active.map((pod) => allocatedPod(pod, allocations.get(pod.metadata.uid)));
}

/** Returns the input of admission, or undefined while the Node is unknown. */
export function admissionInput(ports: AdmissionPorts, pod: NodePod, active: readonly NodePod[]): AdmissionInput | undefined {
  const node = nodeOf(ports, pod);
  const others = active.filter(({ metadata }) => metadata.uid !== pod.metadata.uid);
  const allocatable = allocatableOf(ports.resources, ports.options.eviction);
  const { pressure = [], shuttingDown } = ports.condition;
  return node && { pod, others, node, allocatable, pressure, ...(shuttingDown && { shuttingDown }) };
}

/** Returns the pod with the resources of its earlier admission, if there was one. */
export async function asAllocated({ store }: Pick<NodePorts, "store">, pod: NodePod): Promise<NodePod> {
  const allocation: PodAllocation | undefined = await store.read("allocations", pod.metadata.uid);
  return allocatedPod(pod, allocation);
}

type NodeFacts = { readonly name: string; readonly labels: Labels; readonly taints: readonly Taint[] };

/** Static pods are admitted even without a Node, because they must start without the API server. */
function nodeOf({ options, condition }: Pick<NodePorts, "condition" | "options">, pod: NodePod): NodeFacts | undefined {
  const node = condition.node as (KubeObject & { readonly spec?: { readonly taints?: readonly Taint[] } }) | undefined; // as sent by the API server
  if (node === undefined) return isStaticPod(pod) ? { name: options.nodeName, labels: {}, taints: [] } : undefined;
  return { name: options.nodeName, labels: node.metadata.labels ?? {}, taints: node.spec?.taints ?? [] };
}
