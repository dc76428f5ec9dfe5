/** The built-in resources and their differences; all other code is common to them. */
import type { JsonObject } from "@deltaloop/base";
import type { GroupResource } from "./api-error.ts";

export interface ResourceDefinition extends GroupResource {
  /** `pods`, `deployments.apps`: the resource's key within the server. */
  readonly id: string;
  readonly group: string;
  readonly version: string;
  /** Plural: `deployments`. */
  readonly resource: string;
  readonly singular: string;
  readonly kind: string;
  /** The kind whose rules apply; empty for a custom resource, which may have the kind of a built-in one. */
  readonly builtInKind: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  /** `all`: included in `kubectl get all`. */
  readonly categories: readonly string[];
  readonly subresources: readonly Subresource[];
  /** Changes that raise metadata.generation on the main resource; "none": objects have no generation. */
  readonly generation: "none" | "spec" | "spec and annotations" | "all but metadata";
  /** A PUT to a missing name creates the object. */
  readonly createOnUpdate: boolean;
  /** A PUT may omit the resourceVersion. */
  readonly unconditionalUpdate: boolean;
  /** Propagation policy of a DELETE without one. */
  readonly defaultPropagation: "Background" | "Orphan";
  /** A completed DELETE returns the object instead of a Status. */
  readonly returnsDeletedObject: boolean;
  /** Field selectors beyond metadata.name and metadata.namespace. */
  readonly selectableFields: readonly string[];
  /** Present for a version of a CustomResourceDefinition. */
  readonly custom?: CustomVersion;
}

/** One version of a CustomResourceDefinition, as declared. */
export interface CustomVersion {
  readonly listKind: string;
  readonly isServed: boolean;
  /** The version in which objects are stored. */
  readonly storageVersion: string;
  /** While the definition is being deleted, no objects can be created. */
  readonly isTerminating: boolean;
  /** The structural schemas of all versions. */
  readonly schemas: ReadonlyMap<string, JsonObject>;
  readonly columns: readonly JsonObject[];
  /** The paths of /scale; undefined without that subresource. */
  readonly scale: JsonObject | undefined;
}

export type Subresource = "status" | "scale" | "binding" | "finalize" | "resize";

type Given = Pick<ResourceDefinition, "group" | "resource" | "kind"> & Partial<ResourceDefinition>;

export function define(given: Given): ResourceDefinition {
  return {
    id: given.group === "" ? given.resource : `${given.resource}.${given.group}`,
    version: "v1",
    singular: given.kind.toLowerCase(),
    builtInKind: given.kind,
    namespaced: true,
    shortNames: [],
    categories: [],
    subresources: [],
    generation: "none",
    createOnUpdate: false,
    unconditionalUpdate: true,
    defaultPropagation: "Background",
    returnsDeletedObject: false,
    selectableFields: [],
    ...given,
  };
}

/** All resources, in discovery order. */
export const RESOURCE_DEFINITIONS: readonly ResourceDefinition[] = [
  define({
    group: "",
    resource: "namespaces",
    kind: "Namespace",
    namespaced: false,
    shortNames: ["ns"],
    subresources: ["status", "finalize"],
    selectableFields: ["status.phase"],
  }),
  define({
    group: "",
    resource: "nodes",
    kind: "Node",
    namespaced: false,
    shortNames: ["no"],
    subresources: ["status"],
    selectableFields: ["spec.unschedulable"],
  }),
  define({
    group: "",
    resource: "pods",
    kind: "Pod",
    shortNames: ["po"],
    categories: ["all"],
    subresources: ["status", "binding", "resize"],
    generation: "spec",
    returnsDeletedObject: true,
    selectableFields: [
      "spec.nodeName",
      "spec.restartPolicy",
      "spec.schedulerName",
      "spec.serviceAccountName",
      "status.phase",
      "status.podIP",
      "status.nominatedNodeName",
    ],
  }),
  define({
    group: "",
    resource: "replicationcontrollers",
    kind: "ReplicationController",
    shortNames: ["rc"],
    categories: ["all"],
    subresources: ["status", "scale"],
    generation: "spec",
    defaultPropagation: "Orphan",
    selectableFields: ["status.replicas"],
  }),
  define({
    group: "",
    resource: "events",
    kind: "Event",
    shortNames: ["ev"],
    createOnUpdate: true,
    selectableFields: [
      "involvedObject.kind",
      "involvedObject.namespace",
      "involvedObject.name",
      "involvedObject.uid",
      "involvedObject.apiVersion",
      "involvedObject.resourceVersion",
      "involvedObject.fieldPath",
      "reason",
      "reportingComponent",
      "source",
      "type",
    ],
  }),
  define({ group: "", resource: "configmaps", kind: "ConfigMap", shortNames: ["cm"] }),
  define({ group: "", resource: "secrets", kind: "Secret", selectableFields: ["type"] }),
  define({ group: "", resource: "serviceaccounts", kind: "ServiceAccount", shortNames: ["sa"], returnsDeletedObject: true }),
  define({
    group: "",
    resource: "services",
    kind: "Service",
    shortNames: ["svc"],
    categories: ["all"],
    subresources: ["status"],
    createOnUpdate: true,
    returnsDeletedObject: true,
    selectableFields: ["spec.clusterIP", "spec.type"],
  }),
  define({
    group: "",
    resource: "resourcequotas",
    kind: "ResourceQuota",
    shortNames: ["quota"],
    subresources: ["status"],
    returnsDeletedObject: true,
  }),
  define({
    group: "apps",
    resource: "deployments",
    kind: "Deployment",
    shortNames: ["deploy"],
    categories: ["all"],
    subresources: ["status", "scale"],
    generation: "spec and annotations",
  }),
  define({
    group: "apps",
    resource: "replicasets",
    kind: "ReplicaSet",
    shortNames: ["rs"],
    categories: ["all"],
    subresources: ["status", "scale"],
    generation: "spec",
    selectableFields: ["status.replicas"],
  }),
  define({
    group: "",
    resource: "persistentvolumeclaims",
    kind: "PersistentVolumeClaim",
    shortNames: ["pvc"],
    subresources: ["status"],
    returnsDeletedObject: true,
  }),
  define({
    group: "apps",
    resource: "statefulsets",
    kind: "StatefulSet",
    shortNames: ["sts"],
    categories: ["all"],
    subresources: ["status", "scale"],
    generation: "spec",
  }),
  define({
    group: "apps",
    resource: "daemonsets",
    kind: "DaemonSet",
    shortNames: ["ds"],
    categories: ["all"],
    subresources: ["status"],
    generation: "spec",
  }),
  define({
    group: "batch",
    resource: "jobs",
    kind: "Job",
    categories: ["all"],
    subresources: ["status"],
    generation: "spec",
    defaultPropagation: "Orphan",
    selectableFields: ["status.successful"],
  }),
  define({
    group: "batch",
    resource: "cronjobs",
    kind: "CronJob",
    shortNames: ["cj"],
    categories: ["all"],
    subresources: ["status"],
    generation: "spec",
  }),
  define({
    group: "autoscaling",
    version: "v2",
    resource: "horizontalpodautoscalers",
    kind: "HorizontalPodAutoscaler",
    shortNames: ["hpa"],
    categories: ["all"],
    subresources: ["status"],
  }),
  define({
    group: "policy",
    resource: "poddisruptionbudgets",
    kind: "PodDisruptionBudget",
    shortNames: ["pdb"],
    subresources: ["status"],
    generation: "spec",
    unconditionalUpdate: false,
  }),
  define({
    group: "networking.k8s.io",
    resource: "networkpolicies",
    kind: "NetworkPolicy",
    shortNames: ["netpol"],
    generation: "spec",
  }),
  define({
    group: "networking.k8s.io",
    resource: "ingresses",
    kind: "Ingress",
    shortNames: ["ing"],
    subresources: ["status"],
    generation: "spec",
  }),
  ...["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"].map((kind) =>
    define({
      group: "rbac.authorization.k8s.io",
      resource: `${kind.toLowerCase()}s`,
      kind,
      namespaced: !kind.startsWith("Cluster"),
      createOnUpdate: true,
    }),
  ),
  define({
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
    namespaced: false,
    shortNames: ["crd", "crds"],
    categories: ["api-extensions"],
    subresources: ["status"],
    generation: "spec",
    unconditionalUpdate: false,
  }),
  define({ group: "coordination.k8s.io", resource: "leases", kind: "Lease", createOnUpdate: true, unconditionalUpdate: false }),
];

/** `apps/v1`, or `v1` in the core group. */
export function apiVersionOf({ group, version }: Pick<ResourceDefinition, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}
