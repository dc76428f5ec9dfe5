/** One doorbell = one sync of one Deployment, and of those of its ReplicaSets that it makes due. */
import { DEPLOYMENT_KEYS } from "../../shared/deployment/sync.ts";
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { REPLICASET_KEYS } from "../../shared/replicaset/sync.ts";

export function createSyncDeployment(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "deployment", { deployment: DEPLOYMENT_KEYS, replicaset: REPLICASET_KEYS });
}

export const handler: SqsHandler = deployed("deployment", createSyncDeployment);
