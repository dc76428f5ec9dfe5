/**
 * Separates the fields that a request may set from those of the server: status, generation, system metadata.
 *
 * Source: kubernetes/pkg/registry/{apps/deployment,apps/replicaset,core/replicationcontroller,core/pod,core/node}/strategy.go,
 * apiserver/pkg/registry/rest/update.go (BeforeUpdate).
 */
import { clone, ensureObject, jsonEqual, type JsonObject, metaOf, objectAt, objectsAt, semanticEqual, numberAt } from "@deltaloop/base";
import { addStoredVersion, initialStatus } from "../custom/definition-object.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";

/** Resets the server's fields of a new object, in place. */
export function prepareForCreate(definition: ResourceDefinition, object: JsonObject): void {
  const meta = ensureObject(object, "metadata");
  for (const field of ["resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]) delete meta[field];
  if (definition.generation !== "none") meta["generation"] = 1;
  if (definition.custom !== undefined) {
    if (definition.subresources.includes("status")) delete object["status"];
    return;
  }
  const status = INITIAL_STATUS[definition.builtInKind];
  if (status !== undefined) object["status"] = status(object);
  if (definition.builtInKind === "Namespace") ensureObject(object, "spec")["finalizers"] ??= ["kubernetes"];
}

const INITIAL_STATUS: Readonly<Record<string, (object: JsonObject) => JsonObject>> = {
  Deployment: () => ({}),
  ReplicaSet: () => ({ replicas: 0 }),
  ReplicationController: () => ({ replicas: 0 }),
  Pod: (pod) => ({ phase: "Pending", qosClass: qosClassOf(pod) }),
  Namespace: () => ({ phase: "Active" }),
  ResourceQuota: () => ({}),
  CustomResourceDefinition: initialStatus,
  ...Object.fromEntries(["Job", "CronJob", "HorizontalPodAutoscaler", "PodDisruptionBudget"].map((kind) => [kind, () => ({})])),
  Ingress: () => ({ loadBalancer: {} }),
  PersistentVolumeClaim: () => ({ phase: "Pending" }),
  StatefulSet: () => ({ replicas: 0 }),
  DaemonSet: () => ({ currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 }),
};

/** Restores from `current` the fields that this subresource must not change, in place. */
export function prepareForUpdate(definition: ResourceDefinition, subresource: string, object: JsonObject, current: JsonObject): void {
  const meta = ensureObject(object, "metadata");
  const currentMeta = metaOf(current);
  restore(meta, currentMeta, ["generation"]);
  if (subresource === "status" && definition.custom !== undefined) keepAllButCustomStatus(object, current);
  else if (subresource === "status") keepAllButStatus(definition, object, current);
  else if (definition.subresources.includes("status") && subresource !== "binding") restore(object, current, ["status"]);
  if (definition.builtInKind === "CustomResourceDefinition" && subresource === "") addStoredVersion(object);
  if (changesGeneration(definition, subresource, object, current)) meta["generation"] = (numberAt(currentMeta, "generation") ?? 0) + 1;

  meta["uid"] ??= currentMeta["uid"] ?? "";
  restore(meta, currentMeta, ["creationTimestamp"]);
  // An update cannot undo a deletion.
  if (currentMeta["deletionTimestamp"] !== undefined) restore(meta, currentMeta, ["deletionTimestamp", "deletionGracePeriodSeconds"]);
}

/** Restores the current object, except for the new status and managed fields. */
function keepAllButCustomStatus(object: JsonObject, current: JsonObject): void {
  const { status } = object;
  const { managedFields } = metaOf(object);
  for (const key of Object.keys(object)) if (!Object.hasOwn(current, key)) delete object[key];
  Object.assign(object, clone(current));
  if (status === undefined) delete object["status"];
  else object["status"] = status;
  restore(ensureObject(object, "metadata"), managedFields === undefined ? {} : { managedFields }, ["managedFields"]);
}

function keepAllButStatus(definition: ResourceDefinition, object: JsonObject, current: JsonObject): void {
  restore(object, current, ["spec"]);
  const meta = ensureObject(object, "metadata");
  // A write to /status must not change a Deployment's labels. It may change annotations, because controllers write the revision there.
  if (definition.builtInKind === "Deployment") restore(meta, metaOf(current), ["labels"]);
  if (definition.builtInKind === "Pod") {
    restore(meta, metaOf(current), ["ownerReferences"]);
    delete meta["deletionTimestamp"];
    const status = ensureObject(object, "status");
    status["qosClass"] ??= objectAt(current, "status")?.["qosClass"] ?? "BestEffort";
  }
}

/** Annotations count only for Deployments (they are copied to ReplicaSets), and not through /status; a binding does not count. */
function changesGeneration({ generation }: ResourceDefinition, subresource: string, object: JsonObject, current: JsonObject): boolean {
  if (generation === "none" || subresource === "status" || subresource === "binding") return false;
  if (generation === "all but metadata") return !jsonEqual({ ...object, metadata: null }, { ...current, metadata: null });
  if (!semanticEqual(object["spec"], current["spec"])) return true;
  return generation === "spec and annotations" && !semanticEqual(metaOf(object)["annotations"], metaOf(current)["annotations"]);
}

function restore(target: JsonObject, source: JsonObject, fields: readonly string[]): void {
  for (const field of fields) {
    const value = source[field];
    if (value === undefined) delete target[field];
    else target[field] = value;
  }
}

const COMPUTE = ["cpu", "memory"] as const;

/** Source: kubernetes/pkg/apis/core/helper/qos/qos.go. */
function qosClassOf(pod: JsonObject): "Guaranteed" | "Burstable" | "BestEffort" {
  const spec = objectAt(pod, "spec");
  const resources = [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers")].map((container) => ({
    limits: objectAt(objectAt(container, "resources"), "limits") ?? {},
    requests: objectAt(objectAt(container, "resources"), "requests") ?? {},
  }));
  if (resources.every(({ limits, requests }) => COMPUTE.every((name) => !(name in limits) && !(name in requests)))) return "BestEffort";
  const isGuaranteed = resources.every(({ limits, requests }) =>
    COMPUTE.every((name) => name in limits && (requests[name] ?? limits[name]) === limits[name]),
  );
  return isGuaranteed ? "Guaranteed" : "Burstable";
}
