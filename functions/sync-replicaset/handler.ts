/** One doorbell = one sync of one ReplicaSet. */
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { syncReplicaSet } from "../../shared/replicaset/sync.ts";

export function createSyncReplicaSet(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "replicaset", syncReplicaSet);
}

export const handler: SqsHandler = deployed("replicaset", createSyncReplicaSet);
