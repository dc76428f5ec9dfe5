/** One doorbell = one sync of one ReplicationController. */
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { REPLICATIONCONTROLLER_KEYS } from "../../shared/replication/sync.ts";

export function createSyncReplicationController(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "replicationcontroller", { replicationcontroller: REPLICATIONCONTROLLER_KEYS });
}

export const handler: SqsHandler = deployed("replicationcontroller", createSyncReplicationController);
