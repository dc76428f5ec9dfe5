/** One doorbell = one sync of one ReplicaSet. */
import { lazy } from "../../shared/lambda/lazy.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import { createSyncFunction } from "../../shared/lambda/sync-function.ts";
import { wireFunction } from "../../shared/lambda/wire-function.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { syncReplicaSet } from "../../shared/replicaset/sync.ts";

export function createSyncReplicaSet(wiring: FunctionWiring): SqsHandler {
  return createSyncFunction(wiring, "replicaset", syncReplicaSet);
}

export const handler: SqsHandler = lazy(() => createSyncReplicaSet(wireFunction("replicaset")));
