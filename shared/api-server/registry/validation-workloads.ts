/**
 * Specs of Deployment, ReplicaSet and ReplicationController.
 *
 * Source: kubernetes/pkg/apis/apps/validation/validation.go (ValidateDeploymentSpec, ValidateReplicaSetSpec),
 * pkg/apis/core/validation/validation.go (ValidateReplicationControllerSpec).
 */
import { type FieldError, fieldForbidden, fieldInvalid, fieldNotSupported, fieldRequired } from "../scheme/api-error.ts";
import { type Json, type JsonObject, listAt, numberAt, objectAt, objectsAt, ownAt, stringMap, textAt } from "@deltaloop/base";
import { validatePodSpec } from "./validation-pod.ts";
import { validateAnnotations, validateLabels } from "../scheme/validation-names.ts";

export function validateDeploymentSpec(spec: JsonObject): FieldError[] {
  const minReady = numberAt(spec, "minReadySeconds") ?? 0;
  const deadline = numberAt(spec, "progressDeadlineSeconds");
  return [
    ...nonNegative(spec, ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]),
    ...validateSelectorAndTemplate(spec),
    ...validateStrategy(objectAt(spec, "strategy") ?? {}),
    ...(deadline !== undefined && deadline <= minReady
      ? [fieldInvalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")]
      : []),
  ];
}

export function validateReplicaSetSpec(spec: JsonObject): FieldError[] {
  return [...nonNegative(spec, ["replicas", "minReadySeconds"]), ...validateSelectorAndTemplate(spec)];
}

export function validateReplicationControllerSpec(spec: JsonObject): FieldError[] {
  const selector = stringMap(spec["selector"]);
  const errors = nonNegative(spec, ["replicas", "minReadySeconds"]);
  if (Object.keys(selector).length === 0) errors.push(fieldRequired("spec.selector"));
  const template = objectAt(spec, "template");
  if (template === undefined) return [...errors, fieldRequired("spec.template")];
  const labels = stringMap(objectAt(template, "metadata")?.["labels"]);
  if (Object.entries(selector).some(([key, value]) => labels[key] !== value)) errors.push(noMatch(labels));
  return [...errors, ...validateTemplate(template, "ReplicationController")];
}

function validateSelectorAndTemplate(spec: JsonObject): FieldError[] {
  const selector = objectAt(spec, "selector");
  const template = objectAt(spec, "template") ?? {};
  const labels = stringMap(objectAt(template, "metadata")?.["labels"]);
  const errors: FieldError[] = [];
  if (selector === undefined) errors.push(fieldRequired("spec.selector"));
  const terms = Object.keys(objectAt(selector, "matchLabels") ?? {}).length + listAt(selector, "matchExpressions").length;
  if (selector !== undefined && terms === 0)
    errors.push(fieldInvalid("spec.selector", selector, "empty selector is invalid for deployment"));
  // An absent selector matches nothing; an empty one matches everything.
  if (selector === undefined || (terms > 0 && !selects(selector, labels))) errors.push(noMatch(labels));
  return [...errors, ...validateTemplate(template, "ReplicaSet")];
}

function noMatch(labels: Readonly<Record<string, string>>): FieldError {
  return fieldInvalid(
    "spec.template.metadata.labels",
    Object.keys(labels).length === 0 ? null : { ...labels },
    "`selector` does not match template `labels`",
  );
}

function validateTemplate(template: JsonObject, kind: string): FieldError[] {
  const meta = objectAt(template, "metadata");
  const spec = objectAt(template, "spec") ?? {};
  const errors = [
    ...validateLabels(stringMap(meta?.["labels"]), "spec.template.labels"),
    ...validateAnnotations(stringMap(meta?.["annotations"]), "spec.template.annotations"),
    ...validatePodSpec(spec, "spec.template.spec"),
  ];
  const restartPolicy = textAt(spec, "restartPolicy");
  if (restartPolicy !== "Always") errors.push(fieldNotSupported("spec.template.spec.restartPolicy", restartPolicy, ["Always"]));
  if (spec["activeDeadlineSeconds"] !== undefined) {
    errors.push(fieldForbidden("spec.template.spec.activeDeadlineSeconds", `activeDeadlineSeconds in ${kind} is not Supported`));
  }
  return errors;
}

function validateStrategy(strategy: JsonObject): FieldError[] {
  const rollingUpdate = objectAt(strategy, "rollingUpdate");
  switch (strategy["type"]) {
    case "Recreate":
      return rollingUpdate === undefined
        ? []
        : [fieldForbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")];
    case "RollingUpdate":
      return validateRollingUpdate(rollingUpdate ?? {});
    default:
      return [fieldNotSupported("spec.strategy", strategy, ["Recreate", "RollingUpdate"])];
  }
}

function validateRollingUpdate(rollingUpdate: JsonObject): FieldError[] {
  const { maxUnavailable, maxSurge } = rollingUpdate;
  const errors = Object.entries({ maxUnavailable, maxSurge }).flatMap(([field, value]) =>
    intOrPercent(`spec.strategy.rollingUpdate.${field}`, value),
  );
  if (amount(maxUnavailable) === 0 && amount(maxSurge) === 0) {
    errors.push(fieldInvalid("spec.strategy.rollingUpdate.maxUnavailable", maxUnavailable, "may not be 0 when `maxSurge` is 0"));
  }
  if (typeof maxUnavailable === "string" && amount(maxUnavailable) > 100) {
    errors.push(fieldInvalid("spec.strategy.rollingUpdate.maxUnavailable", maxUnavailable, "must not be greater than 100%"));
  }
  return errors;
}

const PERCENT_TEXT =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

function intOrPercent(field: string, value: Json | undefined): FieldError[] {
  if (typeof value === "string") return /^\d+%$/u.test(value) ? [] : [fieldInvalid(field, value, PERCENT_TEXT)];
  return typeof value === "number" && value < 0 ? [fieldInvalid(field, value, "must be greater than or equal to 0")] : [];
}

function amount(value: Json | undefined): number {
  return typeof value === "number" ? value : Number.parseInt(String(value ?? "0"), 10);
}

function nonNegative(spec: JsonObject, fields: readonly string[]): FieldError[] {
  return fields.flatMap((field) => {
    const value = numberAt(spec, field) ?? 0;
    return value < 0 ? [fieldInvalid(`spec.${field}`, value, "must be greater than or equal to 0")] : [];
  });
}

/** Whether a LabelSelector matches the labels. Source: apimachinery/pkg/apis/meta/v1/helpers.go. */
function selects(selector: JsonObject, labels: Readonly<Record<string, string>>): boolean {
  const byLabels = Object.entries(stringMap(selector["matchLabels"])).every(([key, value]) => labels[key] === value);
  return byLabels && objectsAt(selector, "matchExpressions").every((requirement) => meets(requirement, labels));
}

function meets(requirement: JsonObject, labels: Readonly<Record<string, string>>): boolean {
  const value = ownAt(labels, textAt(requirement, "key") ?? "");
  const values = listAt(requirement, "values");
  switch (requirement["operator"]) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}
