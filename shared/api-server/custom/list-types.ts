/**
 * Lists of type `set` and `map` hold no item twice.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go.
 */
import { isObject, type Json, type JsonObject, listAt, objectAt, ownAt } from "@deltaloop/base";
import { type FieldError, fieldDuplicate, fieldInvalid } from "../scheme/api-error.ts";
import type { Schema } from "./structural.ts";

export function validateListTypes(value: Json, schema: Schema | undefined, path = ""): FieldError[] {
  if (schema === undefined) return [];
  if (Array.isArray(value)) {
    const items = objectAt(schema, "items");
    return [...validateList(value, schema, path), ...value.flatMap((item, i) => validateListTypes(item, items, `${path}[${i}]`))];
  }
  if (!isObject(value)) return [];
  const properties = objectAt(schema, "properties");
  const rest = objectAt(schema, "additionalProperties");
  return Object.entries(value).flatMap(([name, each]) => {
    const property = ownAt(properties, name);
    if (isObject(property)) return validateListTypes(each, property, path === "" ? name : `${path}.${name}`);
    return validateListTypes(each, rest, `${path}[${name}]`);
  });
}

function validateList(list: readonly Json[], schema: Schema, path: string): FieldError[] {
  switch (schema["x-kubernetes-list-type"]) {
    case "set":
      return duplicates(list).map((i) => fieldDuplicate(`${path}[${i}]`, list[i] ?? null));
    case "map":
      return validateMap(list, listAt(schema, "x-kubernetes-list-map-keys").map(String), path);
    default:
      return [];
  }
}

function validateMap(list: readonly Json[], keys: readonly string[], path: string): FieldError[] {
  const odd = list.findIndex((item) => item !== null && !isObject(item));
  if (odd !== -1) return [fieldInvalid(`${path}[${odd}]`, list[odd], "must be an object for an array of list-type map")];
  const identities = list.map((item): JsonObject => {
    const known = keys.flatMap((key) => {
      const value = isObject(item) ? ownAt(item, key) : undefined;
      return value === undefined ? [] : [[key, value] as const];
    });
    return Object.fromEntries(known);
  });
  return duplicates(identities).map((i) => fieldDuplicate(`${path}[${i}]`, identities[i] ?? {}));
}

/** Returns the index of the second occurrence of each repeated item. */
function duplicates(list: readonly Json[]): number[] {
  const seen = new Map<string, number>();
  return list.flatMap((item, i) => {
    const key = canonicalText(item);
    const times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    return times === 2 ? [i] : [];
  });
}

function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonicalText(each)}`).join(",")}}`;
}
