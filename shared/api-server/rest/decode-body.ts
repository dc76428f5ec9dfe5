/**
 * Decodes bodies as Go's decoder does, with the same errors.
 *
 * Source: apiserver/pkg/endpoints/handlers/{create,update,patch,rest}.go, apimachinery/pkg/runtime/serializer/json.
 */
import { type Decoded, decodeGo, type Mistake } from "@deltaloop/kube/pod-template";
import { clone, exactText, type JsonObject, nameOf, objectAt, textAt } from "@deltaloop/base";
import { type ApiError, badRequest, fieldInvalid, invalid, unknownBodyFormat } from "../scheme/api-error.ts";
import { goMistakeText } from "../scheme/go-errors.ts";
import { goTypeOf, PARTIAL } from "../scheme/go-types.ts";
import { withoutSchemas } from "../custom/definition-object.ts";
import { goJson } from "../apply/go-json.ts";
import { coerceEmbedded } from "../custom/embedded.ts";
import { admitCustom, setCustomDefaults } from "../custom/structural.ts";
import { schemaIn } from "../custom/versions.ts";
import { apiVersionOf, RESOURCE_DEFINITIONS, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import { type FieldValidation, IGNORE, unknownFieldsProblem } from "./field-validation.ts";
import { PROTOBUF_MEDIA_TYPE } from "./protobuf.ts";
import { parsedObject } from "./request-body.ts";
import type { ApiRequest } from "./request-info.ts";

export type Target = Pick<ResourceDefinition, "group" | "version" | "kind"> & Partial<Pick<ResourceDefinition, "custom">>;

export const SCALE: Target = { group: "autoscaling", version: "v1", kind: "Scale" };
export const BINDING: Target = { group: "", version: "v1", kind: "Binding" };

const BODY_TYPES = ["application/json", PROTOBUF_MEDIA_TYPE];
/** Versions that upstream still recognises but does not serve. */
const EARLIER_VERSIONS = new Set(["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1", "coordination.k8s.io/v1beta1"]);

/** The object of a POST or PUT. @throws {ApiError} 400, 413, 415 */
export function decodedBody(request: ApiRequest, target: Target, validation: FieldValidation): JsonObject {
  const mediaType = request.headers?.["content-type"]?.split(";")[0]?.trim() ?? "";
  if (mediaType !== "" && !BODY_TYPES.includes(mediaType)) throw unknownBodyFormat();
  const object = parsedObject(request.body, target.kind);
  checkKind(target, object);
  const { decoded, problem } = decode(object, target, validation);
  if (problem !== undefined) throw cannotBeHandled(target, object, problem);
  return decoded;
}

/** The result of a PATCH. @throws {ApiError} 422 */
export function decodedPatch(patched: JsonObject, target: Target, validation: FieldValidation): JsonObject {
  const { decoded, problem } = decode(patched, target, validation);
  if (problem !== undefined) throw invalidPatch(patched, target, problem);
  return decoded;
}

/** The result of an apply, whose types have been checked. Of a custom resource, null is still there: validation reports it. @throws {ApiError} 422 */
export function decodedApply(applied: JsonObject, target: Target): JsonObject {
  if (target.custom === undefined) return decodedPatch(applied, target, IGNORE);
  const { decoded, mistakes } = decodedMetadata(applied);
  const [mistake] = mistakes;
  if (mistake !== undefined) throw invalidPatch(applied, target, goMistakeText(mistake));
  setCustomDefaults(decoded, schemaIn(target.custom, target.version));
  return decoded;
}

/** Custom resources are Go maps, whose keys are sorted; others have the order of their structs. */
function invalidPatch(patched: JsonObject, { custom }: Target, problem: string): ApiError {
  return invalid({ group: "", kind: "" }, "", [
    fieldInvalid("patch", custom === undefined ? exactText(patched) : goJson(patched), problem),
  ]);
}

function decode(
  object: JsonObject,
  target: Target,
  validation: FieldValidation,
): { readonly decoded: JsonObject; readonly problem: string | undefined } {
  const { object: decoded, mistakes, unknown, problem } = decodedAs(object, target);
  const mistake = mistakes.find(isReportedFirst) ?? mistakes[0];
  if (mistake !== undefined) return { decoded, problem: goMistakeText(mistake) };
  return { decoded, problem: problem ?? unknownFieldsProblem(unknown, validation) };
}

/** Decodes an object as its kind. `problem` is an error of a custom resource that is not a decoding mistake. */
function decodedAs(object: JsonObject, { custom, kind, version }: Target): Decoded & { readonly problem?: string | undefined } {
  if (custom !== undefined) return decodedCustom(object, schemaIn(custom, version));
  if (kind !== "CustomResourceDefinition") return decodeGo(object, goTypeOf(kind), kind);
  const { rest, restore } = withoutSchemas(object);
  const decoded = decodeGo(rest, goTypeOf(kind), kind);
  restore(decoded.object);
  return decoded;
}

/** Unknown fields are removed, as from objects of no other kind. */
function decodedCustom(object: JsonObject, schema: JsonObject): Decoded & { readonly problem: string | undefined } {
  const { decoded, mistakes, unknown } = decodedMetadata(object);
  const removed = admitCustom(decoded, schema);
  const embedded = coerceEmbedded(decoded, schema);
  return { object: decoded, mistakes, unknown: [...unknown, ...removed, ...embedded.unknown], problem: embedded.problem };
}

/** A custom resource with its metadata as Go has them. */
function decodedMetadata(object: JsonObject): Pick<Decoded, "mistakes" | "unknown"> & { readonly decoded: JsonObject } {
  const { apiVersion, kind, metadata, ...rest } = object;
  const typed = Object.fromEntries(Object.entries({ apiVersion, kind, metadata }).filter(([, value]) => value !== undefined)) as JsonObject; // just checked
  const { object: decoded, mistakes, unknown } = decodeGo(typed, goTypeOf(PARTIAL), PARTIAL);
  const meta = objectAt(decoded, "metadata");
  for (const path of unknown) if (meta !== undefined) delete meta[path.replace("metadata.", "")];
  return { decoded: { ...decoded, ...clone(rest) }, mistakes, unknown };
}

/** An error of a type's own UnmarshalJSON ends decoding at once; of other errors the first is reported at the end. */
function isReportedFirst({ type }: Mistake): boolean {
  return type.kind === "quantity" || type.kind === "time" || type.kind === "intOrString";
}

/** @throws {ApiError} 400 if `object` has another kind or version than the target; absent fields are accepted */
function checkKind(target: Target, object: JsonObject): void {
  const apiVersion = textAt(object, "apiVersion") ?? apiVersionOf(target);
  const kind = textAt(object, "kind") ?? target.kind;
  if (target.custom !== undefined) {
    checkCustomKind(target, object, { apiVersion, kind });
    return;
  }
  if (kind === "" || apiVersion === "" || (kind === target.kind && apiVersion === apiVersionOf(target))) return;
  if (kind === target.kind && EARLIER_VERSIONS.has(apiVersion))
    throw badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(target)})`);
  const isKnown = RESOURCE_DEFINITIONS.some((one) => one.kind === kind && apiVersionOf(one) === apiVersion);
  const registered = `no kind "${kind}" is registered for version "${apiVersion}" in scheme "pkg/runtime/scheme.go:111"`;
  const internal = target.group === "" ? "core" : target.group.split(".")[0];
  throw cannotBeHandled(
    target,
    object,
    isKnown ? `converting (v1.${kind}) to (${internal}.${target.kind}): unknown conversion` : registered,
  );
}

/** Source: apiextensions-apiserver/pkg/registry/customresource/validator.go ValidateTypeMeta. */
function checkCustomKind(
  target: Target,
  object: JsonObject,
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
): void {
  if (apiVersion !== apiVersionOf(target))
    throw badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(target)})`);
  if (kind !== target.kind) throw invalid(target, nameOf(object), [fieldInvalid("kind", kind, `must be ${target.kind}`)]);
}

function cannotBeHandled({ kind: wanted, version: served }: Target, object: JsonObject, why: string): ApiError {
  const kind = textAt(object, "kind") ?? wanted;
  const version = textAt(object, "apiVersion")?.split("/").at(-1) ?? served;
  return badRequest(`${kind} in version "${version}" cannot be handled as a ${wanted}: ${why}`);
}
