/** Syncs the ReplicationController of each doorbell. */
import { deployedQueue } from "@deltaloop/controllers/clusters";
import { createSyncFunction } from "@deltaloop/controllers/lambda";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { REPLICATIONCONTROLLER_KEYS } from "@deltaloop/controllers/replication";

export function createSyncReplicationController(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, REGISTRY, "replicationcontroller", { replicationcontroller: REPLICATIONCONTROLLER_KEYS });
}

export const handler: SqsHandler = deployedQueue("replicationcontroller", "doorbells", createSyncReplicationController);
