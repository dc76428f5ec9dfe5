/** One doorbell = one sync of one Deployment. */
import { syncDeployment } from "../../shared/deployment/sync.ts";
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";

/** A Deployment that failed this often in a row is parked until something changes. Source: pkg/controller/deployment maxRetries. */
const RETRIES_MAX = 15;

export function createSyncDeployment(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "deployment", syncDeployment, { maxRetries: RETRIES_MAX });
}

export const handler: SqsHandler = deployed("deployment", createSyncDeployment);
