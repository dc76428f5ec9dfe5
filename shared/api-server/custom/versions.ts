/** Objects of a CustomResourceDefinition in each of its versions. Conversion changes the apiVersion alone (strategy None). */
import { clone, deepFreeze, type JsonObject, jsonEqual } from "@deltaloop/base";
import { apiVersionOf, type CustomVersion, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import { coerceEmbedded } from "./embedded.ts";
import { admitCustom, type Schema } from "./structural.ts";

export function schemaIn(custom: CustomVersion, version: string): Schema {
  return custom.schemas.get(version) ?? {};
}

const converted = new WeakMap<CustomVersion, WeakMap<JsonObject, JsonObject>>();

/** A stored object in a version, with the fields and defaults of its schema. Objects of built-in kinds remain unchanged. */
export function inVersion(definition: ResourceDefinition, stored: JsonObject): JsonObject {
  const { custom } = definition;
  if (custom === undefined) return stored;
  let known = converted.get(custom);
  if (known === undefined) converted.set(custom, (known = new WeakMap()));
  let object = known.get(stored);
  if (object === undefined) {
    object = convertedTo(definition, custom, definition.version, stored);
    object = jsonEqual(object, stored) ? stored : deepFreeze(object);
    known.set(stored, object);
  }
  return object;
}

/** A valid object with what its schema allows, in place: an apply leaves unknown fields and nulls until here. */
export function coerceCustom({ custom, version }: ResourceDefinition, object: JsonObject): void {
  if (custom === undefined) return;
  const schema = schemaIn(custom, version);
  admitCustom(object, schema);
  coerceEmbedded(object, schema);
}

/** The object as it is stored. */
export function inStorageVersion(definition: ResourceDefinition, object: JsonObject): JsonObject {
  const { custom, version } = definition;
  if (custom === undefined || custom.storageVersion === version) return object;
  return convertedTo(definition, custom, custom.storageVersion, object);
}

function convertedTo({ group }: ResourceDefinition, custom: CustomVersion, version: string, from: JsonObject): JsonObject {
  const object = clone(from);
  object["apiVersion"] = apiVersionOf({ group, version });
  admitCustom(object, schemaIn(custom, version));
  return object;
}
