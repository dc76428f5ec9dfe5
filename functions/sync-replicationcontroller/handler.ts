/** One doorbell = one sync of one ReplicationController. */
import { lazy } from "../../shared/lambda/lazy.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import { wireFunction } from "../../shared/lambda/wire-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { syncReplicationController } from "../../shared/replication/sync.ts";

export function createSyncReplicationController(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "replicationcontroller", syncReplicationController);
}

export const handler: SqsHandler = lazy(() => createSyncReplicationController(wireFunction("replicationcontroller")));
