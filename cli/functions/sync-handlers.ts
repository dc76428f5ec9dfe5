/** The controllers' syncs as they are, without a function around them: for shadows. */
import type { Controller } from "../../shared/api/resources.ts";
import type { SyncHandler } from "../../shared/controller/session.ts";
import { syncDeployment } from "../../shared/deployment/sync.ts";
import { syncReplicaSet } from "../../shared/replicaset/sync.ts";
import { syncReplicationController } from "../../shared/replication/sync.ts";

export const SYNC_HANDLERS: { readonly [C in Controller]: SyncHandler } = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};
