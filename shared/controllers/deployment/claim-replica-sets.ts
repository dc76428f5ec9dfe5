/** Ownership of ReplicaSets (deployment §5.1). */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { controllerRef } from "@deltaloop/kube/objects";
import { formatLabels, formatSelector, matches, type Selector } from "@deltaloop/kube/selectors";
import { claimObject } from "../kit/claim.ts";
import type { Write } from "../kit/writes.ts";
import type { DeploymentReason } from "./reasons.ts";
import { ownerOf } from "./writes.ts";

export interface ReplicaSetClaims {
  /** ReplicaSets that the Deployment already controls and keeps, whether or not the writes succeed. */
  readonly owned: readonly CachedReplicaSet[];
  /** Adoptions and releases, in the order of the ReplicaSets. */
  readonly writes: readonly Extract<Write, { kind: "Adopt" | "Release" }>[];
  /** One reason per write. */
  readonly why: readonly DeploymentReason[];
}

/** Source: deployment_controller.go getReplicaSetsForDeployment, controller_ref_manager.go ClaimReplicaSets. */
export function claimReplicaSets(d: CachedDeployment, selector: Selector, rss: readonly CachedReplicaSet[]): ReplicaSetClaims {
  const owner = ownerOf(d);
  const owned: CachedReplicaSet[] = [];
  const writes: Extract<Write, { kind: "Adopt" | "Release" }>[] = [];
  const why: DeploymentReason[] = [];
  for (const rs of rss) {
    const controllerUid = controllerRef(rs.metadata)?.uid;
    const { name, uid } = rs.metadata;
    // Compares namespace and uid, and ignores the reference's kind and name, as upstream.
    const by = controllerUid === undefined ? "none" : controllerUid === d.metadata.uid ? "claimant" : "another";
    const claim = claimObject(d.metadata, rs.metadata, by, matches(selector, rs.metadata.labels));
    if (claim === "claimed") owned.push(rs);
    else if (claim !== "ignore") {
      writes.push({ kind: claim === "adopt" ? "Adopt" : "Release", owner, resource: "replicasets", name, uid });
      const facts = { selector: formatSelector(selector), labels: formatLabels(rs.metadata.labels) };
      why.push({ rule: claim === "adopt" ? "adopts" : "releases", about: name, facts });
    }
  }
  return { owned, writes, why };
}
