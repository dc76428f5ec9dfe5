/** Differences between the two kinds of this implementation (replicaset §15). */
import type { Cached, CachedReplicaSet } from "@deltaloop/kube/objects";

export interface ReplicaKind {
  readonly resource: "replicasets" | "replicationcontrollers";
  /** The primary in ReplicaSet form. */
  readonly toReplicaSet: (primary: Cached) => CachedReplicaSet;
  /** Whether `.status.terminatingReplicas` exists. */
  readonly countsTerminating: boolean;
  /** Whether pods of siblings count in the choice of pods to delete; a ReplicationController has no siblings. */
  readonly ranksRelatedPods: boolean;
}

export const REPLICA_SET: ReplicaKind = {
  resource: "replicasets",
  // The row of a primary is of the controller's own resource.
  toReplicaSet: (primary) => primary as CachedReplicaSet,
  countsTerminating: true,
  ranksRelatedPods: true,
};
