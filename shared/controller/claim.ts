/** Whom an object belongs to: the decision of upstream's controller reference managers, for pods and ReplicaSets alike. */
import type { Labels } from "../api/wire.ts";

/** What the decision needs of a pod or ReplicaSet. */
export interface Claimable {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels?: Labels;
  readonly deletionTimestamp?: string;
  /** uid of the ownerReference with `controller: true`. */
  readonly controllerUid?: string;
}

export interface Claimant {
  readonly namespace: string;
  readonly uid: string;
  readonly deletionTimestamp?: string;
}

export type Claim = "claimed" | "adopt" | "release" | "ignore";

/**
 * The table of replicaset §6 (deployment §5.1 is the same one). Of pods, pass active ones only.
 *
 * Source: pkg/controller/controller_ref_manager.go ClaimObject.
 */
export function claimObject(claimant: Claimant, object: Claimable, selected: boolean): Claim {
  if (object.controllerUid !== undefined) {
    if (object.controllerUid !== claimant.uid) return "ignore";
    if (selected) return "claimed";
    return claimant.deletionTimestamp === undefined ? "release" : "ignore";
  }
  if (claimant.deletionTimestamp !== undefined || !selected) return "ignore";
  if (object.deletionTimestamp !== undefined || object.namespace !== claimant.namespace) return "ignore";
  return "adopt";
}
