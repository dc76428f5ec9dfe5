/**
 * Objects of a CustomResourceDefinition by its schema: unknown fields are dropped, defaults are set. All in place.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go, defaulting/{algorithm,prunenulls}.go.
 */
import { clone, isObject, type Json, type JsonObject, objectAt, ownAt, setOwn } from "@deltaloop/base";

/** A structural schema, as `openAPIV3Schema` has it. */
export type Schema = JsonObject;

const META_FIELDS = new Set(["apiVersion", "kind", "metadata"]);

/** Prunes an object of that kind, drops its nulls and sets defaults: what requests decode to, and what is stored. @returns the paths of the removed fields, sorted: `spec.ports[0].nam` */
export function admitCustom(object: JsonObject, schema: Schema): readonly string[] {
  const removed: string[] = [];
  prune(object, { ...schema, "x-kubernetes-embedded-resource": true }, { path: "", removed });
  dropNulls(object, schema);
  setCustomDefaults(object, schema);
  return removed.toSorted();
}

/** A copy without unknown fields. */
export function pruned(value: Json, schema: Schema): Json {
  const copy = clone(value);
  prune(copy, schema, { path: "", removed: [] });
  return copy;
}

/** The current position of pruning, and the removed fields. */
interface Pruning {
  readonly path: string;
  readonly removed: string[];
}

function below({ path, removed }: Pruning, key: string | number): Pruning {
  const step = typeof key === "number" ? `[${key}]` : path === "" ? key : `.${key}`;
  return { path: path + step, removed };
}

function keepsUnknown(schema: Schema | undefined): boolean {
  return schema?.["x-kubernetes-preserve-unknown-fields"] === true;
}

function prune(value: Json, schema: Schema | undefined, at: Pruning): void {
  const keeps = keepsUnknown(schema);
  if (Array.isArray(value)) {
    const items = objectAt(schema, "items");
    // Below a list that keeps unknown fields, they are kept too.
    for (const [i, item] of value.entries())
      if (keeps) pruneKnown(item, items, below(at, i));
      else prune(item, items, below(at, i));
  } else if (isObject(value)) {
    if (keeps) pruneKnown(value, schema, at);
    else pruneMap(value, schema, at);
  }
}

function pruneMap(value: JsonObject, schema: Schema | undefined, at: Pruning): void {
  for (const key of Object.keys(value)) {
    if (schema?.["x-kubernetes-embedded-resource"] === true && META_FIELDS.has(key)) continue;
    const child = schemaOf(schema, key);
    if (child === "unknown") {
      delete value[key];
      at.removed.push(below(at, key).path);
    } else prune(value[key] ?? null, child, below(at, key));
  }
}

/** Removes unknown fields from values that have a schema. Values without a schema remain unchanged. */
function pruneKnown(value: Json, schema: Schema | undefined, at: Pruning): void {
  if (schema === undefined) return;
  if (Array.isArray(value)) for (const [i, item] of value.entries()) pruneKnown(item, objectAt(schema, "items"), below(at, i));
  if (!isObject(value)) return;
  for (const key of Object.keys(value)) {
    if (schema["x-kubernetes-embedded-resource"] === true && META_FIELDS.has(key)) continue;
    const child = schemaOf(schema, key);
    if (child !== "unknown") prune(value[key] ?? null, child, below(at, key));
  }
}

/** The schema of a field; undefined for one that may be there without a schema. */
function schemaOf(schema: Schema | undefined, key: string): Schema | undefined | "unknown" {
  const property = ownAt(objectAt(schema, "properties"), key);
  if (isObject(property)) return property;
  if (schema?.["additionalProperties"] === undefined) return "unknown";
  return objectAt(schema, "additionalProperties");
}

/** Null that is neither allowed nor has a default counts as absent. */
function dropNulls(value: Json, schema: Schema | undefined): void {
  if (Array.isArray(value)) for (const item of value) dropNulls(item, objectAt(schema, "items"));
  if (!isObject(value)) return;
  for (const [key, each] of Object.entries(value)) {
    const child = schemaOf(schema, key);
    const known = child === "unknown" ? undefined : child;
    if (each === null && known !== undefined && known["nullable"] !== true && (known["default"] ?? null) === null) delete value[key];
    else dropNulls(each, known);
  }
}

/** An apply sets defaults alone: nulls and unknown fields of its result are validated before they are dropped. */
export function setCustomDefaults(value: Json, schema: Schema | undefined): void {
  if (schema === undefined) return;
  if (Array.isArray(value)) {
    const items = objectAt(schema, "items");
    for (const [i, item] of value.entries()) {
      if (isForbiddenNull(item, items)) value[i] = clone(items?.["default"] ?? null);
      setCustomDefaults(value[i] ?? null, items);
    }
  }
  if (!isObject(value)) return;
  for (const [key, property] of Object.entries(objectAt(schema, "properties") ?? {})) {
    const preset = isObject(property) ? (property["default"] ?? null) : null;
    if (preset !== null && (!Object.hasOwn(value, key) || (isObject(property) && isForbiddenNull(value[key], property))))
      setOwn(value, key, clone(preset));
  }
  const rest = objectAt(schema, "additionalProperties");
  for (const key of Object.keys(value)) {
    const property = ownAt(objectAt(schema, "properties"), key);
    if (!isObject(property) && isForbiddenNull(value[key], rest)) value[key] = clone(rest?.["default"] ?? null);
    setCustomDefaults(value[key] ?? null, isObject(property) ? property : rest);
  }
}

function isForbiddenNull(value: Json | undefined, schema: Schema | undefined): boolean {
  return value === null && schema !== undefined && schema["nullable"] !== true;
}
