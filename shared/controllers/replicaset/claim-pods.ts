/** Decides which pods count as replicas, and which to adopt or release (replicaset §6). */
import type { CachedPod } from "@deltaloop/kube/objects";
import { sameOwner, isActive, isTerminating, RESOURCES } from "@deltaloop/kube/objects";
import { formatLabels, formatSelector, matches } from "@deltaloop/kube/selectors";
import { claimObject } from "../kit/claim.ts";
import type { WriteOf, WriteResult } from "../kit/performed.ts";
import type { Owner } from "../kit/writes.ts";
import type { Observed } from "./observe.ts";
import type { ReplicaReason } from "./reasons.ts";

export interface ClaimedPods {
  /** Owned, matching and active pods; no call needed. */
  readonly claimed: readonly CachedPod[];
  readonly writes: readonly (WriteOf<"Adopt"> | WriteOf<"Release">)[];
  /** One reason per write. */
  readonly why: readonly ReplicaReason[];
}

/** Source: pkg/controller/controller_ref_manager.go PodControllerRefManager.ClaimPods. */
export function claimPods({ rs, owner, selector, pods, orphans }: Observed): ClaimedPods {
  const claimed: CachedPod[] = [];
  const writes: ClaimedPods["writes"][number][] = [];
  const why: ReplicaReason[] = [];
  for (const pod of [...pods, ...orphans].filter(isActive)) {
    const by = pod.owner === undefined ? "none" : isOwnedBy(pod, owner) ? "claimant" : "another";
    const claim = claimObject(rs.metadata, pod, by, matches(selector, pod.labels));
    if (claim === "claimed") claimed.push(pod);
    else if (claim === "adopt" || claim === "release") {
      writes.push({ kind: claim === "adopt" ? "Adopt" : "Release", owner, resource: "pods", name: pod.name, uid: pod.uid });
      const facts = { selector: formatSelector(selector), labels: formatLabels(pod.labels) };
      why.push({ rule: claim === "adopt" ? "adopts" : "releases", about: pod.name, facts });
    }
  }
  return { claimed, writes, why };
}

/**
 * The pods that the responses show as adopted. Differs from upstream: a pod that is being deleted is not claimed, because it would count as
 * a replica and not be replaced (replicaset §6).
 */
export function adoptedPods(writes: ClaimedPods["writes"], results: readonly WriteResult[]): readonly CachedPod[] {
  return writes.flatMap((write, i) => {
    const result = results[i];
    return write.kind === "Adopt" && result?.kind === "stored" && result.resource === "pods" && isActive(result.object)
      ? [result.object]
      : [];
  });
}

/** Owned, terminating pods: counted in the status only, and never adopted. */
export function terminatingPods({ owner, selector, pods }: Pick<Observed, "owner" | "selector" | "pods">): readonly CachedPod[] {
  return pods.filter((pod) => isTerminating(pod) && isOwnedBy(pod, owner) && matches(selector, pod.labels));
}

/** Compares every field of the reference, including the namespace (owner-id.ts). */
function isOwnedBy(pod: CachedPod, { resource, namespace, name, uid }: Owner): boolean {
  return pod.namespace === namespace && sameOwner(pod.owner, { kind: RESOURCES[resource].kind, name, uid });
}
