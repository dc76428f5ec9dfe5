/**
 * Metadata of objects, and of objects in objects.
 *
 * Source: k8s.io/apimachinery/pkg/api/validation/{objectmeta,path/name}.go.
 */
import { type JsonObject, objectsAt, stringMap, textAt } from "@deltaloop/base";
import { type FieldError, fieldInvalid, fieldRequired } from "./api-error.ts";
import { dnsLabelError, isDnsLabel, validateAnnotations, validateLabels } from "./validation-names.ts";

/** @param at `metadata` */
export function validateMetadata(meta: JsonObject, at: string): FieldError[] {
  return [
    ...validateLabels(stringMap(meta["labels"]), `${at}.labels`),
    ...validateAnnotations(stringMap(meta["annotations"]), `${at}.annotations`),
    ...validateOwnerReferences(meta, `${at}.ownerReferences`),
  ];
}

/**
 * Validates the metadata of an embedded object: its name may be missing, and must be valid as a path segment.
 * @param at the path of the metadata, for example `spec.pod.metadata`
 */
export function validateEmbeddedMetadata(meta: JsonObject, at: string): FieldError[] {
  const namespace = textAt(meta, "namespace") ?? "";
  return [
    ...segmentProblems(textAt(meta, "name") ?? "").map((problem) => fieldInvalid(`${at}.name`, meta["name"], problem)),
    ...characterProblems(textAt(meta, "generateName") ?? "").map((problem) =>
      fieldInvalid(`${at}.generateName`, meta["generateName"], problem),
    ),
    ...(namespace === "" || isDnsLabel(namespace) ? [] : [dnsLabelError(`${at}.namespace`, namespace)]),
    ...validateMetadata(meta, at),
  ];
}

function segmentProblems(name: string): string[] {
  return name === "." || name === ".." ? [`may not be '${name}'`] : characterProblems(name);
}

function characterProblems(name: string): string[] {
  return ["/", "%"].filter((character) => name.includes(character)).map((character) => `may not contain '${character}'`);
}

function validateOwnerReferences(meta: JsonObject, field: string): FieldError[] {
  const errors: FieldError[] = [];
  let controller: string | undefined;
  for (const [index, reference] of objectsAt(meta, "ownerReferences").entries()) {
    const at = `${field}[${index}]`;
    for (const name of ["apiVersion", "kind", "name", "uid"])
      if ((textAt(reference, name) ?? "") === "") errors.push(fieldRequired(`${at}.${name}`, "must not be empty"));
    const version = textAt(reference, "apiVersion") ?? "";
    if (!/^(?:[^/]*\/)?[^/]+$|^$/.test(version))
      errors.push(fieldInvalid(`${at}.apiVersion`, version, "must be <group>/<version> or <version>"));
    if (reference["controller"] !== true) continue;
    const label = `${textAt(reference, "kind")}/${textAt(reference, "name")}`;
    if (controller === undefined) controller = label;
    else
      errors.push(
        fieldInvalid(
          field,
          meta["ownerReferences"],
          `Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${label}`,
        ),
      );
  }
  return errors;
}
