/** The sync of a ReplicationController: the ReplicaSet sync, applied to the converted object (replicaset §15). */
import type { SyncResult } from "../kit/run.ts";
import type { KeySync } from "../kit/sync/key-sync.ts";
import { inSession } from "../kit/sync/in-session.ts";
import type { SyncSession } from "../kit/sync/session.ts";
import { syncReplicas } from "../replicaset/sync.ts";
import { REPLICATION_CONTROLLER } from "./conversion.ts";

export const REPLICATIONCONTROLLER_KEYS: KeySync = inSession(syncReplicationController);

export function syncReplicationController(session: SyncSession): Promise<SyncResult> {
  return syncReplicas(session, REPLICATION_CONTROLLER);
}
