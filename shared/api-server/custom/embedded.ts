/**
 * Embedded resources: objects in objects, with a kind, an apiVersion and metadata.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/schema/objectmeta/{algorithm,coerce,validation}.go.
 */
import { exactText, isObject, type Json, type JsonObject, objectAt, ownAt } from "@deltaloop/base";
import { decodeGo, normalise } from "@deltaloop/kube/pod-template";
import { validateEmbeddedMetadata } from "../scheme/validation-metadata.ts";
import { type FieldError, fieldInvalid, fieldRequired } from "../scheme/api-error.ts";
import { goMistakeText, kindOf } from "../scheme/go-errors.ts";
import { goTypeOf } from "../scheme/go-types.ts";
import type { Schema } from "./structural.ts";
import { DNS_1035_LABEL, DNS_1035_TEXT, LABEL_LENGTH_MAX } from "../scheme/validation-names.ts";

interface Coerced {
  /** Why the metadata or the kind is none: `spec.pod.kind: Invalid value: 1: must be a string`. */
  readonly problem: string | undefined;
  /** The paths of the removed fields: `spec.pod.metadata.nam`. */
  readonly unknown: readonly string[];
}

/** Gives metadata the form of Go's ObjectMeta, in place. */
export function coerceEmbedded(object: JsonObject, schema: Schema): Coerced {
  const unknown: string[] = [];
  let problem: string | undefined;
  const coerceResource = (value: JsonObject, path: string): void => {
    for (const [key, each] of Object.entries(value)) {
      if ((key === "kind" || key === "apiVersion") && typeof each !== "string")
        problem ??= `${path}.${key}: Invalid value: ${exactText(each)}: must be a string`;
      if (key !== "metadata") continue;
      const decoded = decodedMetadata(each);
      if (decoded.problem !== undefined) problem ??= `${path}.metadata: Invalid value: ${exactText(each)}: ${decoded.problem}`;
      unknown.push(...decoded.unknown.map((field) => `${path}.metadata.${field}`));
      value[key] = decoded.metadata;
    }
  };
  forEachEmbedded(object, schema, "", coerceResource);
  return { problem, unknown: unknown.toSorted() };
}

/** Embedded resources name their kind. */
export function validateEmbedded(object: JsonObject, schema: Schema): FieldError[] {
  const errors: FieldError[] = [];
  forEachEmbedded(object, schema, "", (value, path) => {
    errors.push(...validateText(value["apiVersion"], `${path}.apiVersion`, versionProblem));
    errors.push(...validateText(value["kind"], `${path}.kind`, kindProblem));
    if (value["metadata"] !== undefined) errors.push(...validateMetadata(value["metadata"], `${path}.metadata`));
  });
  return errors;
}

function validateText(value: Json | undefined, at: string, problemOf: (text: string) => string | undefined): FieldError[] {
  if (value === undefined) return [fieldRequired(at)];
  if (typeof value !== "string") return [fieldInvalid(at, value, "must be a string")];
  const problem = value === "" ? "must not be empty" : problemOf(value);
  return problem === undefined ? [] : [fieldInvalid(at, value, problem)];
}

function versionProblem(text: string): string | undefined {
  return text.split("/").length > 2 ? `unexpected GroupVersion string: ${text}` : undefined;
}

function kindProblem(kind: string): string | undefined {
  const problems = [
    ...(kind.length > LABEL_LENGTH_MAX ? [`must be no more than ${LABEL_LENGTH_MAX} bytes`] : []),
    ...(DNS_1035_LABEL.test(kind.toLowerCase()) ? [] : [DNS_1035_TEXT]),
  ];
  return problems.length === 0 ? undefined : `may have mixed case, but should otherwise match: ${problems.join(",")}`;
}

function validateMetadata(value: Json, at: string): FieldError[] {
  const { metadata, problem } = decodedMetadata(value);
  return problem === undefined ? validateEmbeddedMetadata(metadata, at) : [fieldInvalid(at, value, problem)];
}

interface DecodedMetadata {
  readonly metadata: JsonObject;
  readonly unknown: readonly string[];
  readonly problem: string | undefined;
}

function decodedMetadata(value: Json): DecodedMetadata {
  if (value === null) return { metadata: {}, unknown: [], problem: undefined };
  if (!isObject(value))
    return { metadata: {}, unknown: [], problem: `json: cannot unmarshal ${kindOf(value)} into Go value of type v1.ObjectMeta` };
  const { object, mistakes, unknown } = decodeGo(value, goTypeOf("ObjectMeta"), "ObjectMeta");
  for (const field of unknown) delete object[field];
  const [mistake] = mistakes;
  return { metadata: normalise(object), unknown, problem: mistake && goMistakeText(mistake) };
}

function forEachEmbedded(value: Json, schema: Schema, path: string, visit: (value: JsonObject, path: string) => void): void {
  if (Array.isArray(value)) {
    const items = objectAt(schema, "items");
    if (items !== undefined) for (const [i, item] of value.entries()) forEachEmbedded(item, items, `${path}[${i}]`, visit);
  }
  if (!isObject(value)) return;
  if (schema["x-kubernetes-embedded-resource"] === true) visit(value, path);
  const rest = objectAt(schema, "additionalProperties");
  for (const [name, each] of Object.entries(value)) {
    const property = ownAt(objectAt(schema, "properties"), name);
    if (isObject(property)) forEachEmbedded(each, property, path === "" ? name : `${path}.${name}`, visit);
    else if (rest !== undefined) forEachEmbedded(each, rest, `${path}[${name}]`, visit);
  }
}
