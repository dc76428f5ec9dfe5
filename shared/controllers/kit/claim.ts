/** Whom an object belongs to: the decision of upstream's controller reference managers, for pods and ReplicaSets alike. */
import type { Labels } from "@deltaloop/kube/objects";

/** What the decision needs of a pod or ReplicaSet. */
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

/** Whom the object's ownerReference with `controller: true` names, as owners of its kind are told apart (api/owner-id.ts). */
export type ControlledBy = "claimant" | "another" | "nobody";

export type Claim = "claimed" | "adopt" | "release" | "ignore";

/**
 * The table of replicaset §6 (deployment §5.1 is the same one). Of pods, pass active ones only. An object of another namespace is
 * never touched, whatever it says of its owner.
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
