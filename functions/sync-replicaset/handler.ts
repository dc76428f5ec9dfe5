/** One doorbell = one sync of one ReplicaSet, and of its Deployment where that is due then. */
import { DEPLOYMENT_KEYS } from "../../shared/deployment/sync.ts";
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { REPLICASET_KEYS } from "../../shared/replicaset/sync.ts";

export function createSyncReplicaSet(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "replicaset", { replicaset: REPLICASET_KEYS, deployment: DEPLOYMENT_KEYS });
}

export const handler: SqsHandler = deployed("replicaset", createSyncReplicaSet);
