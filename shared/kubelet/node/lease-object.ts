/** The Lease by which the control plane sees that a node lives (node-agent §14.2). */
import type { Lease } from "../../api/wire.ts";

export const NODE_LEASE_NAMESPACE = "kube-node-lease";
/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeLeaseDurationSeconds. */
const LEASE_DURATION_SECONDS = 40;

/** Its owner is the Node, so it goes when the Node goes. Source: component-helpers apimachinery/lease/controller.go newLease. */
export function nodeLease(node: { readonly name: string; readonly uid: string }, nowMs: number): Lease {
  const { name, uid } = node;
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace: NODE_LEASE_NAMESPACE, ownerReferences: [{ apiVersion: "v1", kind: "Node", name, uid }] },
    spec: { holderIdentity: name, leaseDurationSeconds: LEASE_DURATION_SECONDS, renewTime: microTime(nowMs) },
  };
}

/** The same object, resourceVersion included, renewed now: what is put without reading it first. */
export function renewedLease(lease: Lease, nowMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: microTime(nowMs) } };
}

/** Lease times are RFC 3339 with microseconds. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
