/**
 * The table of controllers and their resources. Queues, variables, functions, roles, RBAC, alarms and views are derived from it (names.ts,
 * functions.ts, rights.ts in this folder; infra/fragments.ts) by functions that take any `Registry`, so an additional controller is one
 * more entry. Its code is bundled only into its own function and those that sync its keys inline.
 */
import { catalogOf, CONTROLLER_INFO, CONTROLLERS, RESOURCES } from "@deltaloop/kube/objects";
import type { CatalogEntry, Controller, ControllerInfo, ResourceInfo } from "@deltaloop/kube/objects";
import type { ViewDefinition } from "@deltaloop/kube/strip";
import type { AffectedKeys } from "../cache/affected-keys.ts";
import type { CacheRegistry } from "../cache/cache-registry.ts";
import { CONTRACT } from "../kit/write-gateway/contract.ts";
import type { ContractRow } from "../kit/write-gateway/contract.ts";
import type { GatewayContract } from "../kit/write-gateway/write-gateway.ts";
import { deploymentAffectedKeys } from "../deployment/affected-keys.ts";
import { replicaSetAffectedKeys } from "../replicaset/affected-keys.ts";
import { replicationControllerAffectedKeys } from "../replication/conversion.ts";

/**
 *     { name: "replicaset", primary: "replicasets", dependents: "pods", reads: ["replicasets", "pods"],
 *       affectedKeys: replicaSetAffectedKeys, contract: [{ what: "create a pod", … }, …] }
 */
export interface ControllerEntry extends ControllerInfo<string> {
  /** A DNS label: names its queue, function, role and field manager. */
  readonly name: string;
  /** The controller's keys that a change of a watched object affects. */
  readonly affectedKeys: AffectedKeys;
  /** The writes that it may send; its permissions are derived from them. */
  readonly contract: readonly ContractRow<string>[];
  /** Controllers whose keys its function syncs inline, and whose permissions it therefore has (shared/controllers/lambda/follow-up-sync.ts). */
  readonly followUps?: readonly string[];
}

export interface Registry {
  /** In the order in which their affected keys are computed. */
  readonly controllers: readonly ControllerEntry[];
  /** Every resource that a controller uses. */
  readonly resources: Readonly<Record<string, ResourceInfo>>;
  /** The views of additional controllers. */
  readonly views?: readonly ViewDefinition[];
}

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

/** The part of a registry that the cache uses. */
export function cacheOf({ controllers, resources, views = [] }: Registry): CacheRegistry {
  const byName = new Map<string, ViewDefinition>(views.map((view) => [view.name, view]));
  const entries = controllers.map((entry) => {
    const resource = byName.get(entry.primary)?.resource ?? entry.primary;
    return { ...entry, kind: resources[resource]?.kind ?? "" } as CatalogEntry; // the names of a registry are its controllers and views
  });
  return {
    catalog: catalogOf(entries),
    affectedKeys: controllers.map(({ affectedKeys }) => affectedKeys),
    views: new Map(views.map((view) => [view.name, view])),
  };
}

/**
 * Returns the contract that the write gateway applies to an additional controller; undefined for a built-in controller, whose contract the
 * gateway has.
 */
export function gatewayContractOf({ controllers, resources, views = [] }: Registry, name: string): GatewayContract | undefined {
  const entry = controllers.find((each) => each.name === name);
  const view = views.find((each) => each.name === entry?.primary);
  const info = view && resources[view.resource];
  return entry && info && { rows: entry.contract, primary: { apiVersion: info.apiVersion, kind: info.kind, isOwn: true } };
}

/** The part of the built-in controllers' registry that the cache uses. */
export const CORE_CACHE: CacheRegistry = cacheOf(REGISTRY);

/** Returns the resources to watch and cache for all controllers, without duplicates. */
export function watchedBy({ controllers }: Registry): readonly string[] {
  return [...new Set(controllers.flatMap(({ reads }) => reads))];
}
