/**
 * A CustomResourceDefinition as it is decoded, defaulted and stored.
 *
 * Source: apiextensions-apiserver/pkg/apis/apiextensions/v1/{defaults,types,types_jsonschema}.go,
 * pkg/registry/customresourcedefinition/{strategy,etcd}.go.
 */
import {
  clone,
  ensureObject,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  metaOf,
  objectAt,
  objectsAt,
  setOwn,
  textAt,
} from "@deltaloop/base";
import { setCondition } from "./conditions.ts";
import type { Schema } from "./structural.ts";

export const CUSTOM_RESOURCE_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io";
export const CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io";

/** The schemas apart from the rest, whose types are in a table. */
export function withoutSchemas(crd: JsonObject): { readonly rest: JsonObject; readonly restore: (decoded: JsonObject) => void } {
  const rest = clone(crd);
  const schemas = objectsAt(objectAt(rest, "spec"), "versions").map((version) => {
    const holder = objectAt(version, "schema");
    const schema = holder?.["openAPIV3Schema"];
    if (holder !== undefined) delete holder["openAPIV3Schema"];
    return schema;
  });
  return {
    rest,
    restore: (decoded) => {
      for (const [i, version] of objectsAt(objectAt(decoded, "spec"), "versions").entries()) {
        const schema = schemas[i];
        if (isObject(schema)) ensureObject(version, "schema")["openAPIV3Schema"] = decodedSchema(schema);
      }
    },
  };
}

const MAPS = new Set(["properties", "patternProperties", "definitions", "dependencies"]);
const LISTS = new Set(["allOf", "anyOf", "oneOf"]);
const SINGLE = new Set(["items", "not", "additionalProperties", "additionalItems"]);
const ANY_VALUE = new Set(["default", "example", "enum"]);
const PLAIN = new Set([
  ...["id", "$schema", "$ref", "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"],
  ...["maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "maxProperties", "minProperties"],
  ...["required", "externalDocs", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"],
  ...["x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"],
  "x-kubernetes-validations",
]);
/** Pointers, which keep `false`. */
const KEPT_WHEN_FALSE = new Set(["x-kubernetes-preserve-unknown-fields", "additionalProperties", "additionalItems"]);

/** Unknown fields, nulls, and empty values that Go does not write are dropped. */
function decodedSchema(schema: Schema): Schema {
  const decoded: Schema = {};
  for (const [key, value] of Object.entries(schema)) {
    const made = decodedField(key, value);
    if (made !== undefined) decoded[key] = made;
  }
  return decoded;
}

function decodedField(key: string, value: Json): Json | undefined {
  if (ANY_VALUE.has(key)) return value;
  if (value === null) return undefined;
  if (isObject(value) && SINGLE.has(key)) return decodedSchema(value);
  if (Array.isArray(value) && value.length === 0) return undefined;
  if (isObject(value) && Object.keys(value).length === 0) return undefined;
  if (isObject(value) && MAPS.has(key)) {
    const map: JsonObject = {};
    for (const [name, each] of Object.entries(value)) setOwn(map, name, isObject(each) ? decodedSchema(each) : each);
    return map;
  }
  if (LISTS.has(key) && Array.isArray(value)) return value.map((each) => (isObject(each) ? decodedSchema(each) : each));
  if (value === "" || (value === false && !KEPT_WHEN_FALSE.has(key))) return undefined;
  return PLAIN.has(key) || SINGLE.has(key) ? value : undefined;
}

/** Sets the defaults of a CustomResourceDefinition in place. */
export function setDefaultsDefinition(crd: JsonObject): void {
  const spec = ensureObject(crd, "spec");
  const names = ensureObject(spec, "names");
  const kind = textAt(names, "kind") ?? "";
  names["plural"] ??= "";
  names["kind"] ??= "";
  if ((textAt(names, "singular") ?? "") === "" && kind !== "") names["singular"] = kind.toLowerCase();
  if ((textAt(names, "listKind") ?? "") === "" && kind !== "") names["listKind"] = `${kind}List`;
  spec["group"] ??= "";
  spec["scope"] ??= "";
  spec["versions"] ??= null;
  spec["conversion"] ??= { strategy: "None" };
  for (const version of objectsAt(spec, "versions")) {
    version["name"] ??= "";
    version["served"] ??= false;
    version["storage"] ??= false;
    dropEmptyLists(version);
    const scale = objectAt(objectAt(version, "subresources"), "scale");
    for (const path of scale === undefined ? [] : ["specReplicasPath", "statusReplicasPath"]) if (scale !== undefined) scale[path] ??= "";
  }
  dropEmptyLists(names);
  const status = ensureObject(crd, "status");
  const accepted = ensureObject(status, "acceptedNames");
  accepted["plural"] ??= "";
  accepted["kind"] ??= "";
  status["conditions"] ??= null;
  if (listAt(status, "storedVersions").length === 0) status["storedVersions"] = storageVersions(crd);
}

function dropEmptyLists(object: JsonObject): void {
  for (const [key, value] of Object.entries(object)) if (Array.isArray(value) && value.length === 0) delete object[key];
}

function storageVersions(crd: JsonObject): string[] {
  return objectsAt(objectAt(crd, "spec"), "versions")
    .filter(({ storage }) => storage === true)
    .slice(0, 1)
    .map((version) => textAt(version, "name") ?? "");
}

/** The status of a new definition. */
export function initialStatus(crd: JsonObject): JsonObject {
  return { conditions: null, acceptedNames: { plural: "", kind: "" }, storedVersions: storageVersions(crd) };
}

/** After an update of the spec, its storage version is one of the stored ones; in place. */
export function addStoredVersion(crd: JsonObject): void {
  const status = ensureObject(crd, "status");
  const stored = listAt(status, "storedVersions");
  const added = storageVersions(crd).filter((version) => !stored.includes(version));
  if (added.length > 0) status["storedVersions"] = [...stored, ...added];
}

/** The definition when it is first deleted: its objects are deleted before it. @param now RFC 3339 */
export function markedForCleanup(crd: JsonObject, now: string): JsonObject {
  const marked = clone(crd);
  const meta = ensureObject(marked, "metadata");
  meta["deletionTimestamp"] = now;
  const finalizers = listAt(metaOf(crd), "finalizers");
  if (!finalizers.includes(CLEANUP_FINALIZER)) meta["finalizers"] = [...finalizers, CLEANUP_FINALIZER];
  const message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
  setCondition(marked, { type: "Terminating", status: "True", reason: "InstanceDeletionPending", message }, now);
  return marked;
}
