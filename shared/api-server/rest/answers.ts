/** Response bodies: lists, and the Status of a deletion. */
import { type JsonObject, metaOf, nameOf } from "@deltaloop/base";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ListResult } from "./list.ts";

export function listAnswer(
  definition: ResourceDefinition,
  { items: objects, resourceVersion, continueToken, remainingItemCount }: ListResult,
): JsonObject {
  return {
    kind: definition.custom?.listKind ?? `${definition.kind}List`,
    apiVersion: apiVersionOf(definition),
    metadata: {
      resourceVersion: String(resourceVersion),
      ...(continueToken === undefined ? {} : { continue: continueToken }),
      ...(remainingItemCount === undefined ? {} : { remainingItemCount }),
    },
    items: definition.custom === undefined ? objects.map(listItem) : [...objects],
  };
}

const items = new WeakMap<JsonObject, JsonObject>();

/** List items have no kind and apiVersion, as in upstream's typed lists; those of custom resources have them. */
function listItem(object: JsonObject): JsonObject {
  let item = items.get(object);
  if (item === undefined) {
    const { kind: _kind, apiVersion: _apiVersion, ...rest } = object;
    item = Object.freeze(rest);
    items.set(object, item);
  }
  return item;
}

export function deletedStatus({ group, resource }: ResourceDefinition, object: JsonObject): JsonObject {
  const details = { name: nameOf(object), ...(group === "" ? {} : { group }), kind: resource, uid: String(metaOf(object)["uid"] ?? "") };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}
