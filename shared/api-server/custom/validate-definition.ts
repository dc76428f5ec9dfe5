/**
 * Validates CustomResourceDefinitions.
 *
 * Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go.
 */
import { isObject, type Json, type JsonObject, jsonEqual, listAt, nameOf, objectAt, objectsAt, textAt } from "@deltaloop/base";
import { type FieldError, fieldForbidden, fieldInvalid, fieldNotSupported, fieldRequired } from "../scheme/api-error.ts";
import { DNS_1035_LABEL, DNS_1035_TEXT, DNS_SUBDOMAIN, DNS_SUBDOMAIN_TEXT, LABEL_LENGTH_MAX } from "../scheme/validation-names.ts";
import { conditionOf } from "./conditions.ts";
import { validateSchema } from "./validate-schema.ts";

const COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/** Fields beside which the status subresource has a schema of its own. */
const ROOT_FIELDS = new Set([
  ...["description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength"],
  ...["pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs", "example"],
  ...["x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"],
]);
const ROOT_FIELDS_TEXT =
  "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

export function validateDefinition(crd: JsonObject): FieldError[] {
  const spec = objectAt(crd, "spec") ?? {};
  const names = objectAt(spec, "names") ?? {};
  const [group, plural] = [textAt(spec, "group") ?? "", textAt(names, "plural") ?? ""];
  const isNamed = nameOf(crd) === `${plural}.${group}`;
  return [
    ...(isNamed ? [] : [fieldInvalid("metadata.name", nameOf(crd), 'must be spec.names.plural+"."+spec.group')]),
    ...validateGroup(group),
    ...validateScope(textAt(spec, "scope") ?? ""),
    ...validateVersions(spec),
    ...["plural", "singular", "kind", "listKind"]
      .filter((field) => (textAt(names, field) ?? "") === "")
      .map((field) => fieldRequired(`spec.names.${field}`)),
    ...validateNames(names),
    ...validateConversion(objectAt(spec, "conversion") ?? {}, nameOf(crd)),
    ...validateStoredVersions(crd),
  ];
}

/** Validates that an update changes no immutable field. */
export function validateDefinitionUpdate(crd: JsonObject, current: JsonObject): FieldError[] {
  const isEstablished = conditionOf(current, "Established")?.["status"] === "True";
  const paths = [...(isEstablished ? [["scope"], ["names", "kind"]] : []), ["group"], ["names", "plural"]];
  return paths.flatMap((path) => {
    const [value, old] = [crd, current].map((one) =>
      path.reduce<Json | undefined>((at, key) => (isObject(at) ? at[key] : undefined), one["spec"]),
    );
    return jsonEqual(value, old) ? [] : [fieldInvalid(`spec.${path.join(".")}`, value, "field is immutable")];
  });
}

function validateGroup(group: string): FieldError[] {
  if (group === "") return [fieldRequired("spec.group")];
  if (!DNS_SUBDOMAIN.test(group)) return [fieldInvalid("spec.group", group, DNS_SUBDOMAIN_TEXT)];
  return group.includes(".") ? [] : [fieldInvalid("spec.group", group, "should be a domain with at least one dot")];
}

function validateScope(scope: string): FieldError[] {
  if (scope === "") return [fieldRequired("spec.scope")];
  return scope === "Cluster" || scope === "Namespaced" ? [] : [fieldNotSupported("spec.scope", scope, ["Cluster", "Namespaced"])];
}

function validateVersions(spec: JsonObject): FieldError[] {
  const versions = objectsAt(spec, "versions");
  const errors = versions.flatMap((version, i) => {
    const hasSchema = isObject(objectAt(version, "schema")?.["openAPIV3Schema"]);
    return hasSchema ? [] : [fieldRequired(`spec.versions[${i}].schema.openAPIV3Schema`)];
  });
  errors.push(...versions.flatMap((version, i) => validateVersion(version, placesOf(versions, i))));
  const names = versions.map((version) => textAt(version, "name") ?? "");
  // The first version is also a field of its own.
  if (names[0] !== undefined && names[0] !== "") errors.push(...validateLabel(names[0], "spec.version"));
  if (new Set(names).size < names.length) errors.push(fieldInvalid("spec.versions", spec["versions"], "must contain unique version names"));
  if (versions.filter(({ storage }) => storage === true).length !== 1)
    errors.push(fieldInvalid("spec.versions", spec["versions"], "must have exactly one version marked as storage version"));
  return errors;
}

/** The paths at which errors of a version are reported. */
interface Places {
  readonly at: string;
  readonly schema: string;
  readonly subresources: string;
  readonly columns: string;
}

/** What is the same in all versions is a field of the spec in upstream's internal version. Source: apiextensions/v1/conversion.go. */
function placesOf(versions: readonly JsonObject[], i: number): Places {
  const at = `spec.versions[${i}]`;
  const isCommon = (field: string): boolean =>
    versions.every((version) => version[field] !== undefined && jsonEqual(version[field], versions[0]?.[field]));
  const place = (field: string, common: string): string => (isCommon(field) ? common : `${at}.${field}`);
  return {
    at,
    schema: place("schema", "spec.validation"),
    subresources: place("subresources", "spec.subresources"),
    columns: place("additionalPrinterColumns", "spec.additionalPrinterColumns"),
  };
}

function validateVersion(version: JsonObject, { at, schema: atSchema, subresources: atSubresources, columns }: Places): FieldError[] {
  const subresources = objectAt(version, "subresources") ?? {};
  const schema = objectAt(objectAt(version, "schema"), "openAPIV3Schema");
  const warning = version["deprecationWarning"];
  return [
    ...validateLabel(textAt(version, "name") ?? "", `${at}.name`),
    ...(version["deprecated"] !== true && warning !== undefined
      ? [fieldInvalid(`${at}.deprecationWarning`, warning, "can only be set for deprecated versions")]
      : []),
    ...(schema === undefined ? [] : validateRoot(schema, atSchema, isObject(subresources["status"]))),
    ...validateScale(objectAt(subresources, "scale"), `${atSubresources}.scale`),
    ...objectsAt(version, "additionalPrinterColumns").flatMap((column, i) => validateColumn(column, `${columns}[${i}]`)),
  ];
}

function validateRoot(schema: JsonObject, at: string, hasStatus: boolean): FieldError[] {
  const path = `${at}.openAPIV3Schema`;
  const errors: FieldError[] = [];
  if (hasStatus && schema["type"] !== undefined && schema["type"] !== "object")
    errors.push(
      fieldInvalid(
        `${path}.type`,
        schema["type"],
        'only "object" is allowed as the type at the root of the schema if the status subresource is enabled',
      ),
    );
  else if (hasStatus && Object.keys(schema).some((key) => !ROOT_FIELDS.has(key)))
    errors.push(
      fieldInvalid(
        path,
        schema,
        `only ${ROOT_FIELDS_TEXT} fields are allowed at the root of the schema if the status subresource is enabled`,
      ),
    );
  if (schema["nullable"] === true) errors.push(fieldForbidden(`${path}.nullable`, "nullable cannot be true at the root"));
  return [...errors, ...validateSchema(schema, path)];
}

function validateScale(scale: JsonObject | undefined, at: string): FieldError[] {
  if (scale === undefined) return [];
  const check = (field: string, root: string): FieldError[] => {
    const path = textAt(scale, field) ?? "";
    if (path === "") return [fieldRequired(`${at}.${field}`)];
    const errors = validatePath(path, `${at}.${field}`);
    if (errors.length > 0 || path.startsWith(`.${root}.`)) return errors;
    return [fieldInvalid(`${at}.${field}`, path, `should be a json path under .${root}`)];
  };
  return [...check("specReplicasPath", "spec"), ...check("statusReplicasPath", "status"), ...validateSelectorPath(scale, at)];
}

function validateSelectorPath(scale: JsonObject, at: string): FieldError[] {
  const path = textAt(scale, "labelSelectorPath") ?? "";
  if (path === "") return [];
  const errors = validatePath(path, `${at}.labelSelectorPath`);
  if (errors.length > 0 || /^\.(?:spec|status)\./u.test(path)) return errors;
  return [fieldInvalid(`${at}.labelSelectorPath`, path, "should be a json path under either .spec or .status")];
}

function validateColumn(column: JsonObject, at: string): FieldError[] {
  const [type, format, path] = [textAt(column, "type") ?? "", textAt(column, "format") ?? "", textAt(column, "jsonPath") ?? ""];
  const types = `must be one of ${COLUMN_TYPES.join(",")}`;
  return [
    ...((textAt(column, "name") ?? "") === "" ? [fieldRequired(`${at}.name`)] : []),
    ...(type === "" ? [fieldRequired(`${at}.type`, types)] : COLUMN_TYPES.includes(type) ? [] : [fieldInvalid(`${at}.type`, type, types)]),
    ...(format === "" || COLUMN_FORMATS.includes(format)
      ? []
      : [fieldInvalid(`${at}.format`, format, `must be one of ${COLUMN_FORMATS.join(",")}`)]),
    ...(path === "" ? [fieldRequired(`${at}.JSONPath`)] : validatePath(path, `${at}.JSONPath`)),
  ];
}

function validatePath(path: string, at: string): FieldError[] {
  return path.startsWith(".") ? [] : [fieldInvalid(at, path, "must be a simple json path starting with .")];
}

function validateNames(names: JsonObject): FieldError[] {
  const mixed = (field: string): FieldError[] =>
    validateLabel((textAt(names, field) ?? "").toLowerCase(), `spec.names.${field}`).map(() =>
      fieldInvalid(`spec.names.${field}`, names[field], `may have mixed case, but should otherwise match: ${DNS_1035_TEXT}`),
    );
  const list = (field: string): FieldError[] =>
    listAt(names, field).flatMap((name, i) => validateLabel(String(name), `spec.names.${field}[${i}]`));
  const isAmbiguous = (textAt(names, "kind") ?? "") !== "" && names["kind"] === names["listKind"];
  return [
    ...["plural", "singular"].flatMap((field) =>
      (names[field] ?? "") === "" ? [] : validateLabel(textAt(names, field) ?? "", `spec.names.${field}`),
    ),
    ...["kind", "listKind"].flatMap((field) => ((names[field] ?? "") === "" ? [] : mixed(field))),
    ...list("shortNames"),
    ...(isAmbiguous ? [fieldInvalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")] : []),
    ...list("categories"),
  ];
}

function validateLabel(name: string, at: string): FieldError[] {
  if (name.length > LABEL_LENGTH_MAX) return [fieldInvalid(at, name, `must be no more than ${LABEL_LENGTH_MAX} bytes`)];
  return DNS_1035_LABEL.test(name) ? [] : [fieldInvalid(at, name, DNS_1035_TEXT)];
}

/** Differs from upstream: there is no conversion by a webhook. */
function validateConversion(conversion: JsonObject, name: string): FieldError[] {
  const strategy = textAt(conversion, "strategy") ?? "";
  if (strategy === "None") {
    return isObject(conversion["webhook"])
      ? [fieldForbidden("spec.conversion.webhookClientConfig", "should not be set when strategy is not set to Webhook")]
      : [];
  }
  if (strategy !== "Webhook")
    return [
      strategy === ""
        ? fieldRequired("spec.conversion.strategy")
        : fieldNotSupported("spec.conversion.strategy", strategy, ["None", "Webhook"]),
    ];
  const client = objectAt(objectAt(conversion, "webhook"), "clientConfig");
  const service = objectAt(client, "service");
  const target = textAt(client, "url") ?? `service ${textAt(service, "namespace") ?? ""}/${textAt(service, "name") ?? ""}`;
  return [
    fieldForbidden(
      "spec.conversion.strategy",
      `this API server calls no conversion webhooks, and ${name} has one (${target}); use strategy None, or a cluster`,
    ),
  ];
}

function validateStoredVersions(crd: JsonObject): FieldError[] {
  const stored = listAt(objectAt(crd, "status"), "storedVersions").map(String);
  const at = "status.storedVersions";
  if (stored.length === 0) return [fieldInvalid(at, null, "must have at least one stored version")];
  const versions = objectsAt(objectAt(crd, "spec"), "versions");
  const missing = versions.filter((version) => version["storage"] === true && !stored.includes(textAt(version, "name") ?? ""));
  const names = versions.map((version) => textAt(version, "name") ?? "");
  return [
    ...missing.map((version) => fieldInvalid(at, [...stored], `must have the storage version ${textAt(version, "name") ?? ""}`)),
    ...stored.flatMap((version, i) =>
      names.includes(version)
        ? []
        : [
            fieldInvalid(
              `${at}[${i}]`,
              version,
              `missing from spec.versions; ${version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in ${version} and removes ${version} from status.storedVersions`,
            ),
          ],
    ),
  ];
}
