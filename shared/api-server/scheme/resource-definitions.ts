/** The served resources and their differences; all other code is common to them. */
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
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  /** Included in `kubectl get all`. */
  readonly inAll: boolean;
  readonly subresources: readonly Subresource[];
  /** Changes that raise metadata.generation on the main resource; "none": objects have no generation. */
  readonly generation: "none" | "spec" | "spec and annotations";
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
}

export type Subresource = "status" | "scale" | "binding" | "finalize" | "resize";

type Given = Pick<ResourceDefinition, "group" | "resource" | "kind"> & Partial<ResourceDefinition>;

function define(given: Given): ResourceDefinition {
  return {
    id: given.group === "" ? given.resource : `${given.resource}.${given.group}`,
    version: "v1",
    singular: given.kind.toLowerCase(),
    namespaced: true,
    shortNames: [],
    inAll: false,
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

/** In discovery order. */
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
    inAll: true,
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
    inAll: true,
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
    inAll: true,
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
    inAll: true,
    subresources: ["status", "scale"],
    generation: "spec and annotations",
  }),
  define({
    group: "apps",
    resource: "replicasets",
    kind: "ReplicaSet",
    shortNames: ["rs"],
    inAll: true,
    subresources: ["status", "scale"],
    generation: "spec",
    selectableFields: ["status.replicas"],
  }),
  define({ group: "coordination.k8s.io", resource: "leases", kind: "Lease", createOnUpdate: true, unconditionalUpdate: false }),
];

const BY_PLACE = new Map(
  RESOURCE_DEFINITIONS.map((definition) => [`${definition.group}/${definition.version}/${definition.resource}`, definition]),
);
const BY_KIND = new Map(RESOURCE_DEFINITIONS.map((definition) => [`${apiVersionOf(definition)}/${definition.kind}`, definition]));

export function findResource(group: string, version: string, resource: string): ResourceDefinition | undefined {
  return BY_PLACE.get(`${group}/${version}/${resource}`);
}

export function findKind(apiVersion: string, kind: string): ResourceDefinition | undefined {
  return BY_KIND.get(`${apiVersion}/${kind}`);
}

/** @throws {RangeError} for an unknown resource, which is a bug in the server */
export function resourceById(id: string): ResourceDefinition {
  const found = RESOURCE_DEFINITIONS.find((definition) => definition.id === id);
  if (found === undefined) throw new RangeError(`no resource "${id}"`);
  return found;
}

/** `apps/v1`, or `v1` in the core group. */
export function apiVersionOf({ group, version }: Pick<ResourceDefinition, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}
