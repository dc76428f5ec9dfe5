/** Syncs the ReplicaSet of each doorbell, and runs a follow-up sync of its Deployment. */
import { DEPLOYMENT_KEYS } from "@deltaloop/controllers/deployment";
import { deployedQueue } from "@deltaloop/controllers/clusters";
import { createSyncFunction } from "@deltaloop/controllers/lambda";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { REPLICASET_KEYS } from "@deltaloop/controllers/replicaset";

export function createSyncReplicaSet(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, REGISTRY, "replicaset", { replicaset: REPLICASET_KEYS, deployment: DEPLOYMENT_KEYS });
}

export const handler: SqsHandler = deployedQueue("replicaset", "doorbells", createSyncReplicaSet);
