/** The deployed handlers with given ports: for the function host of dev and demo, and for replay. */
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { createSyncDeployment } from "../../functions/sync-deployment/handler.ts";
import { createSyncReplicaSet } from "../../functions/sync-replicaset/handler.ts";
import { createSyncReplicationController } from "../../functions/sync-replicationcontroller/handler.ts";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import type { ApplierPorts } from "@deltaloop/controllers/cache";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import type { FunctionHandlers } from "@deltaloop/local";
import { syncFunction } from "@deltaloop/controllers/registry";

/** The sync function of each controller. */
const SYNC_FUNCTIONS: { readonly [C in Controller]: (wiring: FunctionWiring) => SqsHandler } = {
  deployment: createSyncDeployment,
  replicaset: createSyncReplicaSet,
  replicationcontroller: createSyncReplicationController,
};

/** `wiring` is called once per function, with its deployed name. */
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
