/** Managed fields of the served kinds: what `apply/` needs to know of them. */
import { ensureObject, type JsonObject, metaOf } from "@deltaloop/base";
import { builtInTypes, typeOfKind } from "../apply/built-in-types.ts";
import { managedAfterUpdate, type ManagedKind } from "../apply/field-manager.ts";
import { setOf } from "../apply/field-set.ts";
import { fieldElement } from "../apply/path-element.ts";
import { TypeMismatchError } from "../apply/typed.ts";
import { rootType } from "../custom/custom-types.ts";
import type { TypeRef } from "../apply/type-schema.ts";
import { apiVersionOf, type CustomVersion, type ResourceDefinition } from "../scheme/resource-definitions.ts";

/** The author of a write. */
export interface FieldWriter {
  readonly manager: string;
  readonly subresource: string;
  /** RFC 3339, in seconds. */
  readonly now: string;
}

/** Source: apiserver/pkg/endpoints/handlers/create.go (prefixFromUserAgent). */
const MANAGER_BYTES_MAX = 128;

/** Source: apiserver/pkg/endpoints/handlers/create.go (managerOrUserAgent). */
export function managerOf(fieldManager: string | undefined, userAgent: string | undefined): string {
  if (fieldManager !== undefined && fieldManager !== "") return fieldManager;
  return (userAgent ?? "")
    .split("/", 1)
    .join("")
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, "")
    .slice(0, MANAGER_BYTES_MAX);
}

const POD_TEMPLATE = { metadata: {}, spec: { containers: null } };

/** What Go encodes of an object of which nothing is set, but for the metadata. Source: apps/v1/types.go, core/v1/types.go. */
const EMPTY: Readonly<Record<string, JsonObject>> = {
  Namespace: { spec: {}, status: {} },
  Node: {
    spec: {},
    status: {
      daemonEndpoints: { kubeletEndpoint: { Port: 0 } },
      nodeInfo: Object.fromEntries(
        [
          ...["machineID", "systemUUID", "bootID", "kernelVersion", "osImage"],
          ...["containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"],
        ].map((field) => [field, ""]),
      ),
    },
  },
  Pod: { spec: { containers: null }, status: {} },
  ReplicationController: { spec: {}, status: { replicas: 0 } },
  Event: {
    involvedObject: {},
    source: {},
    firstTimestamp: null,
    lastTimestamp: null,
    eventTime: null,
    reportingComponent: "",
    reportingInstance: "",
  },
  Service: { spec: {}, status: { loadBalancer: {} } },
  ResourceQuota: { spec: {}, status: {} },
  Deployment: { spec: { selector: null, template: POD_TEMPLATE, strategy: {} }, status: {} },
  ReplicaSet: { spec: { selector: null, template: POD_TEMPLATE }, status: { replicas: 0 } },
  Lease: { spec: {} },
  PersistentVolumeClaim: { spec: { resources: {} }, status: {} },
  StatefulSet: {
    spec: { selector: null, template: POD_TEMPLATE, serviceName: "", updateStrategy: {} },
    status: { replicas: 0, availableReplicas: 0 },
  },
  DaemonSet: {
    spec: { selector: null, template: POD_TEMPLATE, updateStrategy: {} },
    status: { currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 0 },
  },
  Job: { spec: { template: POD_TEMPLATE }, status: {} },
  CronJob: { spec: { schedule: "", jobTemplate: { metadata: {}, spec: { template: POD_TEMPLATE } } }, status: {} },
  HorizontalPodAutoscaler: {
    spec: { scaleTargetRef: { kind: "", name: "" }, maxReplicas: 0 },
    status: { desiredReplicas: 0, currentMetrics: null },
  },
  PodDisruptionBudget: { spec: {}, status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 } },
  NetworkPolicy: { spec: { podSelector: {} } },
  Ingress: { spec: {}, status: { loadBalancer: {} } },
  Role: { rules: null },
  ClusterRole: { rules: null },
  RoleBinding: { roleRef: { apiGroup: "", kind: "", name: "" } },
  ClusterRoleBinding: { roleRef: { apiGroup: "", kind: "", name: "" } },
  CustomResourceDefinition: {
    spec: { group: "", names: { plural: "", kind: "" }, scope: "", versions: null },
    status: { conditions: null, acceptedNames: { plural: "", kind: "" }, storedVersions: null },
  },
};

const STATUS = [[fieldElement("status")]];
const SPEC = [[fieldElement("spec")]];

/** Fields that a write to a kind's /status leaves besides the spec. Source: kubernetes/pkg/registry strategy.go GetResetFields. */
const KEPT_BY_STATUS: Readonly<Record<string, readonly string[]>> = {
  Deployment: ["labels"],
  Pod: ["deletionTimestamp", "ownerReferences"],
};

export function managedKindOf(definition: ResourceDefinition): ManagedKind {
  const { kind, custom } = definition;
  if (custom !== undefined) return managedCustomKind(definition, custom);
  const apiVersion = apiVersionOf(definition);
  return {
    schema: builtInTypes(),
    apiVersion,
    kind,
    typeIn: (version) => (version === apiVersion ? typeOfKind(apiVersion, kind) : undefined),
    empty: { apiVersion, kind, metadata: {}, ...EMPTY[kind] },
    resetFields: (subresource) => {
      if (!definition.subresources.includes("status")) return setOf();
      if (subresource !== "status") return setOf(...STATUS);
      return setOf(...SPEC, ...(KEPT_BY_STATUS[kind] ?? []).map((field) => [fieldElement("metadata"), fieldElement(field)]));
    },
  };
}

const METADATA = [[fieldElement("metadata")]];

function managedCustomKind(definition: ResourceDefinition, custom: CustomVersion): ManagedKind {
  const { group, kind } = definition;
  const apiVersion = apiVersionOf(definition);
  return {
    schema: builtInTypes(),
    apiVersion,
    kind,
    typeIn: (version) => {
      const schema = version.startsWith(`${group}/`) ? custom.schemas.get(version.slice(group.length + 1)) : undefined;
      return schema && typeOfSchema(schema);
    },
    empty: { apiVersion, kind },
    resetFields: (subresource) => {
      if (subresource === "status") return setOf(...METADATA, ...SPEC);
      return definition.subresources.includes("status") ? setOf(...STATUS) : setOf();
    },
  };
}

const customTypes = new WeakMap<JsonObject, TypeRef>();

function typeOfSchema(schema: JsonObject): TypeRef {
  let type = customTypes.get(schema);
  if (type === undefined) customTypes.set(schema, (type = rootType(schema)));
  return type;
}

/**
 * Sets the managed fields of an object that is about to be stored, in place.
 *
 * @param live undefined for a create
 * @param isTracked whether objects that were never applied have managed fields, too
 */
export function trackFields(
  definition: ResourceDefinition,
  live: JsonObject | undefined,
  object: JsonObject,
  writer: FieldWriter | undefined,
  isTracked: boolean,
): void {
  const meta = ensureObject(object, "metadata");
  const before = live && metaOf(live)["managedFields"];
  let managed = before;
  const isAny = before !== undefined || meta["managedFields"] !== undefined || (isTracked && live === undefined);
  if (isAny && writer !== undefined && writer.subresource !== "binding") {
    const kind = managedKindOf(definition);
    try {
      managed = managedAfterUpdate(live ?? kind.empty, object, { kind, ...writer });
    } catch (error) {
      // As upstream, a write succeeds with the fields that were there.
      if (!(error instanceof TypeMismatchError)) throw error;
    }
  }
  if (managed === undefined) delete meta["managedFields"];
  else meta["managedFields"] = managed;
}
