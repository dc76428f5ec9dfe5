/**
 * The types of a CustomResourceDefinition's schema for server-side apply.
 *
 * Source: kube-openapi/pkg/schemaconv/{openapi,smd}.go.
 */
import { isObject, listAt, objectAt, textAt } from "@deltaloop/base";
import { type Atom, DEDUCED, type ListType, type MapType, type StructField, type TypeRef } from "../apply/type-schema.ts";
import type { Schema } from "./structural.ts";

const UNTYPED: TypeRef = { name: "__untyped_atomic_" };

/** @param keepsUnknown whether a schema above keeps unknown fields */
export function customType(schema: Schema, keepsUnknown = false): Atom {
  const keeps = keepsUnknown || schema["x-kubernetes-preserve-unknown-fields"] === true;
  switch (textAt(schema, "type")) {
    case "object":
      return { map: mapType(schema, keeps) };
    case "array":
      return { list: listType(schema, keeps) };
    case "integer":
    case "number":
      return { scalar: "numeric" };
    case "boolean":
      return { scalar: "boolean" };
    case "string": {
      const format = textAt(schema, "format") ?? "";
      return { scalar: format === "" || format === "byte" ? "string" : "untyped" };
    }
    default:
      return { scalar: "untyped", list: listType(schema, keeps), map: mapType(schema, keeps) };
  }
}

const SCALAR_TEXT: TypeRef = { scalar: "string" };

/** The type of whole objects, whose metadata are those of all kinds. */
export function rootType(schema: Schema): TypeRef {
  const { map, ...rest } = customType({ type: "object", ...schema });
  const fields = new Map([...(map?.fields ?? []), ...EMBEDDED_FIELDS]);
  return { ...rest, map: { element: undefined, isAtomic: false, ...map, fields } };
}

/** What embedded resources have besides their schema. Source: apiextensions-apiserver/pkg/controller/openapi/builder/builder.go. */
const EMBEDDED_FIELDS: readonly (readonly [string, StructField])[] = [
  ["apiVersion", { type: SCALAR_TEXT }],
  ["kind", { type: SCALAR_TEXT }],
  ["metadata", { type: { name: "meta.v1.ObjectMeta" } }],
];

function mapType(schema: Schema, keepsUnknown: boolean): MapType {
  const properties = Object.entries(objectAt(schema, "properties") ?? {});
  const fields = properties.flatMap(([name, property]): readonly (readonly [string, StructField])[] => {
    if (!isObject(property)) return [];
    const preset = property["default"];
    return [[name, { type: customType(property, keepsUnknown), ...(preset === undefined || preset === null ? {} : { default: preset }) }]];
  });
  if (isEmbedded(schema)) fields.push(...EMBEDDED_FIELDS);
  return { fields: new Map(fields), element: unknownType(schema, keepsUnknown), isAtomic: schema["x-kubernetes-map-type"] === "atomic" };
}

/** The type of fields that the schema does not list. */
function unknownType(schema: Schema, keepsUnknown: boolean): TypeRef | undefined {
  const rest = schema["additionalProperties"];
  if (isObject(rest)) return customType(rest, keepsUnknown);
  if (rest !== undefined) return rest === true ? DEDUCED : undefined;
  return keepsUnknown || (Object.keys(objectAt(schema, "properties") ?? {}).length === 0 && !isEmbedded(schema)) ? DEDUCED : undefined;
}

function isEmbedded(schema: Schema): boolean {
  return schema["x-kubernetes-embedded-resource"] === true;
}

function listType(schema: Schema, keepsUnknown: boolean): ListType {
  const items = objectAt(schema, "items");
  const element = items === undefined ? UNTYPED : customType(items, keepsUnknown);
  const kind = textAt(schema, "x-kubernetes-list-type");
  const keys = kind === "map" ? listAt(schema, "x-kubernetes-list-map-keys").map(String) : [];
  return { element, isAtomic: kind !== "set" && kind !== "map", keys };
}
