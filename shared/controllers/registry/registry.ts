/**
 * The one table of controllers and of the resources they stand on. Queues, variables, functions, roles, RBAC, alarms and views are
 * derived from it (names.ts, functions.ts, rights.ts beside it; infra/fragments.ts), each by a function that takes any `Registry`:
 * a controller that is not built in is one more entry. Its code stays in its own function and in those that
 * go on to its keys, so no other bundle carries it.
 */
import { CONTROLLER_INFO, CONTROLLERS, RESOURCES } from "@deltaloop/kube/objects";
import type { Controller, ControllerInfo, ResourceInfo } from "@deltaloop/kube/objects";
import type { AffectedKeys } from "../cache/affected-keys.ts";
import { CONTRACT } from "../kit/write-gateway/contract.ts";
import type { ContractRow } from "../kit/write-gateway/contract.ts";
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
  /** Which of its keys a change of a watched object concerns. */
  readonly affectedKeys: AffectedKeys;
  /** What it may ask of the API server, and so its rights. */
  readonly contract: readonly ContractRow<string>[];
  /** Whose keys its function goes on to when its own runs have made them due, and so has the rights for (shared/controllers/lambda/follow-up-sync.ts). */
  readonly followUps?: readonly string[];
}

export interface Registry {
  /** In the order in which they are told of a change. */
  readonly controllers: readonly ControllerEntry[];
  /** Every resource that a controller names. */
  readonly resources: Readonly<Record<string, ResourceInfo>>;
}

const EVENTS_TABLES: { readonly [C in Controller]: AffectedKeys } = {
  deployment: deploymentAffectedKeys,
  replicaset: replicaSetAffectedKeys,
  replicationcontroller: replicationControllerAffectedKeys,
};

/** A Deployment and its ReplicaSets wake each other, write after write. */
const GOES_ON_TO: { readonly [C in Controller]: readonly Controller[] } = {
  deployment: ["replicaset"],
  replicaset: ["deployment"],
  replicationcontroller: [],
};

/** What is built in. */
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

/** Whom a change concerns, controller by controller. */
export function affectedKeysOf({ controllers }: Registry): readonly AffectedKeys[] {
  return controllers.map(({ affectedKeys }) => affectedKeys);
}

/** Of what is built in. */
export const AFFECTED_KEYS: readonly AffectedKeys[] = affectedKeysOf(REGISTRY);

/** What somebody must watch and cache for all of them, each once. */
export function watchedBy({ controllers }: Registry): readonly string[] {
  return [...new Set(controllers.flatMap(({ reads }) => reads))];
}
