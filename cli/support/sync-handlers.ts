/** The controllers' syncs as they are, without a function around them: for shadows. */
import type { SyncHandlers } from "../../shared/replay/shadow/one-sync.ts";
import { syncDeployment } from "../../shared/deployment/sync.ts";
import { syncReplicaSet } from "../../shared/replicaset/sync.ts";
import { syncReplicationController } from "../../shared/replication/sync.ts";

export const SYNC_HANDLERS: SyncHandlers = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};
