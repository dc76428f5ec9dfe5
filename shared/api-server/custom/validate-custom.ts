/**
 * Validates objects of a CustomResourceDefinition.
 *
 * Source: apiextensions-apiserver/pkg/registry/customresource/{strategy,status_strategy,validator}.go.
 */
import { type Json, type JsonObject, objectAt, textAt } from "@deltaloop/base";
import { type FieldError, fieldInvalid } from "../scheme/api-error.ts";
import type { CustomVersion, ResourceDefinition } from "../scheme/resource-definitions.ts";
import { validateEmbedded } from "./embedded.ts";
import { valueAt } from "./json-path.ts";
import { validateListTypes } from "./list-types.ts";
import { hasRules, validateImmutable } from "./rules.ts";
import { validateValue } from "./validate-value.ts";
import { schemaIn } from "./versions.ts";

/** Errors that hide others. Source: strategy.go hasBlockingErr. */
const BLOCKING = new Set(["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"].map((type) => `FieldValue${type}`));
const INT32_MAX = 2 ** 31 - 1;

/** @param current undefined for a create */
export function validateCustom(
  { version }: ResourceDefinition,
  custom: CustomVersion,
  subresource: string,
  object: JsonObject,
  current: JsonObject | undefined,
): FieldError[] {
  const schema = schemaIn(custom, version);
  const errors: FieldError[] = [];
  if (subresource === "status") {
    const status = objectAt(objectAt(schema, "properties"), "status");
    if (object["status"] !== undefined && status !== undefined)
      errors.push(...validateValue(object["status"], status, "", current?.["status"]).map(belowStatus));
  } else {
    errors.push(...validateValue(object, schema, "", current), ...validateCount(object, textAt(custom.scale, "specReplicasPath")));
  }
  errors.push(...validateCount(object, textAt(custom.scale, "statusReplicasPath")));
  if (subresource === "") errors.push(...validateEmbedded(object, schema));
  if (current === undefined || validateListTypes(current, schema).length === 0) errors.push(...validateListTypes(object, schema));
  if (hasRules(schema)) errors.push(...validateRules(errors, object, current, schema));
  return errors;
}

/** The schema of the status is upstream's root. */
function belowStatus(error: FieldError): FieldError {
  return { ...error, field: error.field === "<nil>" ? "status" : `status.${error.field}` };
}

function validateRules(
  errors: readonly FieldError[],
  object: JsonObject,
  current: JsonObject | undefined,
  schema: JsonObject,
): FieldError[] {
  if (errors.some(({ type }) => BLOCKING.has(type))) {
    const why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    return [fieldInvalid("<nil>", null, why)];
  }
  return current === undefined ? [] : validateImmutable(object, current, schema);
}

function validateCount(object: JsonObject, path: string | undefined): FieldError[] {
  if (path === undefined) return [];
  const count: Json | undefined = valueAt(object, path);
  if (typeof count !== "number") return [];
  if (count < 0) return [fieldInvalid(path, count, "should be a non-negative integer")];
  return count > INT32_MAX ? [fieldInvalid(path, count, `should be less than or equal to ${INT32_MAX}`)] : [];
}
