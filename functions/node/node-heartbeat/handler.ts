/** Each ten seconds, apart from each other: the lease, and the Node's status. A node whose host is dead must fall silent. */
import type { NodeIdentity } from "../../../shared/kubelet/turns/node.ts";

export function createNodeHeartbeat(identity: NodeIdentity): { readonly status: () => Promise<void>; readonly lease: () => Promise<void> } {
  return { status: async () => await identity.reportStatus(), lease: async () => await identity.renewLease() };
}
