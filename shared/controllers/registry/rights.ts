/**
 * RBAC of the product, made of the contract that the write gateway enforces: what is not in there cannot be sent, and what is
 * not granted here would be refused. One service account a role, so that each process has its own rights and no more.
 */
import { CANARY, serviceAccount, syncFunction } from "./names.ts";
import { REGISTRY, watchedBy } from "./registry.ts";
import type { ControllerEntry, Registry } from "./registry.ts";

/** A process of ours as the API server knows it. */
export interface Role {
  /** Also the name of its service account. */
  readonly name: string;
  /** The controller whose contract it implements. */
  readonly controller?: string;
  /** Anywhere in the cluster. One rule per resource and name, sorted. */
  readonly clusterRules: readonly Rule[];
  /** Within our own namespace. */
  readonly namespaceRules: readonly Rule[];
}

/** One entry of `rules`. */
export interface Rule {
  readonly apiGroup: string;
  /** With its subresource: `replicasets/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Only the object of this name. */
  readonly name?: string;
}

/** The conventional order of verbs. */
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

/** The components that call the API server, and the rights that each needs. */
export function rolesOf(registry: Registry): readonly Role[] {
  const rule = (resource: string, verbs: readonly string[], subresource?: string): Rule => ({
    apiGroup: groupOf(registry, resource),
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    verbs,
  });
  // The proof that the cache is filled by this cluster's watcher (informer §11.11).
  const readsLease = rule("leases", ["get"]);
  const syncRules = ({ primary, reads, contract }: ControllerEntry): readonly Rule[] => [
    ...reads.map((resource) => rule(resource, resource === primary ? ["get"] : ["get", "list"])),
    ...contract.map(({ resource, subresource, verb }) => rule(resource, [verb], subresource)),
    // Where the admission plugin OwnerReferencesPermissionEnforcement runs, `blockOwnerDeletion: true` in a reference requires that right
    // on the owner. Nothing is ever written there.
    rule(primary, ["update"], "finalizers"),
  ];
  const syncRole = ({ name, followUps = [] }: ControllerEntry): Role => ({
    name: serviceAccount(syncFunction(name)),
    controller: name,
    clusterRules: merged(registry.controllers.filter((entry) => entry.name === name || followUps.includes(entry.name)).flatMap(syncRules)),
    namespaceRules: [readsLease],
  });
  return [
    {
      name: serviceAccount("watcher"),
      clusterRules: merged([
        // The audit reads single objects live (informer §15).
        ...watchedBy(registry).map((resource) => rule(resource, ["get", "list", "watch"])),
        // Its uid is the cluster's identity (informer §11.7).
        { ...rule("namespaces", ["get"]), name: "kube-system" },
      ]),
      // The Lease and the one PUT of the whole product; the status of the guard's canary, whose spec could start pods.
      namespaceRules: [
        ...(watchedBy(registry).includes("replicasets") ? [{ ...rule("replicasets", ["patch"], "status"), name: CANARY }] : []),
        rule("leases", ["get", "create", "update"]),
      ],
    },
    ...registry.controllers.map(syncRole),
    // Reads live what was too big to travel (informer §10.4).
    {
      name: serviceAccount("apply-deltas"),
      clusterRules: merged(watchedBy(registry).map((resource) => rule(resource, ["get"]))),
      namespaceRules: [readsLease],
    },
  ];
}

/** The roles of what is built in. */
export const ROLES: readonly Role[] = rolesOf(REGISTRY);

/** @throws {TypeError} when a controller names a resource that the registry does not have: a bug in its entry. */
function groupOf({ resources }: Registry, resource: string): string {
  const info = resources[resource];
  if (info === undefined) throw new TypeError(`resource ${resource} is not in the registry`);
  return info.group;
}

function merged(rules: readonly Rule[]): readonly Rule[] {
  const groups = Map.groupBy(rules, ({ apiGroup, resource, name = "" }) => `${apiGroup}/${resource}/${name}`);
  return [...groups.entries()]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, same]) =>
      same[0] ? [{ ...same[0], verbs: VERBS.filter((verb) => same.some(({ verbs }) => verbs.includes(verb))) }] : [],
    );
}
