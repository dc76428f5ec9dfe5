/** The path elements of a list's entries. Source: github.com/kubernetes-sigs/structured-merge-diff typed/helpers.go. */
import { isObject, type Json, type JsonObject } from "@deltaloop/base";
import { keyElement, type PathElement, valueElement } from "./path-element.ts";
import type { ListType, TypeRef, TypeSchema } from "./type-schema.ts";

/** An entry's element, or why it has none. */
export function itemElement(schema: TypeSchema, list: ListType, item: Json): PathElement | string {
  if (list.keys.length > 0) return keyedElement(schema, list, item);
  if (Array.isArray(item)) return "not supported: associative list with lists as elements";
  if (item === null) return "associative list without keys has an element that's an explicit null";
  if (isObject(item)) return "associative list without keys has an element that's a map type";
  return valueElement(item);
}

function keyedElement(schema: TypeSchema, { keys, element }: ListType, item: Json): PathElement | string {
  if (item === null) return "associative list with keys may not have a null element";
  if (!isObject(item)) return "associative list with keys may not have non-map elements";
  const found = keys.flatMap((name): readonly (readonly [string, Json])[] => {
    const value = Object.hasOwn(item, name) ? item[name] : keyDefault(schema, element, name);
    return value === undefined ? [] : [[name, value]];
  });
  if (found.length === 0)
    return `associative list with keys has an element that omits all key fields [${keys.map((key) => `"${key}"`).join(" ")}] (and doesn't have default values for any key fields)`;
  return keyElement(found);
}

/** Undefined if the key has no default; the item is then identified by its other keys. */
function keyDefault(schema: TypeSchema, element: TypeRef, name: string): Json | undefined {
  return schema.resolve(element).map?.fields.get(name)?.default;
}

/** The entries by element; those without one are left out. A path element may repeat. */
export function indexed(schema: TypeSchema, list: ListType, items: readonly Json[] | undefined): readonly (readonly [PathElement, Json])[] {
  return (items ?? []).flatMap((item): readonly (readonly [PathElement, Json])[] => {
    const element = itemElement(schema, list, item);
    return typeof element === "string" ? [] : [[element, item]];
  });
}

export function asList(value: Json | undefined): readonly Json[] | undefined {
  return Array.isArray(value) ? value : undefined;
}

export function asMap(value: Json | undefined): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}
