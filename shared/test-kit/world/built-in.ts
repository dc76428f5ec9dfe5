/** The parts of a World other than the user's controllers: the built-in controllers, and nodes whose pods become ready. */
import { runScriptedNodes, createInProcessKube } from "@deltaloop/api-server";
import type { ApiServer } from "@deltaloop/api-server";
import { UPKEEP_TIMES } from "@deltaloop/controllers/cache";
import { DEPLOYMENT_KEYS } from "@deltaloop/controllers/deployment";
import type { KeySync } from "@deltaloop/controllers/kit";
import { createApplierFunction, createSyncFunction } from "@deltaloop/controllers/lambda";
import { REGISTRY, syncFunction } from "@deltaloop/controllers/registry";
import { REPLICASET_KEYS } from "@deltaloop/controllers/replicaset";
import { REPLICATIONCONTROLLER_KEYS } from "@deltaloop/controllers/replication";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import type { MemoryBackend } from "@deltaloop/local";
import { CLUSTER, DIGESTER, NO_DEAD_LETTERS, QUIET, SIGNER } from "./constants.ts";
import type { Surroundings } from "./constants.ts";

const KEYS: { readonly [C in Controller]: KeySync } = {
  deployment: DEPLOYMENT_KEYS,
  replicaset: REPLICASET_KEYS,
  replicationcontroller: REPLICATIONCONTROLLER_KEYS,
};
const NODES = 3;

export function startBuiltIn(server: ApiServer, { clock, random }: Surroundings): MemoryBackend {
  const backend = memoryBackend({ clock, random, digester: DIGESTER, deployment: "built-in", cluster: CLUSTER });
  const nodes = {
    ...{ count: NODES, clock, random, bindPods: true },
    ...({ readyAfterMs: [200, 400], deleteAfterMs: [100, 300] } as const),
  };
  assembleSystem<Controller>(
    {
      ...{ clock, random, digester: DIGESTER, signer: SIGNER, log: QUIET, ...backend },
      kube: (component) => createInProcessKube(server, { component }),
      functions: (wiring, onChanges) => ({
        applyDeltas: createApplierFunction({ ...wiring("apply-deltas"), ...(onChanges && { onChanges }) }),
        deadDeltas: NO_DEAD_LETTERS,
        sync: tableOf(CONTROLLERS, (name) => {
          const { followUps = [] } = REGISTRY.controllers.find((each) => each.name === name) ?? {};
          const keys = Object.fromEntries([name, ...(followUps as readonly Controller[])].map((each) => [each, KEYS[each]]));
          return createSyncFunction(wiring(syncFunction(name)), REGISTRY, name, keys);
        }),
      }),
    },
    {
      ...{ cluster: CLUSTER, clusterUid: "built-in", upkeep: UPKEEP_TIMES },
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "nodes" }), nodes, ends),
    },
  );
  return backend;
}
