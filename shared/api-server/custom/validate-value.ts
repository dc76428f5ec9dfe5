/**
 * Validates values by a CustomResourceDefinition's schema, with the errors of upstream's validator.
 *
 * Source: kube-openapi/pkg/validation/validate/{schema,type,schema_props,values,slice_validator,object_validator}.go,
 * apiextensions-apiserver/pkg/apiserver/validation/{validation,ratcheting}.go.
 */
import { isObject, type Json, type JsonObject, jsonEqual, listAt, numberAt, objectAt, objectsAt, ownAt, textAt } from "@deltaloop/base";
import {
  type FieldError,
  fieldInvalid,
  fieldNotSupported,
  fieldRequired,
  fieldTooLong,
  fieldTooMany,
  fieldTypeInvalid,
} from "../scheme/api-error.ts";
import { formatOf, hasFormat } from "./formats.ts";
import type { Schema } from "./structural.ts";

interface Result {
  readonly errors: readonly FieldError[];
  /** Number of checks made. Of the alternatives of an `anyOf` or `oneOf`, the errors of the one with most checks are reported. */
  readonly checks: number;
}

/** The value of an update and the one before; undefined without one. */
type Before = Json | undefined;

/** @param before the value before an update: what it does not change is not validated again */
export function validateValue(value: Json, schema: Schema, path: string, before?: Json): FieldError[] {
  return [...validate(value, schema, path, before).errors];
}

function validate(value: Json, schema: Schema, path: string, before: Before): Result {
  const result = validateAll(value, schema, path, before);
  const isRatcheted = result.errors.length > 0 && before !== undefined && jsonEqual(value, before);
  return isRatcheted ? { errors: [], checks: result.checks } : result;
}

function validateAll(value: Json, schema: Schema, path: string, before: Before): Result {
  const at = path === "" ? "" : path;
  if (value === null) return merged([validateType(value, schema, at), validateEnum(value, schema, at)]);
  const results = [
    ...(typesOf(schema).length > 0 || formatOf(schema) !== "" ? [validateType(value, schema, at)] : []),
    validateJunctors(value, schema, at),
    ...(typeof value === "string" ? validateText(value, schema, at) : []),
    ...(typeof value === "number" || typeof value === "bigint" ? [validateNumber(Number(value), schema, at)] : []),
    ...(Array.isArray(value) ? [validateList(value, schema, at, before)] : []),
    validateEnum(value, schema, at),
    ...(isObject(value) ? [validateMap(value, schema, at, before)] : []),
  ];
  return merged(results, results.length + 1);
}

function merged(results: readonly Result[], checks = 0): Result {
  const errors = new Map<string, FieldError>();
  for (const result of results) for (const error of result.errors) errors.set(`${error.field}: ${error.message}`, error);
  return { errors: [...errors.values()], checks: results.reduce((sum, result) => sum + result.checks, checks) };
}

const PASSED: Result = { errors: [], checks: 0 };

/** Upstream's validator names a field with the place of the value in the request. */
function failed(path: string, value: Json | undefined, why: string): Result {
  return { errors: [fieldInvalid(fieldOf(path), value ?? "", `${path} in body ${why}`)], checks: 0 };
}

/** An error without a place; upstream reports the root. */
function failedAtRoot(why: string): Result {
  return { errors: [fieldInvalid("<nil>", "", why)], checks: 0 };
}

function fieldOf(path: string): string {
  const field = path.replace(/^\./u, "");
  return field === "" ? "<nil>" : field;
}

function typeOfValue(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (isObject(value)) return "object";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value === "bigint" ? "integer" : typeof value;
}

function validateType(value: Json, schema: Schema, path: string): Result {
  const types = typesOf(schema);
  const type = types.join(",");
  const passed: Result = { errors: [], checks: 1 };
  const actual = typeOfValue(value);
  if (value === null) return types.length > 0 && schema["nullable"] !== true ? wrongType(path, type, actual) : passed;
  const isNumeric = types.includes("number") || types.includes("integer");
  const format = formatOf(schema);
  const isText = typeof value === "string" || Array.isArray(value);
  const isIntForNumber = actual === "integer" && types.includes("number");
  const actualFormat = NUMBER_FORMATS[actual] ?? "";
  if (!isText && format !== "" && !types.includes(actual) && actualFormat !== format && !isIntForNumber)
    return wrongType(path, format, actualFormat);
  if (!isNumeric && format !== "" && isText) return passed;
  return types.includes(actual) || isIntForNumber || types.length === 0 ? passed : wrongType(path, type, actual);
}

/** The formats that upstream infers from Go's types. */
const NUMBER_FORMATS: Readonly<Record<string, string>> = { integer: "int64", number: "float64" };

function typesOf(schema: Schema): readonly string[] {
  if (schema["x-kubernetes-int-or-string"] === true) return INT_OR_STRING;
  const type = textAt(schema, "type") ?? "";
  return type === "" ? [] : [type];
}

const INT_OR_STRING = ["integer", "string"];

function wrongType(path: string, type: string, actual: string): Result {
  return {
    errors: [fieldTypeInvalid(fieldOf(path), actual, `${path} in body must be of type ${type}: ${JSON.stringify(actual)}`)],
    checks: 0,
  };
}

function validateEnum(value: Json, schema: Schema, path: string): Result {
  const values = listAt(schema, "enum");
  if (values.length === 0 || values.some((one) => jsonEqual(one, value))) return PASSED;
  const texts = values.map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
  return { errors: [fieldNotSupported(fieldOf(path), value, texts)], checks: 0 };
}

function validateText(value: string, schema: Schema, path: string): Result[] {
  const results: Result[] = [];
  const length = Array.from(value).length;
  const max = numberAt(schema, "maxLength");
  const min = numberAt(schema, "minLength");
  const pattern = textAt(schema, "pattern") ?? "";
  if (max !== undefined && length > max) results.push({ errors: [fieldTooLong(fieldOf(path), max)], checks: 0 });
  else if (min !== undefined && length < min) results.push(failed(path, value, `should be at least ${min} chars long`));
  else if (pattern !== "" && !regularExpression(pattern).test(value)) results.push(failed(path, value, `should match '${pattern}'`));
  else results.push(PASSED);
  const format = formatOf(schema);
  if (format !== "" && !hasFormat(value, format))
    results.push({
      errors: [fieldTypeInvalid(fieldOf(path), value, `${path} in body must be of type ${format}: ${JSON.stringify(value)}`)],
      checks: 0,
    });
  return results;
}

/** Go's syntax but for what JavaScript lacks: `(?i)` at the start is a flag, `\A` and `\z` are anchors. */
function regularExpression(pattern: string): RegExp {
  const [, flags = "", rest = ""] = /^(?:\(\?([ims]+)\))?(.*)$/su.exec(pattern) ?? [];
  const text = rest.replaceAll("\\A", "^").replaceAll("\\z", "$").replaceAll("(?P<", "(?<");
  try {
    return new RegExp(text, `${flags}u`);
  } catch {
    return new RegExp(text, flags);
  }
}

function validateNumber(value: number, schema: Schema, path: string): Result {
  const results: Result[] = [{ errors: [], checks: 1 }];
  const format = formatOf(schema);
  const isBeyond = format === "int32" && (value > 2 ** 31 - 1 || value < -(2 ** 31));
  if (schema["type"] === "integer" && (isBeyond || !Number.isInteger(value)))
    results.push(
      failedAtRoot(`Checked value must be of type integer ${format === "" ? "(default format)" : `with format ${format}`} in ${path}`),
    );
  // Go compares integers with the integer part of a bound.
  const bound = (field: string): number | undefined => {
    const limit = numberAt(schema, field);
    return limit !== undefined && Number.isInteger(value) ? Math.trunc(limit) : limit;
  };
  const factor = bound("multipleOf");
  if (factor !== undefined && !Number.isInteger(factor < 1 ? (1 / factor) * value : value / factor))
    results.push(failed(path, value, `should be a multiple of ${factor}`));
  const [max, min] = [bound("maximum"), bound("minimum")];
  const [isBelow, isAbove] = [schema["exclusiveMaximum"] === true, schema["exclusiveMinimum"] === true];
  if (min !== undefined && (isAbove ? value <= min : value < min))
    results.push(failed(path, value, `should be greater than ${isAbove ? "" : "or equal to "}${min}`));
  if (max !== undefined && (isBelow ? value >= max : value > max))
    results.push(failed(path, value, `should be less than ${isBelow ? "" : "or equal to "}${max}`));
  return merged(results);
}

function validateList(value: readonly Json[], schema: Schema, path: string, before: Before): Result {
  const items = objectAt(schema, "items");
  const results: Result[] = [{ errors: [], checks: 1 }];
  const beforeOf = correlatedItems(schema, before);
  if (items !== undefined) results.push(...value.map((item, i) => validate(item, items, `${path}[${i}]`, beforeOf(item, i))));
  const [min, max] = [numberAt(schema, "minItems"), numberAt(schema, "maxItems")];
  if (min !== undefined && value.length < min) results.push(failed(path, value.length, `should have at least ${min} items`));
  if (max !== undefined && value.length > max) results.push({ errors: [fieldTooMany(fieldOf(path), value.length, max)], checks: 0 });
  return merged(results);
}

/** The item before an update: by its keys in a list of type map, otherwise there is none. Source: apiserver/pkg/cel/common/equality.go. */
function correlatedItems(schema: Schema, before: Before): (item: Json, index: number) => Before {
  if (!Array.isArray(before)) return () => undefined;
  if (schema["x-kubernetes-list-type"] !== "map") return () => undefined;
  const keys = listAt(schema, "x-kubernetes-list-map-keys").map(String);
  return (item) =>
    isObject(item) ? before.find((one) => isObject(one) && keys.every((key) => jsonEqual(one[key], item[key]))) : undefined;
}

function validateMap(value: JsonObject, schema: Schema, path: string, before: Before): Result {
  const results: Result[] = [];
  const names = Object.keys(value);
  const [min, max] = [numberAt(schema, "minProperties"), numberAt(schema, "maxProperties")];
  if (min !== undefined && names.length < min) results.push(failed(path, names.length, `should have at least ${min} properties`));
  if (max !== undefined && names.length > max) results.push({ errors: [fieldTooMany(fieldOf(path), names.length, max)], checks: 0 });
  const properties = objectAt(schema, "properties");
  const rest = schema["additionalProperties"];
  const beforeOf = (name: string): Before => (isObject(before) && !(path === "" && TYPE_META.has(name)) ? ownAt(before, name) : undefined);
  for (const name of names) {
    if (ownAt(properties, name) !== undefined) continue;
    if (rest === false) results.push(failedAtField(path, name));
    else if (isObject(rest)) results.push(validate(value[name] ?? null, rest, `${path}.${name}`, beforeOf(name)));
  }
  for (const [name, property] of Object.entries(properties ?? {}))
    if (isObject(property) && Object.hasOwn(value, name))
      results.push(validate(value[name] ?? null, property, path === "" ? name : `${path}.${name}`, beforeOf(name)));
  for (const name of listAt(schema, "required"))
    if (!Object.hasOwn(value, String(name))) results.push({ errors: [fieldRequired(fieldOf(`${path}.${String(name)}`))], checks: 0 });
  return merged(results);
}

const TYPE_META = new Set(["kind", "apiVersion"]);

function failedAtField(path: string, name: string): Result {
  return { errors: [fieldInvalid(fieldOf(path), "", `${path}.${name} in body is a forbidden property`)], checks: 0 };
}

function validateJunctors(value: Json, schema: Schema, path: string): Result {
  const results: Result[] = [{ errors: [], checks: 1 }];
  const at = JSON.stringify(path);
  const alternatives = (junctor: string): Result[] => objectsAt(schema, junctor).map((one) => validate(value, one, path, undefined));
  const any = alternatives("anyOf");
  const firstValid = any.find(isValid);
  if (any.length > 0 && firstValid === undefined) results.push(failedAtRoot(`${at} must validate at least one schema (anyOf)`), best(any));
  if (firstValid !== undefined) results.push(firstValid);
  const one = alternatives("oneOf");
  const valid = one.filter(isValid);
  if (one.length > 0 && valid.length !== 1) {
    const found = valid.length === 0 ? "Found none valid" : `Found ${valid.length} valid alternatives`;
    results.push(failedAtRoot(`${at} must validate one and only one schema (oneOf). ${found}`));
    if (valid.length === 0) results.push(best(one));
  } else results.push(...valid);
  const all = alternatives("allOf");
  results.push(...all);
  if (!all.every(isValid))
    results.push(failedAtRoot(`${at} must validate all the schemas (allOf)${all.some(isValid) ? "" : ". None validated"}`));
  const not = objectAt(schema, "not");
  if (not !== undefined && isValid(validate(value, not, path, undefined)))
    results.push(failedAtRoot(`${at} must not validate the schema (not)`));
  return merged(results);
}

function isValid({ errors }: Result): boolean {
  return errors.length === 0;
}

function best(results: readonly Result[]): Result {
  return results.reduce((found, result) => (result.checks > found.checks ? result : found));
}
