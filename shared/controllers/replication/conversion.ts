/** A ReplicationController in ReplicaSet form: unchanged metadata and status, and the selector map as matchLabels. */
import type { Cached, CachedReplicaSet, CachedReplicationController } from "@deltaloop/kube/objects";
import type { AffectedKeys } from "../cache/affected-keys.ts";
import { affectedKeysOf } from "../replicaset/affected-keys.ts";
import type { ReplicaKind } from "../replicaset/kind.ts";

/** Source: pkg/controller/replication/conversion.go convertRCtoRS. An absent selector stays absent: it matches nothing. */
export function convertRCtoRS({ metadata, spec, status }: CachedReplicationController): CachedReplicaSet {
  const { selector, ...rest } = spec;
  return { metadata, spec: selector === undefined ? rest : { ...rest, selector: { matchLabels: selector } }, status };
}

export const REPLICATION_CONTROLLER: ReplicaKind = {
  resource: "replicationcontrollers",
  // The row of a primary is of the controller's own resource.
  toReplicaSet: (primary: Cached) => convertRCtoRS(primary as CachedReplicationController),
  countsTerminating: false,
  ranksRelatedPods: false,
};

/** The ReplicationControllers that a change affects: the ReplicaSet table for the other kind. */
export const replicationControllerAffectedKeys: AffectedKeys = affectedKeysOf(REPLICATION_CONTROLLER);
