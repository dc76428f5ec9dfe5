/**
 * A pod of a manifest, decoded into the API's types: a value of another type is an error, `null` is absence, and unknown fields are ignored.
 *
 * Source: apimachinery pkg/runtime/serializer/json; api core/v1 types.go.
 */
import { isObject } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";
import { parseQuantity } from "../quantity/quantity.ts";
import { podTemplateLayout } from "./pod-template-layout.ts";
import type { GoType } from "./pod-template-layout.ts";

/** A manifest has values of wrong types; the message lists up to five by path. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";
}

const MISTAKES_SHOWN = 5;
const RANGES: Readonly<Record<string, readonly [min: number, max: number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [-(2 ** 63), 2 ** 63],
};
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
/** Not decoded by type. */
const RAW = "managedFields";

/** Metadata and spec as Go's decoder reads them; `pod` itself is not changed. @throws {DecodeError} */
export function decodePod(pod: JsonObject): JsonObject {
  const mistakes: string[] = [];
  const decoded: JsonObject = { ...pod };
  for (const key of ["metadata", "spec"]) {
    const type = podTemplateLayout().byKey.get(key);
    if (type === undefined || pod[key] === undefined) continue;
    const value = decode(pod[key], type, key, mistakes);
    if (value === undefined) delete decoded[key];
    else decoded[key] = value;
  }
  if (mistakes.length === 0) return decoded;
  const more = mistakes.length > MISTAKES_SHOWN ? [`${mistakes.length - MISTAKES_SHOWN} more`] : [];
  throw new DecodeError([...mistakes.slice(0, MISTAKES_SHOWN), ...more].join("; "));
}

/** Returns undefined for an absent field. */
function decode(value: Json, type: GoType, path: string, mistakes: string[]): Json | undefined {
  if (value === null) return undefined;
  switch (type.kind) {
    case "pointer":
      return decode(value, type.element, path, mistakes);
    case "struct":
      return isObject(value) ? decodeStruct(value, type, path, mistakes) : mistaken("an object", value, path, mistakes);
    case "map":
      if (!isObject(value)) return mistaken("an object", value, path, mistakes);
      return Object.fromEntries(
        Object.entries(value).map(([key, each]) => [key, decode(each, type.element, `${path}[${key}]`, mistakes) ?? zero(type.element)]),
      );
    case "list":
      if (!Array.isArray(value)) return mistaken("a list", value, path, mistakes);
      return value.map((each, i) => decode(each, type.element, `${path}[${i}]`, mistakes) ?? zero(type.element));
    default:
      return wanted(type, value) === undefined ? value : mistaken(wanted(type, value) ?? "", value, path, mistakes);
  }
}

function decodeStruct(value: JsonObject, type: GoType & { kind: "struct" }, path: string, mistakes: string[]): JsonObject {
  const decoded: JsonObject = {};
  for (const [key, each] of Object.entries(value)) {
    const field = key === RAW ? undefined : type.struct.byKey.get(key);
    const made = field === undefined ? each : decode(each, field, `${path}.${key}`, mistakes);
    if (made !== undefined) decoded[key] = made;
  }
  return decoded;
}

/** The expected type, if `value` does not match it. */
function wanted(type: GoType, value: Json): string | undefined {
  switch (type.kind) {
    case "string":
      return typeof value === "string" ? undefined : "a string";
    case "bool":
      return typeof value === "boolean" ? undefined : "true or false";
    case "int":
      return isInteger(value, type.text) ? undefined : `a whole number (${type.text})`;
    case "quantity":
      return (typeof value === "string" || typeof value === "number") && parseQuantity(String(value)) !== undefined
        ? undefined
        : "a quantity such as 500m or 1Gi";
    case "intOrString":
      return typeof value === "string" || isInteger(value, "int32") ? undefined : "a whole number or a string";
    case "time":
      return typeof value === "string" && TIME.test(value) ? undefined : "a time such as 2026-01-02T03:04:05Z";
    default:
      return undefined;
  }
}

function isInteger(value: Json, size: string): boolean {
  const [min, max] = RANGES[size] ?? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  return Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
}

/** The message quotes only the type of the value, which may be a secret. */
function mistaken(needed: string, value: Json, path: string, mistakes: string[]): undefined {
  const got = Array.isArray(value) ? "a list" : isObject(value) ? "an object" : `a ${typeof value}`;
  mistakes.push(
    typeof value === "string" && needed.startsWith("a quantity") ? `${path} is not ${needed}` : `${path} is ${got}, not ${needed}`,
  );
  return undefined;
}

/** The zero value that replaces `null` in a list or map. */
function zero(type: GoType): Json {
  switch (type.kind) {
    case "string":
      return "";
    case "bool":
      return false;
    case "struct":
      return {};
    case "list":
    case "map":
    case "pointer":
    case "time":
      return null;
    default:
      return type.kind === "quantity" ? "0" : 0;
  }
}
