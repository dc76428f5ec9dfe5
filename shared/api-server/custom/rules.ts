/**
 * x-kubernetes-validations. CEL is not evaluated: only the rule that a field never changes is recognised, by its text.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
 */
import { isObject, type Json, type JsonObject, jsonEqual, listAt, objectAt, objectsAt, ownAt, textAt } from "@deltaloop/base";
import { type FieldError, fieldInvalid } from "../scheme/api-error.ts";
import type { Schema } from "./structural.ts";

/** The rule of `.immutable()`. */
const IMMUTABLE_RULE = "self == oldSelf";
/** Places of schemas within a schema that hold rules. */
const CHILDREN = ["items", "additionalProperties", "not"];

function isImmutable(rule: JsonObject): boolean {
  return (textAt(rule, "rule") ?? "").trim() === IMMUTABLE_RULE;
}

/** The number of rules in a schema that are not evaluated. */
function countIgnoredRules(schema: Schema): number {
  const own = objectsAt(schema, "x-kubernetes-validations").filter((rule) => !isImmutable(rule)).length;
  return childrenOf(schema).reduce((sum, child) => sum + countIgnoredRules(child), own);
}

/** One warning for all rules of a CustomResourceDefinition that are not evaluated. */
export function definitionWarnings(crd: JsonObject): string[] {
  const schemas = objectsAt(objectAt(crd, "spec"), "versions").map(
    (version) => objectAt(objectAt(version, "schema"), "openAPIV3Schema") ?? {},
  );
  const ignored = schemas.reduce((sum, schema) => sum + countIgnoredRules(schema), 0);
  if (ignored === 0) return [];
  const rules = ignored === 1 ? "1 rule" : `${ignored} rules`;
  return [`this API server evaluates no CEL: ${rules} in x-kubernetes-validations not enforced`];
}

export function hasRules(schema: Schema): boolean {
  return listAt(schema, "x-kubernetes-validations").length > 0 || childrenOf(schema).some(hasRules);
}

function childrenOf(schema: Schema): JsonObject[] {
  const single = CHILDREN.map((name) => schema[name]).filter(isObject);
  const lists = ["allOf", "anyOf", "oneOf"].flatMap((name) => objectsAt(schema, name));
  return [...single, ...lists, ...Object.values(objectAt(schema, "properties") ?? {}).filter(isObject)];
}

/** Errors of fields that must not change. A field may be set and removed, because the rule is about a value and the one before. */
export function validateImmutable(value: Json, before: Json, schema: Schema, path = ""): FieldError[] {
  const changed = jsonEqual(value, before) ? [] : objectsAt(schema, "x-kubernetes-validations").filter(isImmutable);
  const errors = changed.map((rule) =>
    fieldInvalid(path === "" ? "<nil>" : path, textAt(schema, "type") ?? "", textAt(rule, "message") ?? `failed rule: ${IMMUTABLE_RULE}`),
  );
  if (isObject(value) && isObject(before)) {
    const rest = objectAt(schema, "additionalProperties");
    for (const [name, each] of Object.entries(value)) {
      const property = ownAt(objectAt(schema, "properties"), name);
      const old = ownAt(before, name);
      if (old === undefined) continue;
      if (isObject(property)) errors.push(...validateImmutable(each, old, property, path === "" ? name : `${path}.${name}`));
      else if (rest !== undefined) errors.push(...validateImmutable(each, old, rest, `${path}[${name}]`));
    }
  }
  const items = objectAt(schema, "items");
  if (Array.isArray(value) && Array.isArray(before) && items !== undefined && schema["x-kubernetes-list-type"] === "map") {
    const keys = listAt(schema, "x-kubernetes-list-map-keys").map(String);
    for (const [i, item] of value.entries()) {
      const old = before.find((one) => isObject(one) && isObject(item) && keys.every((key) => jsonEqual(one[key], item[key])));
      if (old !== undefined) errors.push(...validateImmutable(item, old, items, `${path}[${i}]`));
    }
  }
  return errors;
}
