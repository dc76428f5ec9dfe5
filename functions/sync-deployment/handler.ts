/** Syncs the Deployment of each doorbell, and runs follow-up syncs of its ReplicaSets. */
import { DEPLOYMENT_KEYS } from "@deltaloop/controllers/deployment";
import { deployedQueue } from "@deltaloop/controllers/clusters";
import { createSyncFunction } from "@deltaloop/controllers/lambda";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { REPLICASET_KEYS } from "@deltaloop/controllers/replicaset";

export function createSyncDeployment(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, REGISTRY, "deployment", { deployment: DEPLOYMENT_KEYS, replicaset: REPLICASET_KEYS });
}

export const handler: SqsHandler = deployedQueue("deployment", "doorbells", createSyncDeployment);
