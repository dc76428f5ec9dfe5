/** What differs between the two kinds that this one implementation serves (replicaset §15). */
import type { Cached, CachedReplicaSet } from "@deltaloop/kube/objects";

export interface ReplicaKind {
  readonly resource: "replicasets" | "replicationcontrollers";
  /** The primary in ReplicaSet form. */
  readonly toReplicaSet: (primary: Cached) => CachedReplicaSet;
  /** Whether `.status.terminatingReplicas` exists. */
  readonly countsTerminating: boolean;
  /** Whether pods of siblings count when victims are chosen; a ReplicationController never has siblings. */
  readonly ranksRelatedPods: boolean;
}

export const REPLICA_SET: ReplicaKind = {
  resource: "replicasets",
  // The row of a primary is of the controller's own resource.
  toReplicaSet: (primary) => primary as CachedReplicaSet,
  countsTerminating: true,
  ranksRelatedPods: true,
};
