/**
 * The validation that clients rely on: names, metadata, selectors, specs and statuses. A subset of upstream's, see README.md.
 *
 * Source: kubernetes/pkg/apis/{apps,core}/validation/validation.go, apimachinery/pkg/api/validation/objectmeta.go.
 */
import { type FieldError, fieldDuplicate, fieldForbidden, fieldInvalid, fieldRequired, fieldTooLong } from "../scheme/api-error.ts";
import {
  jsonEqual,
  type Json,
  type JsonObject,
  listAt,
  metaOf,
  namespaceOf,
  nameOf,
  numberAt,
  objectAt,
  objectsAt,
  semanticEqual,
  stringMap,
  textAt,
} from "@deltaloop/base";
import { validateConfigKey, validateName } from "../scheme/validation-names.ts";
import { validateCustom } from "../custom/validate-custom.ts";
import { validateMetadata } from "../scheme/validation-metadata.ts";
import { validateDefinition, validateDefinitionUpdate } from "../custom/validate-definition.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import { validateDeploymentSpec, validateReplicaSetSpec, validateReplicationControllerSpec } from "./validation-workloads.ts";
import { validatePodSpec } from "./validation-pod.ts";
import { validateAmount } from "./validation-resources.ts";

export function validateCreate(definition: ResourceDefinition, object: JsonObject): FieldError[] {
  const errors = [...validateName(definition, nameOf(object)), ...validateMetadata(metaOf(object), "metadata")];
  if (definition.custom !== undefined) return [...errors, ...validateCustom(definition, definition.custom, "", object, undefined)];
  return [...errors, ...validateSpec(definition, object)];
}

export function validateUpdate(definition: ResourceDefinition, subresource: string, object: JsonObject, current: JsonObject): FieldError[] {
  const errors = [...validateMetadataUpdate(object, current), ...validateMetadata(metaOf(object), "metadata")];
  if (definition.custom !== undefined) return [...errors, ...validateCustom(definition, definition.custom, subresource, object, current)];
  if (subresource === "status") return [...errors, ...validateStatus(definition, object, current)];
  errors.push(...validateSpec(definition, object));
  if (definition.builtInKind === "Deployment" || definition.builtInKind === "ReplicaSet")
    errors.push(...immutable("spec.selector", object["spec"], current["spec"], "selector"));
  if (definition.builtInKind === "CustomResourceDefinition") errors.push(...validateDefinitionUpdate(object, current));
  if (definition.builtInKind === "Pod" && subresource === "") errors.push(...validatePodUpdate(object, current));
  if (definition.builtInKind === "Pod" && subresource === "resize") errors.push(...validatePodResize(object, current));
  return errors;
}

function validateSpec(definition: ResourceDefinition, object: JsonObject): FieldError[] {
  const spec = objectAt(object, "spec") ?? {};
  switch (definition.builtInKind) {
    case "Deployment":
      return validateDeploymentSpec(spec);
    case "ReplicaSet":
      return validateReplicaSetSpec(spec);
    case "ReplicationController":
      return validateReplicationControllerSpec(spec);
    case "Pod":
      return validatePodSpec(spec, "spec");
    case "Service":
      return validateServicePorts(spec);
    case "CustomResourceDefinition":
      return validateDefinition(object);
    case "ConfigMap":
      return validateData(object, ["data", "binaryData"], "[]");
    case "Secret":
      return validateData(object, ["data"], "data");
    case "ResourceQuota":
      return Object.entries(objectAt(spec, "hard") ?? {}).flatMap(([name, amount]) => validateAmount(name, amount, `spec.hard[${name}]`));
    case "Lease":
      return validateLeaseSpec(spec);
    case "Event": {
      const involved = textAt(objectAt(object, "involvedObject"), "namespace") ?? "";
      const isMisplaced = involved !== "" && involved !== namespaceOf(object);
      return isMisplaced ? [fieldInvalid("involvedObject.namespace", involved, "does not match event.namespace")] : [];
    }
    default:
      return [];
  }
}

/** Source: ValidateService. */
function validateServicePorts(spec: JsonObject): FieldError[] {
  const ports = objectsAt(spec, "ports");
  const needsPorts = spec["type"] !== "ExternalName" && spec["clusterIP"] !== "None";
  if (ports.length === 0) return needsPorts ? [fieldRequired("spec.ports")] : [];
  const names = ports.map((port) => textAt(port, "name") ?? "");
  return names.flatMap((name, i) => {
    if (name === "") return ports.length > 1 ? [fieldRequired(`spec.ports[${i}].name`)] : [];
    return names.indexOf(name) < i ? [fieldDuplicate(`spec.ports[${i}].name`, name)] : [];
  });
}

/** Total size of a ConfigMap's or Secret's data. */
const DATA_BYTES_MAX = 1024 * 1024;

/** `whole`: upstream's name of the checked data as a whole. Source: ValidateConfigMap, ValidateSecret. */
function validateData(object: JsonObject, fields: readonly string[], whole: string): FieldError[] {
  const errors: FieldError[] = [];
  let bytes = 0;
  for (const field of fields)
    for (const [key, value] of Object.entries(stringMap(object[field]))) {
      errors.push(...validateConfigKey(key, `${field}[${key}]`));
      const isText = field === "data" && whole === "[]";
      bytes += Buffer.byteLength(value, isText ? "utf8" : "base64");
    }
  return bytes > DATA_BYTES_MAX ? [...errors, fieldTooLong(whole, DATA_BYTES_MAX)] : errors;
}

function validateLeaseSpec(spec: JsonObject): FieldError[] {
  const [duration, transitions] = [numberAt(spec, "leaseDurationSeconds") ?? 1, numberAt(spec, "leaseTransitions") ?? 0];
  return [
    ...(duration <= 0 ? [fieldInvalid("spec.leaseDurationSeconds", duration, "must be greater than 0")] : []),
    ...(transitions < 0 ? [fieldInvalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")] : []),
  ];
}

function validateMetadataUpdate(object: JsonObject, current: JsonObject): FieldError[] {
  const errors: FieldError[] = [];
  if (metaOf(current)["deletionTimestamp"] !== undefined) {
    const old = listAt(metaOf(current), "finalizers");
    const added = listAt(metaOf(object), "finalizers").filter((one) => !old.includes(one));
    if (added.length > 0) {
      errors.push(
        fieldForbidden(
          "metadata.finalizers",
          `no new finalizers can be added if the object is being deleted, found new finalizers ${goStrings(added)}`,
        ),
      );
    }
  }
  for (const field of ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"]) {
    errors.push(...immutable(`metadata.${field}`, metaOf(object), metaOf(current), field));
  }
  return errors;
}

/** `[]string{"a", "b"}`, as printed by Go. */
function goStrings(values: readonly Json[]): string {
  return `[]string{${values.map((value) => JSON.stringify(value)).join(", ")}}`;
}

function immutable(path: string, object: Json | undefined, current: Json | undefined, field: string): FieldError[] {
  const wrap = (value: Json | undefined): Json | undefined =>
    value !== null && typeof value === "object" && !Array.isArray(value) ? value[field] : undefined;
  const value = wrap(object);
  return semanticEqual(value, wrap(current)) ? [] : [fieldInvalid(path, value, "field is immutable")];
}

const PATCHABLE_POD_FIELDS =
  "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

function validatePodResize(object: JsonObject, current: JsonObject): FieldError[] {
  const fixed = (pod: JsonObject): JsonObject => {
    const spec = { ...objectAt(pod, "spec") };
    for (const list of ["containers", "initContainers"])
      spec[list] = objectsAt(spec, list).map(({ resources: _resources, resizePolicy: _policy, ...container }) => container);
    return spec;
  };
  return semanticEqual(fixed(object), fixed(current)) ? [] : [fieldForbidden("spec", "only cpu and memory resources are mutable")];
}

function validatePodUpdate(object: JsonObject, current: JsonObject): FieldError[] {
  const fixed = (pod: JsonObject): JsonObject => {
    const { activeDeadlineSeconds: _deadline, tolerations: _tolerations, schedulingGates: _gates, ...spec } = objectAt(pod, "spec") ?? {};
    for (const list of ["containers", "initContainers"])
      spec[list] = objectsAt(spec, list).map(({ image: _image, ...container }) => container);
    return spec;
  };
  if (semanticEqual(fixed(object), fixed(current))) return [];
  return [fieldForbidden("spec", `pod updates may not change fields other than ${PATCHABLE_POD_FIELDS}`)];
}

const COUNTERS = [
  "observedGeneration",
  "replicas",
  "fullyLabeledReplicas",
  "updatedReplicas",
  "readyReplicas",
  "availableReplicas",
  "unavailableReplicas",
  "terminatingReplicas",
  "collisionCount",
];

function validateStatus(definition: ResourceDefinition, object: JsonObject, current: JsonObject): FieldError[] {
  const status = objectAt(object, "status") ?? {};
  if (definition.builtInKind === "Pod") {
    const old = objectAt(current, "status")?.["qosClass"];
    return jsonEqual(status["qosClass"], old) ? [] : [fieldInvalid("status.qosClass", status["qosClass"], "field is immutable")];
  }
  if (!definition.subresources.includes("scale")) return [];
  const count = (field: string): number => numberAt(status, field) ?? 0;
  const errors = COUNTERS.filter((field) => count(field) < 0).map((field) =>
    fieldInvalid(`status.${field}`, count(field), "must be greater than or equal to 0"),
  );
  for (const field of ["fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "availableReplicas"]) {
    if (count(field) > count("replicas"))
      errors.push(fieldInvalid(`status.${field}`, count(field), "cannot be greater than status.replicas"));
  }
  if (count("availableReplicas") > count("readyReplicas"))
    errors.push(fieldInvalid("status.availableReplicas", count("availableReplicas"), "cannot be greater than readyReplicas"));
  if (definition.builtInKind === "Deployment") {
    const old = numberAt(objectAt(current, "status"), "collisionCount");
    if (old !== undefined && count("collisionCount") < old)
      errors.push(fieldInvalid("status.collisionCount", count("collisionCount"), "cannot be decremented"));
  }
  return errors;
}
