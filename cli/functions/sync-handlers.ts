/** The controllers' sync handlers without their functions, for shadow comparisons. */
import type { Controller } from "@deltaloop/kube/objects";
import type { SyncHandler } from "@deltaloop/controllers/kit";
import { syncDeployment } from "@deltaloop/controllers/deployment";
import { syncReplicaSet } from "@deltaloop/controllers/replicaset";
import { syncReplicationController } from "@deltaloop/controllers/replication";

export const SYNC_HANDLERS: { readonly [C in Controller]: SyncHandler } = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};
