/** The sync of a ReplicationController: the ReplicaSet one, with the object converted on the way in (replicaset §15). */
import type { Run, SyncPorts, SyncResult } from "../controller/run.ts";
import { syncReplicas } from "../replicaset/sync.ts";
import { REPLICATION_CONTROLLER } from "./conversion.ts";

export function syncReplicationController(ports: SyncPorts, run: Run): Promise<SyncResult> {
  return syncReplicas(ports, run, REPLICATION_CONTROLLER);
}
