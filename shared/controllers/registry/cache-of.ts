/** The shape of the table of controllers (registry.ts), and what cache and gateway use of any. A function that imports this has no built-in controller. */
import { catalogOf } from "@deltaloop/kube/objects";
import type { CatalogEntry, ControllerInfo, ResourceInfo, RowTexts } from "@deltaloop/kube/objects";
import type { ViewDefinition } from "@deltaloop/kube/strip";
import type { AffectedKeys } from "../cache/affected-keys.ts";
import type { CacheRegistry } from "../cache/cache-registry.ts";
import type { ContractRow } from "../kit/write-gateway/contract.ts";
import type { GatewayContract } from "../kit/write-gateway/write-gateway.ts";

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
  /** The controllers, in the order in which their affected keys are computed. */
  readonly controllers: readonly ControllerEntry[];
  /** Every resource that a controller uses. */
  readonly resources: Readonly<Record<string, ResourceInfo>>;
  /** The views of user controllers. */
  readonly views?: readonly ViewDefinition[];
  /** How a Store that keeps text shortens what these views' controllers store. */
  readonly rowTexts?: RowTexts;
}

/** The part of a registry that the cache uses. */
export function cacheOf({ controllers, resources, views = [], rowTexts }: Registry): CacheRegistry {
  const byName = new Map<string, ViewDefinition>(views.map((view) => [view.name, view]));
  const entries = controllers.map((entry) => {
    const resource = byName.get(entry.primary)?.resource ?? entry.primary;
    return { ...entry, kind: resources[resource]?.kind ?? "" } as CatalogEntry; // the names of a registry are its controllers and views
  });
  return {
    catalog: catalogOf(entries, rowTexts),
    affectedKeys: controllers.map(({ affectedKeys }) => affectedKeys),
    views: new Map(views.map((view) => [view.name, view])),
  };
}

/** Returns the contract that the write gateway applies to a controller; undefined if the registry lacks it. */
export function gatewayContractOf({ controllers, resources, views = [] }: Registry, name: string): GatewayContract | undefined {
  const entry = controllers.find((each) => each.name === name);
  if (entry === undefined) return undefined;
  const view = views.find((each) => each.name === entry.primary);
  const info = resources[view?.resource ?? entry.primary];
  return info && { rows: entry.contract, primary: { apiVersion: info.apiVersion, kind: info.kind, ...(view && { isOwn: true }) } };
}
