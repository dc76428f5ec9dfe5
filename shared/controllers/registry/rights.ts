/**
 * RBAC rules, derived from the contract that the write gateway enforces, so that both allow the same calls. Each role has its own service
 * account, so that a process has no more permissions than it needs.
 */
import { CANARY, serviceAccount, syncFunction } from "./names.ts";
import { REGISTRY, watchedBy } from "./registry.ts";
import type { ControllerEntry, Registry } from "./cache-of.ts";

/** A component and its permissions at the API server. */
export interface Role {
  /** The name of the role and of its service account. */
  readonly name: string;
  /** The controller whose contract it implements. */
  readonly controller?: string;
  /** Cluster-wide rules, one per resource and name, sorted. */
  readonly clusterRules: readonly Rule[];
  /** Rules within this system's namespace. */
  readonly namespaceRules: readonly Rule[];
}

/** One entry of `rules`. */
export interface Rule {
  readonly apiGroup: string;
  /** The resource, with its subresource if any: `replicasets/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Limits the rule to the object with this name. */
  readonly name?: string;
}

/** The order of verbs in rules, as is usual in RBAC manifests. */
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

/** The components that call the API server, and the permissions that each needs. */
export function rolesOf(registry: Registry): readonly Role[] {
  const rule = (resource: string, verbs: readonly string[], subresource?: string): Rule => ({
    apiGroup: groupOf(registry, resource),
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    verbs,
  });
  // Read access to the watcher's Lease, with which functions verify that this cluster's watcher owns the cache (informer §11.11).
  const readsLease = rule("leases", ["get"]);
  const syncRules = ({ primary, reads, contract }: ControllerEntry): readonly Rule[] => [
    ...reads.map((resource) => rule(resource, resource === primary ? ["get"] : ["get", "list"])),
    ...contract.map(({ resource, subresource, verb }) => rule(resource, [verb], subresource)),
    // Where the admission plugin OwnerReferencesPermissionEnforcement runs, `blockOwnerDeletion: true` in a reference requires `update` on
    // the owner's finalizers. These are never written.
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
        // The uid of kube-system is the cluster's identity (informer §11.7).
        { ...rule("namespaces", ["get"]), name: "kube-system" },
      ]),
      // The Lease, which is the only object written with PUT, and the status of the guard's canary; its spec could start pods.
      namespaceRules: [
        ...(watchedBy(registry).includes("replicasets") ? [{ ...rule("replicasets", ["patch"], "status"), name: CANARY }] : []),
        rule("leases", ["get", "create", "update"]),
      ],
    },
    ...registry.controllers.map(syncRole),
    // Live reads of objects that were too large for a message (informer §10.4).
    {
      name: serviceAccount("apply-deltas"),
      clusterRules: merged(watchedBy(registry).map((resource) => rule(resource, ["get"]))),
      namespaceRules: [readsLease],
    },
  ];
}

/** The roles of the built-in controllers. */
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
