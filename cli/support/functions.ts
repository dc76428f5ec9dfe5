/** The deployed handlers, made with ports of our choice: for the function host of dev and demo, and for replay. */
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { createSyncDeployment } from "../../functions/sync-deployment/handler.ts";
import { createSyncReplicaSet } from "../../functions/sync-replicaset/handler.ts";
import { createSyncReplicationController } from "../../functions/sync-replicationcontroller/handler.ts";
import type { ApplierPorts } from "../../shared/cache/applier.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import type { FunctionHandlers } from "../../shared/local/function-host.ts";

/** `wiring` is asked once per function, by the name under which it is deployed. */
export function functionHandlers(
  wiring: (functionName: string) => FunctionWiring,
  onChanges?: ApplierPorts["onChanges"],
): FunctionHandlers {
  return {
    applyDeltas: createApplyDeltas({ ...wiring("apply-deltas"), ...(onChanges && { onChanges }) }),
    deadDeltas: createDeadDeltas(wiring("dead-deltas")),
    sync: {
      deployment: createSyncDeployment(wiring("sync-deployment")),
      replicaset: createSyncReplicaSet(wiring("sync-replicaset")),
      replicationcontroller: createSyncReplicationController(wiring("sync-replicationcontroller")),
    },
  };
}
