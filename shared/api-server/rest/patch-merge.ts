/** JSON merge patch (RFC 7396): `null` removes, objects merge, everything else replaces. */
import { clone, isObject, ownAt, setOwn, type Json, type JsonObject } from "@deltaloop/base";

export function applyMergePatch(object: JsonObject, patch: JsonObject): JsonObject {
  const merged: JsonObject = { ...object };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else setOwn(merged, key, mergeValue(ownAt(merged, key), value));
  }
  return merged;
}

function mergeValue(old: Json | undefined, value: Json): Json {
  return isObject(value) ? applyMergePatch(isObject(old) ? old : {}, value) : clone(value);
}
