/** The kinds this project watches and writes, and how the API server names them. */

/** Resources that are watched, travel in Q1 and are cached. The order is the order in which they are listed at start. */
export const CACHED_RESOURCES = ["deployments", "replicasets", "replicationcontrollers", "pods"] as const;
export type CachedResource = (typeof CACHED_RESOURCES)[number];

/** What only a node agent reads or writes, with its node's identity. */
export type NodeResource =
  | "nodes"
  | "services"
  | "configmaps"
  | "secrets"
  | "serviceaccounts"
  | "tokenreviews"
  | "subjectaccessreviews"
  | "certificatesigningrequests"
  | "runtimeclasses";

/** Everything we may read or write. All but the cached ones never travel and are never cached. */
export type Resource = CachedResource | "leases" | "events" | "namespaces" | NodeResource;

export interface ResourceInfo {
  /** `apis/apps/v1` or `api/v1`. */
  readonly path: string;
  readonly apiVersion: string;
  readonly group: string;
  readonly kind: string;
}

export const RESOURCES: { readonly [R in Resource]: ResourceInfo } = {
  deployments: { path: "apis/apps/v1", apiVersion: "apps/v1", group: "apps", kind: "Deployment" },
  replicasets: { path: "apis/apps/v1", apiVersion: "apps/v1", group: "apps", kind: "ReplicaSet" },
  replicationcontrollers: { path: "api/v1", apiVersion: "v1", group: "", kind: "ReplicationController" },
  pods: { path: "api/v1", apiVersion: "v1", group: "", kind: "Pod" },
  leases: { path: "apis/coordination.k8s.io/v1", apiVersion: "coordination.k8s.io/v1", group: "coordination.k8s.io", kind: "Lease" },
  events: { path: "api/v1", apiVersion: "v1", group: "", kind: "Event" },
  namespaces: { path: "api/v1", apiVersion: "v1", group: "", kind: "Namespace" },
  nodes: { path: "api/v1", apiVersion: "v1", group: "", kind: "Node" },
  services: { path: "api/v1", apiVersion: "v1", group: "", kind: "Service" },
  configmaps: { path: "api/v1", apiVersion: "v1", group: "", kind: "ConfigMap" },
  secrets: { path: "api/v1", apiVersion: "v1", group: "", kind: "Secret" },
  serviceaccounts: { path: "api/v1", apiVersion: "v1", group: "", kind: "ServiceAccount" },
  tokenreviews: {
    path: "apis/authentication.k8s.io/v1",
    apiVersion: "authentication.k8s.io/v1",
    group: "authentication.k8s.io",
    kind: "TokenReview",
  },
  subjectaccessreviews: {
    path: "apis/authorization.k8s.io/v1",
    apiVersion: "authorization.k8s.io/v1",
    group: "authorization.k8s.io",
    kind: "SubjectAccessReview",
  },
  certificatesigningrequests: {
    path: "apis/certificates.k8s.io/v1",
    apiVersion: "certificates.k8s.io/v1",
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
  },
  runtimeclasses: { path: "apis/node.k8s.io/v1", apiVersion: "node.k8s.io/v1", group: "node.k8s.io", kind: "RuntimeClass" },
};

export interface ControllerInfo<R extends string = CachedResource> {
  readonly primary: R;
  /** The resource whose slice (by controller owner = the primary's uid) a snapshot of the primary carries. */
  readonly dependents: R;
  /** Resources that must be synced before a key of this controller is handed out (informer §11.6). */
  readonly reads: readonly R[];
}

const BUILT_IN = {
  deployment: { primary: "deployments", dependents: "replicasets", reads: ["deployments", "replicasets", "pods"] },
  replicaset: { primary: "replicasets", dependents: "pods", reads: ["replicasets", "pods"] },
  replicationcontroller: { primary: "replicationcontrollers", dependents: "pods", reads: ["replicationcontrollers", "pods"] },
} as const satisfies Readonly<Record<string, ControllerInfo>>;

/** The controllers that are built in: each has a primary resource, a work queue and a sync function of its own. */
export type Controller = keyof typeof BUILT_IN;
export const CONTROLLER_INFO: { readonly [C in Controller]: ControllerInfo } = BUILT_IN;
// A literal has the keys of its type and no others.
export const CONTROLLERS = Object.keys(BUILT_IN) as readonly Controller[];

/** One value for each of `names`: what is listed by controller or by resource is made with this, and lists none of them itself. */
export function tableOf<N extends string, T>(names: readonly N[], make: (name: N) => T): { readonly [K in N]: T } {
  // `fromEntries` forgets which keys it was given.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as { readonly [K in N]: T };
}

/** The controller whose primary is `resource`; pods are nobody's primary. */
export function controllerOf(resource: CachedResource): Controller | undefined {
  return CONTROLLERS.find((controller) => CONTROLLER_INFO[controller].primary === resource);
}

/** `namespace/name`: the identity of an object in caches and queues. The uid is deliberately not part of it. */
export type ObjectKey = string;

export function objectKey(namespace: string, name: string): ObjectKey {
  return `${namespace}/${name}`;
}

/** @throws {RangeError} when `key` is not `namespace/name`; such a key can only come from outside. */
export function splitKey(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  if (slash <= 0 || slash === key.length - 1 || key.includes("/", slash + 1)) throw new RangeError(`not a namespace/name key: "${key}"`);
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
