/** The resources this project watches and writes, and their API paths. */
import type { OwnName } from "@deltaloop/base";

/** Resources that are watched, queued and cached, in the order in which they are listed at start. */
export const CACHED_RESOURCES = ["deployments", "replicasets", "replicationcontrollers", "pods"] as const;
export type CachedResource = (typeof CACHED_RESOURCES)[number];

/**
 * A view: what one user controller caches of one resource, named `<resource>~<controller>~<hash of its projection>`. It has its own
 * rows, lane and gate, so a different projection is a different view.
 */
export type OwnView = `${string}~${string}~${string}`;

/**
 * A set of objects that is queued and cached under its own name. Each cached resource is one view, which the built-in controllers share.
 */
export type View = CachedResource | OwnView;

export function isOwnView(view: string): view is OwnView {
  return OWN_VIEW.test(view);
}

const OWN_VIEW = /^[a-z0-9.-]{1,253}~[a-z0-9-]{1,32}~[a-z0-9]{1,64}$/;

/** Resources that only a node agent reads or writes, with its node's identity. */
export type NodeResource =
  | "nodes"
  | "services"
  | "configmaps"
  | "secrets"
  | "serviceaccounts"
  | "tokenreviews"
  | "subjectaccessreviews"
  | "certificatesigningrequests"
  | "clustertrustbundles"
  | "podcertificaterequests"
  | "runtimeclasses";

/** Resources that a capture and `explain` read in addition to the cached resources, if permitted. They are never queued or cached. */
export const EVIDENCE_RESOURCES = ["events", "nodes", "horizontalpodautoscalers", "poddisruptionbudgets", "resourcequotas"] as const;
export type EvidenceResource = (typeof EVIDENCE_RESOURCES)[number];

/** All resources that are read or written. Only the cached resources are queued and cached. */
export type Resource = CachedResource | EvidenceResource | "leases" | "namespaces" | NodeResource;

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
  clustertrustbundles: {
    path: "apis/certificates.k8s.io/v1",
    apiVersion: "certificates.k8s.io/v1",
    group: "certificates.k8s.io",
    kind: "ClusterTrustBundle",
  },
  podcertificaterequests: {
    path: "apis/certificates.k8s.io/v1",
    apiVersion: "certificates.k8s.io/v1",
    group: "certificates.k8s.io",
    kind: "PodCertificateRequest",
  },
  horizontalpodautoscalers: {
    path: "apis/autoscaling/v2",
    apiVersion: "autoscaling/v2",
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
  },
  poddisruptionbudgets: { path: "apis/policy/v1", apiVersion: "policy/v1", group: "policy", kind: "PodDisruptionBudget" },
  resourcequotas: { path: "api/v1", apiVersion: "v1", group: "", kind: "ResourceQuota" },
  runtimeclasses: { path: "apis/node.k8s.io/v1", apiVersion: "node.k8s.io/v1", group: "node.k8s.io", kind: "RuntimeClass" },
};

/**
 * The rows of a view that belong to one key: the rows that it owns, the rows that name it, or the rows of its namespace or of the cluster.
 */
export interface SliceInfo<R extends string = View> {
  readonly view: R;
  readonly by: "owner" | "key" | "namespace" | "cluster";
}

export interface ControllerInfo<R extends string = View> {
  readonly primary: R;
  /** The view whose slice (by controller owner) belongs to a snapshot of the primary. */
  readonly dependents?: R;
  /** Further views of a snapshot; only user controllers have them. */
  readonly slices?: readonly SliceInfo<R>[];
  /** Views that must be synced before a key of this controller is taken (informer §11.6). */
  readonly reads: readonly R[];
}

const INFO = {
  deployment: { primary: "deployments", dependents: "replicasets", reads: ["deployments", "replicasets", "pods"] },
  replicaset: { primary: "replicasets", dependents: "pods", reads: ["replicasets", "pods"] },
  replicationcontroller: { primary: "replicationcontrollers", dependents: "pods", reads: ["replicationcontrollers", "pods"] },
} as const satisfies Readonly<Record<string, ControllerInfo<CachedResource>>>;

/** The built-in controllers: each has a primary resource, a work queue and a sync function. */
export type Controller = keyof typeof INFO;
export const CONTROLLER_INFO: { readonly [C in Controller]: Required<Omit<ControllerInfo<CachedResource>, "slices">> } = INFO;
// An object literal has exactly the keys of its type.
export const CONTROLLERS = Object.keys(INFO) as readonly Controller[];

/** A user controller: a DNS label that is not the name of a built-in controller. */
export type OwnController = OwnName;

export type ControllerName = Controller | OwnController;

export function isBuiltIn(controller: ControllerName): controller is Controller {
  return Object.hasOwn(INFO, controller);
}

/** A record with one value per name. Tables by controller or resource use this, so that they list no names themselves. */
export function tableOf<N extends string, T>(names: readonly N[], make: (name: N) => T): { readonly [K in N]: T } {
  // `fromEntries` loses the key type.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as { readonly [K in N]: T };
}

/** The controller whose primary is `resource`; undefined for pods. */
export function controllerOf(resource: CachedResource): Controller | undefined {
  return CONTROLLERS.find((controller) => CONTROLLER_INFO[controller].primary === resource);
}

/** `namespace/name`, or `/name` in cluster scope: the identity of an object in caches and queues, deliberately without uid. */
export type ObjectKey = string;

export function objectKey(namespace: string, name: string): ObjectKey {
  return `${namespace}/${name}`;
}

/** @throws {RangeError} when `key` has no name, or not one slash; such a key can only come from external input. */
export function splitKey(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  if (slash < 0 || slash === key.length - 1 || key.includes("/", slash + 1)) throw new RangeError(`not a namespace/name key: "${key}"`);
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The resource with its group, as a CustomResourceDefinition is named: `deployments.apps`, `pods`. */
export function resourceId(resource: Resource): string {
  const { group } = RESOURCES[resource];
  return group === "" ? resource : `${resource}.${group}`;
}
