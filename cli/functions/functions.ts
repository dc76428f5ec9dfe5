/** The deployed handlers, made with ports of our choice: for the function host of dev and demo, and for replay. */
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { createSyncDeployment } from "../../functions/sync-deployment/handler.ts";
import { createSyncReplicaSet } from "../../functions/sync-replicaset/handler.ts";
import { createSyncReplicationController } from "../../functions/sync-replicationcontroller/handler.ts";
import { CONTROLLERS, tableOf } from "../../shared/api/resources.ts";
import type { Controller } from "../../shared/api/resources.ts";
import type { ApplierPorts } from "../../shared/cache/applier.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import type { FunctionHandlers } from "../../shared/local/function-host.ts";
import { syncFunction } from "../../shared/registry/names.ts";

/** The one list of the controllers' own code. */
const SYNC_FUNCTIONS: { readonly [C in Controller]: (wiring: FunctionWiring) => SqsHandler } = {
  deployment: createSyncDeployment,
  replicaset: createSyncReplicaSet,
  replicationcontroller: createSyncReplicationController,
};

/** `wiring` is asked once per function, by the name under which it is deployed. */
export function functionHandlers(
  wiring: (functionName: string) => FunctionWiring,
  onChanges?: ApplierPorts["onChanges"],
): FunctionHandlers {
  return {
    applyDeltas: createApplyDeltas({ ...wiring("apply-deltas"), ...(onChanges && { onChanges }) }),
    deadDeltas: createDeadDeltas(wiring("dead-deltas")),
    sync: tableOf(CONTROLLERS, (controller) => SYNC_FUNCTIONS[controller](wiring(syncFunction(controller)))),
  };
}
