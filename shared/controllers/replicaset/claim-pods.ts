/** Which pods count as replicas, and which must change hands first (replicaset §6). */
import type { CachedPod } from "@deltaloop/kube/objects";
import { sameOwner, isActive, isTerminating, RESOURCES } from "@deltaloop/kube/objects";
import { formatLabels, formatSelector, matches } from "@deltaloop/kube/selectors";
import { claimObject } from "../kit/claim.ts";
import type { WriteOf, WriteResult } from "../kit/performed.ts";
import type { Owner } from "../kit/writes.ts";
import type { Observed } from "./observe.ts";
import type { ReplicaReason } from "./reasons.ts";

export interface ClaimedPods {
  /** Owned, matching and active, without a call. */
  readonly claimed: readonly CachedPod[];
  readonly writes: readonly (WriteOf<"Adopt"> | WriteOf<"Release">)[];
  /** Of each write. */
  readonly why: readonly ReplicaReason[];
}

/** Source: pkg/controller/controller_ref_manager.go PodControllerRefManager.ClaimPods. */
export function claimPods({ rs, owner, selector, pods, orphans }: Observed): ClaimedPods {
  const claimed: CachedPod[] = [];
  const writes: ClaimedPods["writes"][number][] = [];
  const why: ReplicaReason[] = [];
  for (const pod of [...pods, ...orphans].filter(isActive)) {
    const by = pod.owner === undefined ? "nobody" : isOwnedBy(pod, owner) ? "claimant" : "another";
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
 * The pods that the answers made ours. Differs from upstream: one that is being deleted by now is not claimed, or it would
 * stand for a replica that nobody replaces (replicaset §6).
 */
export function adoptedPods(writes: ClaimedPods["writes"], results: readonly WriteResult[]): readonly CachedPod[] {
  return writes.flatMap((write, i) => {
    const result = results[i];
    return write.kind === "Adopt" && result?.kind === "stored" && result.resource === "pods" && isActive(result.object)
      ? [result.object]
      : [];
  });
}

/** Ours and on their way out: they are counted in the status and nowhere else, and are never adopted. */
export function terminatingPods({ owner, selector, pods }: Pick<Observed, "owner" | "selector" | "pods">): readonly CachedPod[] {
  return pods.filter((pod) => isTerminating(pod) && isOwnedBy(pod, owner) && matches(selector, pod.labels));
}

/** Every part counts, the namespace included (api/owner-id.ts). */
function isOwnedBy(pod: CachedPod, { resource, namespace, name, uid }: Owner): boolean {
  return pod.namespace === namespace && sameOwner(pod.owner, { kind: RESOURCES[resource].kind, name, uid });
}
