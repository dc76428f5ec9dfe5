import { exactText, parseExact } from "./exact-json.ts";

/**
 * Objects of the in-memory API server are plain JSON: it stores what it receives and reads only the fields that it has rules for.
 * Stored objects are frozen; clone an object before you change it. Only templates hold bigints (exact-json.ts).
 */
export type Json = null | boolean | number | bigint | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads an own property whose key is external input and may be a member of Object.prototype ("constructor"). */
export function ownAt<T>(map: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}

/** Sets an own property whose key is external input and may be `__proto__`. */
export function setOwn<T>(map: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
  else map[key] = value;
}

/** The object under `key`, or `undefined` if the value is not an object. */
export function objectAt(parent: JsonObject | undefined, key: string): JsonObject | undefined {
  const value = parent?.[key];
  return isObject(value) ? value : undefined;
}

/** The object under `key`, created if missing. */
export function ensureObject(parent: JsonObject, key: string): JsonObject {
  const value = parent[key];
  if (isObject(value)) return value;
  const created: JsonObject = {};
  parent[key] = created;
  return created;
}

export function textAt(parent: JsonObject | undefined, key: string): string | undefined {
  const value = parent?.[key];
  return typeof value === "string" ? value : undefined;
}

export function numberAt(parent: JsonObject | undefined, key: string): number | undefined {
  const value = parent?.[key];
  return typeof value === "number" ? value : undefined;
}

/** The list under `key`, or an empty list. */
export function listAt(parent: JsonObject | undefined, key: string): readonly Json[] {
  const value = parent?.[key];
  return Array.isArray(value) ? value : [];
}

/** The objects of the list under `key`; other elements are left out. */
export function objectsAt(parent: JsonObject | undefined, key: string): JsonObject[] {
  return listAt(parent, key).filter(isObject);
}

/** `object.metadata`, or `{}`. */
export function metaOf(object: JsonObject): JsonObject {
  return objectAt(object, "metadata") ?? {};
}

export function nameOf(object: JsonObject): string {
  return textAt(metaOf(object), "name") ?? "";
}

export function namespaceOf(object: JsonObject): string {
  return textAt(metaOf(object), "namespace") ?? "";
}

/** A map of strings (labels, annotations, a plain selector); other values are left out. */
export function stringMap(value: Json | undefined): Record<string, string> {
  const map: Record<string, string> = {};
  if (isObject(value)) for (const [key, entry] of Object.entries(value)) if (typeof entry === "string") setOwn(map, key, entry);
  return map;
}

export function clone<T extends Json>(value: T): T {
  if (Array.isArray(value)) {
    // Each element keeps its type, which the compiler cannot verify.
    return value.map((entry) => clone(entry)) as T;
  }
  if (!isObject(value)) return value;
  const object: JsonObject = value;
  const copy: JsonObject = {};
  for (const key in object) {
    const field = object[key] ?? null;
    setOwn(copy, key, typeof field === "object" && field !== null ? clone(field) : field);
  }
  // The copy has the same keys and cloned values, which the compiler cannot verify.
  return copy as T;
}

/** The copy that `parseExact(exactText(value))` makes, at a quarter of its cost. Numbers and bigints are never converted. */
export function jsonCopy(value: unknown): unknown {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((entry) => (entry === undefined ? null : jsonCopy(entry)));
  if ("toJSON" in value) return parseExact(exactText(value));
  const copy: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) if (field !== undefined) setOwn(copy, key, jsonCopy(field));
  return copy;
}

/** Equality like Go's `Semantic.DeepEqual` on decoded objects: missing, null, `{}` and `[]` are equal. */
export function semanticEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (isEmpty(a) && isEmpty(b)) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((entry, i) => semanticEqual(entry, b[i]));
  if (isObject(a) && isObject(b)) {
    for (const key in a) if (!semanticEqual(a[key], ownAt(b, key))) return false;
    for (const key in b) if (!Object.hasOwn(a, key) && !isEmpty(b[key])) return false;
    return true;
  }
  return false;
}

function isEmpty(value: Json | undefined): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (!isObject(value)) return false;
  for (const _ in value) return false;
  return true;
}

/** The order of UTF-16 code units, which is that of bytes for ASCII. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Exact equality, which decides whether a write changes anything; `semanticEqual` decides about generations. */
export function jsonEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((entry, i) => jsonEqual(entry, b[i]));
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && jsonEqual(a[key], b[key]));
  }
  return false;
}

const texts = new WeakMap<object, string>();

/** The JSON text of a frozen object, computed once for all lists and watches. */
export function frozenText(object: JsonObject): string {
  let text = texts.get(object);
  if (text === undefined) {
    text = exactText(object);
    if (Object.isFrozen(object)) texts.set(object, text);
  }
  return text;
}
