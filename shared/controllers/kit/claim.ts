/** Ownership decision of upstream's controller reference managers, for pods and ReplicaSets. */
import type { Labels } from "@deltaloop/kube/objects";

/** The fields of a pod or ReplicaSet that the decision needs. */
export interface Claimable {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels?: Labels;
  readonly deletionTimestamp?: string;
}

export interface Claimant {
  readonly namespace: string;
  readonly uid: string;
  readonly deletionTimestamp?: string;
}

/** The controller that the object's ownerReference names, compared as owner-id.ts specifies for its kind. */
export type ControlledBy = "claimant" | "another" | "none";

export type Claim = "claimed" | "adopt" | "release" | "ignore";

/**
 * Decides whether to adopt, release or keep an object, by the table of replicaset §6 (same as deployment §5.1). Pass active pods only. An
 * object of another namespace is never touched, regardless of the owner that it names.
 *
 * Source: pkg/controller/controller_ref_manager.go ClaimObject.
 */
export function claimObject(claimant: Claimant, object: Claimable, by: ControlledBy, selected: boolean): Claim {
  if (object.namespace !== claimant.namespace || by === "another") return "ignore";
  if (by === "claimant") {
    if (selected) return "claimed";
    return claimant.deletionTimestamp === undefined ? "release" : "ignore";
  }
  if (claimant.deletionTimestamp !== undefined || !selected) return "ignore";
  return object.deletionTimestamp === undefined ? "adopt" : "ignore";
}
