/** The permissions of a controller, from its definition. */
import type { Definition } from "../definition/controller.ts";
import type { KindData } from "../definition/kind.ts";
import type { Place } from "../definition/sources.ts";
import type { Manifest } from "./crd.ts";

/** Namespace of the service accounts, as in infra/manifests. */
const NAMESPACE = "deltaloop";
const RBAC = "rbac.authorization.k8s.io";
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

/** One permission. */
export interface Right {
  readonly group: string;
  /** The resource, possibly with a subresource: `websites/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Limits the rule to this object. */
  readonly name?: string;
  /** Limits the rule to this namespace; absent: the whole cluster. */
  readonly namespace?: string;
  /** For `self`, `remove` and the status of a kind that another program declares: whether `sync` returns them is not in the definition. */
  readonly optional?: true;
}

/** The namespace of the service accounts; Pod Security as in infra/manifests. */
export const NAMESPACE_MANIFEST: Manifest = {
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name: NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
};

/** The permissions that a definition needs. */
export function rightsOf({ primary, owns, watches, reads, where }: Definition): readonly Right[] {
  const right = ({ group, plural }: KindData, verbs: readonly string[], subresource?: string): Right => ({
    group,
    resource: subresource === undefined ? plural : `${plural}/${subresource}`,
    verbs,
  });
  const at = (one: Right, place?: Place): Right => ({ ...one, ...place });
  const inPrimaryNamespaces: readonly Right[] = [
    right(primary, ["get", "list", "watch"]),
    ...(primary.crd?.status ? [right(primary, ["patch"], "status")] : []),
    ...(primary.status && !primary.crd ? [{ ...right(primary, ["patch"], "status"), optional: true } as const] : []),
    { ...right(primary, ["patch", "delete"]), optional: true },
    // The admission plugin OwnerReferencesPermissionEnforcement requires it for `blockOwnerDeletion`.
    ...(owns.length > 0 ? [right(primary, ["update"], "finalizers")] : []),
    ...owns.map(({ kind }) => right(kind, ["get", "list", "watch", "create", "patch", "delete"])),
    ...watches.flatMap(({ kind, place }) => (place ? [] : [right(kind, ["get", "list", "watch"])])),
    ...reads.flatMap(({ kind, place }) => (place ? [] : [right(kind, ["get"])])),
    { group: "", resource: "events", verbs: ["create", "patch"] },
  ];
  const clusterScoped = new Set(
    [primary, ...[...owns, ...watches, ...reads].map(({ kind }) => kind)].flatMap((kind) =>
      kind.scope === "Cluster" ? [`${kind.group}/${kind.plural}`] : [],
    ),
  );
  const { namespaces = [] } = where;
  return [
    ...inPrimaryNamespaces.flatMap((one) => {
      const isClusterScoped = clusterScoped.has(`${one.group}/${one.resource.split("/")[0] ?? ""}`);
      return namespaces.length === 0 || isClusterScoped ? [one] : namespaces.map((namespace) => ({ ...one, namespace }));
    }),
    ...watches.flatMap(({ kind, place }) => (place ? [at(right(kind, ["get", "list", "watch"]), place)] : [])),
    ...reads.flatMap(({ kind, place }) => (place ? [at(right(kind, ["get"]), place)] : [])),
    ...lookRights([primary, ...[...owns, ...watches, ...reads].map(({ kind }) => kind)]),
  ];
}

/** Permissions of the checks before a controller starts: the cluster's identity, and the CRDs that the code declares. */
function lookRights(kinds: readonly KindData[]): readonly Right[] {
  const names = new Set(kinds.flatMap(({ crd, plural, group }) => (crd ? [`${plural}.${group}`] : [])));
  return [
    { group: "", resource: "namespaces", verbs: ["get"], name: "kube-system" },
    ...[...names].map((name) => ({ group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: ["get"], name })),
  ];
}

/**
 * Service account, roles and bindings. The roles with the suffix `-self` hold the optional permissions: leave them out for a controller whose
 * `sync` returns nothing that needs them.
 */
export function rbacManifests(definition: Definition): readonly Manifest[] {
  const account = `deltaloop-sync-${definition.name}`;
  const roles = Map.groupBy(
    rightsOf(definition),
    ({ namespace = "", optional }) => `${namespace} ${optional ? `${account}-self` : account}`,
  );
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account, namespace: NAMESPACE } },
    ...[...roles].flatMap(([place, rights]) => {
      const [namespace = "", name = ""] = place.split(" ");
      const [kind, metadata] = namespace === "" ? ["ClusterRole", { name }] : ["Role", { name, namespace }];
      const role = { apiVersion: `${RBAC}/v1`, kind, metadata, rules: rulesOf(rights) };
      const roleRef = { apiGroup: RBAC, kind, name };
      const subjects = [{ kind: "ServiceAccount", name: account, namespace: NAMESPACE }];
      return [role, { apiVersion: `${RBAC}/v1`, kind: `${kind}Binding`, metadata, roleRef, subjects }];
    }),
  ];
}

/** One rule for each resource and name, sorted. */
function rulesOf(rights: readonly Right[]): readonly object[] {
  const groups = Map.groupBy(rights, ({ group, resource, name = "" }) => `${group}/${resource}/${name}`);
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, same]) => {
      const [first] = same;
      if (first === undefined) return [];
      const verbs = VERBS.filter((verb) => same.some((right) => right.verbs.includes(verb)));
      const names = first.name === undefined ? {} : { resourceNames: [first.name] };
      return [{ apiGroups: [first.group], resources: [first.resource], ...names, verbs }];
    });
}
