/**
 * Strategic merge patch: lists of objects merge by a key instead of being replaced. `kubectl apply`, `set image`, `label`
 * and upstream's controllers send it.
 *
 * Directives: `$patch: replace|delete`, `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.
 *
 * Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go (mergeMap, mergeSlice, normalizeElementOrder).
 */
import { badRequest } from "../scheme/api-error.ts";
import { clone, isObject, type Json, type JsonObject, jsonEqual, ownAt, setOwn } from "@deltaloop/base";

const SET_ELEMENT_ORDER = "$setElementOrder/";
const DELETE_FROM_LIST = "$deleteFromPrimitiveList/";

/** Merge keys of lists of objects by field name; a name has the same key in all kinds, with the exceptions below. */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  addresses: "type",
  allocatedResourcesStatus: "name",
  conditions: "type",
  containers: "name",
  env: "name",
  ephemeralContainers: "name",
  hostAliases: "ip",
  hostIPs: "ip",
  imagePullSecrets: "name",
  initContainers: "name",
  ownerReferences: "uid",
  podIPs: "ip",
  ports: "containerPort",
  resourceClaimStatuses: "name",
  resourceClaims: "name",
  schedulingGates: "name",
  secrets: "name",
  topologySpreadConstraints: "topologyKey",
  volumeDevices: "devicePath",
  volumeMounts: "mountPath",
  volumes: "name",
};

/** Merged lists of plain values, by path. A Namespace's spec.finalizers, for example, is replaced. */
const MERGED_PRIMITIVES = new Set(["metadata.finalizers", "spec.podCIDRs"]);

function mergeKeyOf(kind: string, field: string): string | undefined {
  return kind === "Service" && field === "ports" ? "port" : ownAt(MERGE_KEYS, field);
}

/** @throws {ApiError} 400 for a malformed patch. */
export function applyStrategicMergePatch(kind: string, object: JsonObject, patch: JsonObject): JsonObject {
  return mergeMap(kind, "", clone(object), clone(patch));
}

/** Takes ownership of both arguments. */
function mergeMap(kind: string, path: string, original: JsonObject, patch: JsonObject): JsonObject {
  const directive = patch["$patch"];
  if (directive !== undefined) {
    delete patch["$patch"];
    if (directive === "replace") return patch;
    if (directive === "delete") return {};
    throw badRequest(`unknown patch type: ${JSON.stringify(directive)}`);
  }
  retainKeys(original, patch);

  const orders = new Map<string, readonly Json[]>();
  for (const [key, value] of Object.entries(patch)) {
    if (!key.startsWith(SET_ELEMENT_ORDER)) continue;
    if (Array.isArray(value)) orders.set(key.slice(SET_ELEMENT_ORDER.length), value);
    delete patch[key];
  }
  for (const [field, order] of orders) {
    const merged = mergeList(kind, join(path, field), ownAt(original, field), ownAt(patch, field) ?? undefined);
    delete patch[field];
    const old = ownAt(original, field);
    if (merged !== undefined) setOwn(original, field, inOrder(merged, order, Array.isArray(old) ? old : [], mergeKeyOf(kind, field)));
  }

  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith(DELETE_FROM_LIST)) deleteFromList(original, key.slice(DELETE_FROM_LIST.length), value);
    else mergeField(kind, path, original, key, value);
  }
  return original;
}

function mergeField(kind: string, path: string, original: JsonObject, key: string, value: Json): void {
  const old = ownAt(original, key);
  if (value === null) delete original[key];
  else if (isObject(value)) setOwn(original, key, isObject(old) ? mergeMap(kind, join(path, key), old, value) : withoutDirectives(value));
  else if (Array.isArray(value)) {
    const merged = mergeList(kind, join(path, key), old, value) ?? [];
    const isMerged = Array.isArray(old) && isMergedList(kind, join(path, key));
    setOwn(original, key, isMerged ? inOrder(merged, value, old, mergeKeyOf(kind, key)) : merged);
  } else setOwn(original, key, value);
}

function join(path: string, field: string): string {
  return path === "" ? field : `${path}.${field}`;
}

function isMergedList(kind: string, path: string): boolean {
  return MERGED_PRIMITIVES.has(path) || mergeKeyOf(kind, path.slice(path.lastIndexOf(".") + 1)) !== undefined;
}

function retainKeys(original: JsonObject, patch: JsonObject): void {
  const kept = patch["$retainKeys"];
  if (kept === undefined) return;
  delete patch["$retainKeys"];
  if (!Array.isArray(kept)) throw badRequest("invalid patch format of retainKeys");
  for (const key of Object.keys(original)) if (!kept.includes(key)) delete original[key];
}

function mergeList(kind: string, path: string, old: Json | undefined, patch: Json | undefined): Json[] | undefined {
  const original = Array.isArray(old) ? old : undefined;
  if (!Array.isArray(patch)) return original;
  if (original === undefined) return patch.filter((entry) => !isDeletion(entry)).map(withoutDirectives);
  if (!isMergedList(kind, path)) return patch.map(withoutDirectives);
  const key = mergeKeyOf(kind, path.slice(path.lastIndexOf(".") + 1));
  if (key === undefined) return [...new Set([...original, ...patch])];
  return mergeObjects(kind, path, key, original, patch);
}

function mergeObjects(kind: string, path: string, key: string, original: readonly Json[], patch: readonly Json[]): Json[] {
  const plain = patch.filter((entry) => !isObject(entry) || entry["$patch"] === undefined);
  if (patch.some((entry) => isObject(entry) && entry["$patch"] === "replace")) return plain.map(withoutDirectives);
  const deleted = patch.filter(isDeletion).map((entry) => keyValue(entry, key));
  const merged = original.filter((entry) => !isObject(entry) || !deleted.includes(entry[key] ?? null));
  for (const entry of plain) {
    const value = keyValue(entry, key);
    const at = merged.findIndex((one) => isObject(one) && one[key] === value);
    const old = merged[at];
    if (isObject(old) && isObject(entry)) merged[at] = mergeMap(kind, path, old, entry);
    else merged.push(withoutDirectives(entry));
  }
  return merged;
}

function isDeletion(entry: Json): boolean {
  return isObject(entry) && entry["$patch"] === "delete";
}

function keyValue(entry: Json, key: string): Json {
  const value = isObject(entry) ? entry[key] : undefined;
  if (value === undefined) throw badRequest(`map: ${JSON.stringify(entry)} does not contain declared merge key: ${key}`);
  return value;
}

/** The patch's values without directives, where the object has none. */
function withoutDirectives(value: Json): Json {
  if (Array.isArray(value)) return value.filter((entry) => !isDeletion(entry)).map(withoutDirectives);
  if (!isObject(value)) return value;
  const plain: JsonObject = {};
  for (const [key, entry] of Object.entries(value)) {
    if (key === "$patch" || key === "$retainKeys" || key.startsWith(SET_ELEMENT_ORDER) || key.startsWith(DELETE_FROM_LIST)) continue;
    if (entry !== null) setOwn(plain, key, withoutDirectives(entry));
  }
  return plain;
}

function deleteFromList(original: JsonObject, field: string, values: Json): void {
  const list = ownAt(original, field);
  if (Array.isArray(list) && Array.isArray(values))
    setOwn(
      original,
      field,
      list.filter((entry) => !values.some((value) => jsonEqual(value, entry))),
    );
}

/**
 * Puts the entries named in `order` in that order, the others between them at their previous positions.
 *
 *     merged [a b c d], order [d a], before [a b c d] → [b c d a]
 */
function inOrder(merged: readonly Json[], order: readonly Json[], before: readonly Json[], key: string | undefined): Json[] {
  const rank = (list: readonly Json[], entry: Json): number =>
    list.findIndex((one) => (key === undefined || !isObject(one) || !isObject(entry) ? jsonEqual(one, entry) : one[key] === entry[key]));
  const patched = merged.filter((entry) => rank(order, entry) >= 0).sort((a, b) => rank(order, a) - rank(order, b));
  const others = merged.filter((entry) => rank(order, entry) < 0);
  const result: Json[] = [];
  let i = 0;
  for (const entry of patched) {
    // An entry that the patch does not name goes before the first patched one that followed it.
    for (let other = others[i]; other !== undefined && isBefore(rank(before, other), rank(before, entry)); other = others[i]) {
      result.push(other);
      i += 1;
    }
    result.push(entry);
  }
  return [...result, ...others.slice(i)];
}

function isBefore(a: number, b: number): boolean {
  return a >= 0 && b >= 0 && a < b;
}
