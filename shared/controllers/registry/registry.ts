/**
 * The table of controllers and their resources. Queues, variables, functions, roles, RBAC, alarms and views are derived from it (names.ts,
 * functions.ts, rights.ts in this folder; infra/fragments.ts) by functions that take any `Registry`, so a user controller is one
 * more entry. Its code is bundled only into its own function and those that sync its keys inline.
 */
import { CONTROLLER_INFO, CONTROLLERS, RESOURCES } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import type { AffectedKeys } from "../cache/affected-keys.ts";
import type { CacheRegistry } from "../cache/cache-registry.ts";
import { CONTRACT } from "../kit/write-gateway/contract.ts";
import { deploymentAffectedKeys } from "../deployment/affected-keys.ts";
import { replicaSetAffectedKeys } from "../replicaset/affected-keys.ts";
import { replicationControllerAffectedKeys } from "../replication/conversion.ts";
import { cacheOf } from "./cache-of.ts";
import type { Registry } from "./cache-of.ts";

const EVENTS_TABLES: { readonly [C in Controller]: AffectedKeys } = {
  deployment: deploymentAffectedKeys,
  replicaset: replicaSetAffectedKeys,
  replicationcontroller: replicationControllerAffectedKeys,
};

/** Writes of a Deployment enqueue its ReplicaSets, and vice versa. */
const GOES_ON_TO: { readonly [C in Controller]: readonly Controller[] } = {
  deployment: ["replicaset"],
  replicaset: ["deployment"],
  replicationcontroller: [],
};

/** The built-in controllers. */
export const REGISTRY: Registry = {
  controllers: CONTROLLERS.map((name) => ({
    name,
    ...CONTROLLER_INFO[name],
    affectedKeys: EVENTS_TABLES[name],
    contract: CONTRACT[name],
    followUps: GOES_ON_TO[name],
  })),
  resources: RESOURCES,
};

/** The part of the built-in controllers' registry that the cache uses. */
export const CORE_CACHE: CacheRegistry = cacheOf(REGISTRY);

/** Returns the resources to watch and cache for all controllers, without duplicates. */
export function watchedBy({ controllers }: Registry): readonly string[] {
  return [...new Set(controllers.flatMap(({ reads }) => reads))];
}
