/**
 * Schemas of CustomResourceDefinitions must be structural and use only what upstream supports.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/schema/{convert,validation}.go, schema/defaulting/validation.go,
 * pkg/apis/apiextensions/validation/validation.go (ValidateCustomResourceDefinitionOpenAPISchema, specStandardValidatorV3).
 */
import { isObject, type Json, jsonEqual, listAt, objectAt, objectsAt, textAt } from "@deltaloop/base";
import { type FieldError, fieldForbidden, fieldInvalid, fieldNotSupported, fieldRequired } from "../scheme/api-error.ts";
import { pruned, type Schema } from "./structural.ts";
import { validateValue } from "./validate-value.ts";

type Level = "root" | "item" | "field";

const JUNCTORS = ["allOf", "oneOf", "anyOf"] as const;
const INT_OR_STRING: Json = [{ type: "integer" }, { type: "string" }];
const EMPTY_TYPE: Readonly<Record<Level, string>> = {
  root: "must not be empty at the root",
  item: "must not be empty for specified array items",
  field: "must not be empty for specified object fields",
};
const META_FIELDS = ["metadata", "kind", "apiVersion"];

/** @param path of the schema: `spec.versions[0].schema.openAPIV3Schema` */
export function validateSchema(schema: Schema, path: string): FieldError[] {
  const errors = validateStructural(schema, path);
  if (errors.length === 0) errors.push(...validateDefaults(schema, path, true));
  return [...errors, ...validateSupported(schema, path, { isRoot: true, isMeta: false })];
}

function validateStructural(schema: Schema, path: string): FieldError[] {
  const errors = [...validateInvariants(schema, "root", path), ...validateCompleteness(schema, path)];
  return errors.toSorted((a, b) => (`${a.field}: ${a.message}` < `${b.field}: ${b.message}` ? -1 : 1));
}

function propertiesOf(schema: Schema): readonly (readonly [string, Schema])[] {
  return Object.entries(objectAt(schema, "properties") ?? {}).flatMap(([name, each]) => (isObject(each) ? [[name, each] as const] : []));
}

function validateInvariants(schema: Schema, level: Level, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const type = textAt(schema, "type") ?? "";
  const items = objectAt(schema, "items");
  if (type === "array" && items === undefined) errors.push(fieldRequired(`${path}.items`, "must be specified"));
  if (items !== undefined) errors.push(...validateInvariants(items, "item", `${path}.items`));
  for (const [name, property] of propertiesOf(schema)) errors.push(...validateInvariants(property, "field", `${path}.properties[${name}]`));
  const rest = schema["additionalProperties"];
  if (rest !== undefined && level === "root") errors.push(fieldForbidden(`${path}.additionalProperties`, "must not be used at the root"));
  if (isObject(rest)) errors.push(...validateInvariants(rest, "field", `${path}.additionalProperties`));
  const [isEmbedded, isIntOrString] = [schema["x-kubernetes-embedded-resource"] === true, schema["x-kubernetes-int-or-string"] === true];
  const keeps = schema["x-kubernetes-preserve-unknown-fields"] === true;
  if (isIntOrString && keeps)
    errors.push(fieldInvalid(`${path}.x-kubernetes-preserve-unknown-fields`, true, "must be false if x-kubernetes-int-or-string is true"));
  if (isIntOrString && isEmbedded)
    errors.push(fieldInvalid(`${path}.x-kubernetes-embedded-resource`, true, "must be false if x-kubernetes-int-or-string is true"));
  const first = objectsAt(schema, "allOf")[0];
  const skips = {
    anyOf: jsonEqual(schema["anyOf"], INT_OR_STRING),
    firstAllOf: first !== undefined && jsonEqual(first["anyOf"], INT_OR_STRING),
  };
  errors.push(...validateJunctors(schema, path, skips));
  if (isEmbedded && type !== "object") {
    const why = "must be object if x-kubernetes-embedded-resource is true";
    errors.push(type === "" ? fieldRequired(`${path}.type`, why) : fieldInvalid(`${path}.type`, type, why));
  } else if (type === "" && !isIntOrString && !keeps) errors.push(fieldRequired(`${path}.type`, EMPTY_TYPE[level]));
  if (isEmbedded && rest !== undefined)
    errors.push(fieldForbidden(`${path}.additionalProperties`, "must not be used if x-kubernetes-embedded-resource is set"));
  if (level === "root" && type !== "" && type !== "object") errors.push(fieldInvalid(`${path}.type`, type, "must be object at the root"));
  errors.push(...validateMeta(schema, level, path, isEmbedded));
  if (isEmbedded && !keeps && propertiesOf(schema).length === 0) {
    const why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
    errors.push(fieldRequired(`${path}.properties`, why));
  }
  return errors;
}

function validateMeta(schema: Schema, level: Level, path: string, isEmbedded: boolean): FieldError[] {
  const checks = level === "root" || isEmbedded;
  const properties = objectAt(schema, "properties") ?? {};
  const errors: FieldError[] = [];
  for (const field of ["kind", "apiVersion"]) {
    const property = properties[field];
    const type = isObject(property) ? (textAt(property, "type") ?? "") : "string";
    if (checks && type !== "string") errors.push(fieldInvalid(`${path}.properties[${field}].type`, type, "must be string"));
  }
  const metadata = properties["metadata"];
  if (!isObject(metadata)) return errors;
  const at = `${path}.properties[metadata]`;
  if (checks && metadata["type"] !== "object") errors.push(fieldInvalid(`${at}.type`, metadata["type"] ?? "", "must be object"));
  const { type: _type, default: _default, properties: _properties, description: _description, ...others } = metadata;
  const names = Object.keys(objectAt(metadata, "properties") ?? {});
  const isRestricted = names.some((name) => name !== "name" && name !== "generateName") || Object.keys(others).length > 0;
  if (level === "root" && (isRestricted || metadata["description"] !== undefined))
    errors.push(fieldForbidden(at, "must not specify anything other than name and generateName, but metadata is implicitly specified"));
  return errors;
}

interface Skips {
  readonly anyOf: boolean;
  readonly firstAllOf: boolean;
}
const SKIPS_NOTHING: Skips = { anyOf: false, firstAllOf: false };

function validateJunctors(schema: Schema, path: string, skips: Skips): FieldError[] {
  const errors: FieldError[] = [];
  for (const junctor of JUNCTORS) {
    if (junctor === "anyOf" && skips.anyOf) continue;
    for (const [i, each] of objectsAt(schema, junctor).entries())
      errors.push(
        ...validateNested(each, `${path}.${junctor}[${i}]`, {
          ...SKIPS_NOTHING,
          anyOf: junctor === "allOf" && i === 0 && skips.firstAllOf,
        }),
      );
  }
  const not = objectAt(schema, "not");
  if (not !== undefined) errors.push(...validateNested(not, `${path}.not`));
  return errors;
}

const EMPTY_WHEN_NESTED: readonly (readonly [string, string])[] = [
  ["type", "must be empty to be structural"],
  ["additionalProperties", "must be undefined to be structural"],
  ["default", "must be undefined to be structural"],
  ["title", "must be empty to be structural"],
  ["description", "must be empty to be structural"],
  ["nullable", "must be false to be structural"],
  ["x-kubernetes-preserve-unknown-fields", "must be false to be structural"],
  ["x-kubernetes-embedded-resource", "must be false to be structural"],
  ["x-kubernetes-int-or-string", "must be false to be structural"],
  ["x-kubernetes-list-map-keys", "must be empty to be structural"],
  ["x-kubernetes-list-type", "must be undefined to be structural"],
  ["x-kubernetes-map-type", "must be undefined to be structural"],
  ["x-kubernetes-validations", "must be empty to be structural"],
];

function validateNested(schema: Schema, path: string, skips: Skips = SKIPS_NOTHING): FieldError[] {
  const errors = validateJunctors(schema, path, skips);
  const items = objectAt(schema, "items");
  if (items !== undefined) errors.push(...validateNested(items, `${path}.items`));
  for (const [name, property] of propertiesOf(schema)) errors.push(...validateNested(property, `${path}.properties[${name}]`));
  for (const [field, why] of EMPTY_WHEN_NESTED) if (schema[field] !== undefined) errors.push(fieldForbidden(`${path}.${field}`, why));
  if (isObject(objectAt(schema, "properties")?.["metadata"]))
    errors.push(fieldForbidden(`${path}.properties[metadata]`, "must not be specified in a nested context"));
  return errors;
}

/** Each field and item that a junctor of the root restricts is also specified outside. Source: schema/complete.go. */
function validateCompleteness(schema: Schema, path: string): FieldError[] {
  const errors = JUNCTORS.flatMap((junctor) =>
    objectsAt(schema, junctor).flatMap((each, i) => validateComplete(schema, each, `${path}.${junctor}[${i}]`, path)),
  );
  const not = objectAt(schema, "not");
  if (not !== undefined) errors.push(...validateComplete(schema, not, `${path}.not`, path));
  return errors;
}

function validateComplete(schema: Schema, nested: Schema, path: string, specified: string): FieldError[] {
  const because = (at: string): FieldError => fieldRequired(at, `because it is defined in ${path}${at.slice(specified.length)}`);
  const errors: FieldError[] = [];
  const items = objectAt(nested, "items");
  const ownItems = objectAt(schema, "items");
  if (items !== undefined && ownItems === undefined) errors.push(because(`${specified}.items`));
  else if (items !== undefined && ownItems !== undefined)
    errors.push(...validateComplete(ownItems, items, `${path}.items`, `${specified}.items`));
  for (const [name, property] of propertiesOf(nested)) {
    const at = `properties[${name}]`;
    const own = objectAt(schema, "properties")?.[name];
    if (isObject(own)) errors.push(...validateComplete(own, property, `${path}.${at}`, `${specified}.${at}`));
    else errors.push(because(`${specified}.${at}`));
  }
  const junctors = JUNCTORS.flatMap((junctor) =>
    objectsAt(nested, junctor).flatMap((each, i) => validateComplete(schema, each, `${path}.${junctor}[${i}]`, specified)),
  );
  return [...errors, ...junctors];
}

function validateDefaults(schema: Schema, path: string, isRoot: boolean): FieldError[] {
  const errors: FieldError[] = [];
  const preset = schema["default"] ?? null;
  if (preset !== null && !isRoot) {
    const at = `${path}.default`;
    if (!jsonEqual(pruned(preset, schema), preset)) errors.push(fieldInvalid(at, preset, "must not have unknown fields"));
    errors.push(...validateValue(preset, schema, "").map((error) => below(error, at)));
  }
  const items = objectAt(schema, "items");
  if (items !== undefined) errors.push(...validateDefaults(items, `${path}.items`, false));
  for (const [name, property] of propertiesOf(schema)) errors.push(...validateDefaults(property, `${path}.properties[${name}]`, false));
  return errors;
}

function below(error: FieldError, at: string): FieldError {
  return { ...error, field: error.field === "<nil>" ? at : `${at}.${error.field}` };
}

interface Place {
  readonly isRoot: boolean;
  /** Within metadata, kind or apiVersion of a resource. */
  readonly isMeta: boolean;
  /** Why there must be no default; undefined if it is allowed. */
  readonly noDefault?: string;
}

const TYPES = new Set(["", "string", "number", "integer", "boolean", "array", "object"]);
const UNSUPPORTED = ["id", "patternProperties", "additionalItems", "definitions", "dependencies", "$ref"];

function validateSupported(schema: Schema, path: string, place: Place): FieldError[] {
  const errors: FieldError[] = [];
  const type = textAt(schema, "type") ?? "";
  if (type === "null") errors.push(fieldForbidden(`${path}.type`, "type cannot be set to null, use nullable as an alternative"));
  else if (!TYPES.has(type))
    errors.push(fieldNotSupported(`${path}.type`, type, ["array", "boolean", "integer", "number", "object", "string"]));
  if (schema["default"] !== undefined && place.noDefault !== undefined)
    errors.push(fieldForbidden(`${path}.default`, `must not be set ${place.noDefault}`));
  for (const field of UNSUPPORTED)
    if (schema[field] !== undefined) errors.push(fieldForbidden(`${path}.${field}`, `${field} is not supported`));
  if (Array.isArray(schema["items"])) errors.push(fieldForbidden(`${path}.items`, "items must be a schema object and not an array"));
  if (schema["uniqueItems"] === true)
    errors.push(fieldForbidden(`${path}.uniqueItems`, "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"));
  const rest = schema["additionalProperties"];
  if (rest !== undefined && rest !== true && propertiesOf(schema).length > 0)
    errors.push(fieldForbidden(`${path}.additionalProperties`, "additionalProperties and properties are mutual exclusive"));
  if (schema["x-kubernetes-preserve-unknown-fields"] === false)
    errors.push(fieldInvalid(`${path}.x-kubernetes-preserve-unknown-fields`, false, "must be true or undefined"));
  errors.push(...validateMapType(schema, path), ...validateListType(schema, path), ...validateRuleTexts(schema, path));

  const inside: Place = { isRoot: false, isMeta: place.isMeta, ...(place.noDefault !== undefined && { noDefault: place.noDefault }) };
  if (isObject(rest)) {
    const why = "inside additionalProperties applying to object metadata";
    errors.push(...validateSupported(rest, `${path}.additionalProperties`, place.isMeta ? { ...inside, noDefault: why } : inside));
  }
  const isResource = place.isRoot || schema["x-kubernetes-embedded-resource"] === true;
  for (const [name, property] of propertiesOf(schema)) {
    const isMeta = inside.isMeta || (isResource && META_FIELDS.includes(name));
    const at = { ...inside, isMeta, ...(place.isRoot && META_FIELDS.includes(name) && { noDefault: `in top-level ${name}` }) };
    errors.push(...validateSupported(property, `${path}.properties[${name}]`, at));
  }
  for (const field of ["not", "items"]) {
    const child = objectAt(schema, field);
    if (child !== undefined) errors.push(...validateSupported(child, `${path}.${field}`, inside));
  }
  for (const junctor of JUNCTORS)
    for (const [i, each] of objectsAt(schema, junctor).entries())
      errors.push(...validateSupported(each, `${path}.${junctor}[${i}]`, inside));
  return errors;
}

function validateMapType(schema: Schema, path: string): FieldError[] {
  const mapType = textAt(schema, "x-kubernetes-map-type");
  if (mapType === undefined) return [];
  return [
    ...wrongTypeFor(schema, path, "object", "x-kubernetes-map-type"),
    ...(mapType === "atomic" || mapType === "granular"
      ? []
      : [fieldNotSupported(`${path}.x-kubernetes-map-type`, mapType, ["atomic", "granular"])]),
  ];
}

function wrongTypeFor(schema: Schema, path: string, needed: string, extension: string): FieldError[] {
  const type = textAt(schema, "type") ?? "";
  const why = `must be ${needed} if ${extension} is specified`;
  if (type === needed) return [];
  return [type === "" ? fieldRequired(`${path}.type`, why) : fieldInvalid(`${path}.type`, type, why)];
}

function validateListType(schema: Schema, path: string): FieldError[] {
  const listType = textAt(schema, "x-kubernetes-list-type");
  const keys = listAt(schema, "x-kubernetes-list-map-keys").map(String);
  const at = `${path}.x-kubernetes-list-type`;
  const errors: FieldError[] = [];
  if (listType !== undefined) errors.push(...wrongTypeFor(schema, path, "array", "x-kubernetes-list-type"));
  const items = objectAt(schema, "items");
  if (errors.length === 0 && listType === "set" && items !== undefined) errors.push(...validateSetItems(items, path));
  if (listType !== undefined && !["atomic", "set", "map"].includes(listType))
    errors.push(fieldNotSupported(at, listType, ["atomic", "set", "map"]));
  if (keys.length > 0 && listType !== "map") {
    const why = "must be map if x-kubernetes-list-map-keys is non-empty";
    errors.push(listType === undefined ? fieldRequired(at, why) : fieldInvalid(at, listType, why));
  }
  if (listType === "map") errors.push(...validateMapItems(items, keys, path));
  if (items?.["nullable"] === true && (listType === "set" || listType === "map"))
    errors.push(fieldForbidden(`${path}.items.nullable`, `cannot be nullable when x-kubernetes-list-type is ${listType}`));
  if (listType === "map" && items !== undefined) errors.push(...validateKeyFields(items, keys, `${path}.items`));
  return errors;
}

function validateSetItems(items: Schema, path: string): FieldError[] {
  const why = "must be atomic as item of a list with x-kubernetes-list-type=set";
  const [listType, mapType] = [items["x-kubernetes-list-type"], items["x-kubernetes-map-type"]];
  if (items["type"] === "array" && listType !== undefined && listType !== "atomic")
    return [fieldInvalid(`${path}.items.x-kubernetes-list-type`, listType, why)];
  // The error has the type of the list, as upstream.
  return items["type"] === "object" && mapType !== "atomic"
    ? [fieldInvalid(`${path}.items.x-kubernetes-map-type`, listType ?? null, why)]
    : [];
}

function validateMapItems(items: Schema | undefined, keys: readonly string[], path: string): FieldError[] {
  const errors: FieldError[] = [];
  const at = `${path}.x-kubernetes-list-map-keys`;
  if (keys.length === 0) errors.push(fieldRequired(at, "must not be empty if x-kubernetes-list-type is map"));
  if (items === undefined) return [...errors, fieldRequired(`${path}.items`, "must have a schema if x-kubernetes-list-type is map")];
  if (items["type"] !== "object")
    return [
      ...errors,
      fieldInvalid(`${path}.items.type`, items["type"] ?? "", "must be object if parent array's x-kubernetes-list-type is map"),
    ];
  const properties = new Map(propertiesOf(items));
  for (const [i, key] of keys.entries()) {
    const type = properties.get(key)?.["type"];
    if (type === "array" || type === "object") {
      const why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
      errors.push(fieldInvalid(`${path}.items.properties[${key}].type`, "object", why));
    }
    if (!properties.has(key)) errors.push(fieldInvalid(at, [...keys], "entries must all be names of item properties"));
    if (keys.indexOf(key) < i) errors.push(fieldInvalid(at, [...keys], "must not contain duplicate entries"));
  }
  return errors;
}

function validateKeyFields(items: Schema, keys: readonly string[], path: string): FieldError[] {
  const properties = new Map(propertiesOf(items));
  return keys.flatMap((key) => {
    const property = properties.get(key);
    if (property === undefined) return [];
    const at = `${path}.properties[${key}]`;
    const isRequired = listAt(items, "required").includes(key);
    return [
      ...(isRequired || property["default"] !== undefined
        ? []
        : [
            fieldRequired(
              `${at}.default`,
              "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ),
          ]),
      ...(property["nullable"] === true
        ? [fieldForbidden(`${at}.nullable`, "this property is in x-kubernetes-list-map-keys, so it cannot be nullable")]
        : []),
    ];
  });
}

function validateRuleTexts(schema: Schema, path: string): FieldError[] {
  return objectsAt(schema, "x-kubernetes-validations").flatMap((rule, i) => {
    const text = (textAt(rule, "rule") ?? "").trim();
    return text === "" ? [fieldRequired(`${path}.x-kubernetes-validations[${i}].rule`, "rule is not specified")] : [];
  });
}
