/**
 * PATCH with a configuration: server-side apply.
 *
 * Source: apiserver/pkg/endpoints/handlers/patch.go (applyPatcher).
 */
import { clone, ensureObject, isObject, jsonEqual, type JsonObject, metaOf, parseExact, textAt } from "@deltaloop/base";
import { parseYaml } from "@deltaloop/kube/yaml";
import { ApplyConflictError, appliedObject, type ManagedKind } from "../apply/field-manager.ts";
import { TypeMismatchError } from "../apply/typed.ts";
import { type FieldWriter, managedKindOf } from "../registry/field-managers.ts";
import type { Registry } from "../registry/registry.ts";
import { ApiError, badRequest, conflict, fieldForbidden, fieldRequired, invalid, notFound } from "../scheme/api-error.ts";
import { apiVersionOf } from "../scheme/resource-definitions.ts";
import { cannotConvertScale, SCALE_KIND, withWrittenScale } from "./apply-scale.ts";
import { decodedApply, SCALE, type Target } from "./decode-body.ts";
import { scaleOf } from "./scale.ts";
import type { ResourcePath } from "./request-info.ts";

export interface Applying extends FieldWriter {
  readonly force: boolean;
  readonly dryRun: boolean;
}

const APPLY_MEDIA_TYPE = "application/apply-patch+yaml";

export function isApply(contentType: string | undefined): boolean {
  return contentType?.includes(APPLY_MEDIA_TYPE) === true && contentType.split(";")[0]?.trim() === APPLY_MEDIA_TYPE;
}

/** @throws {ApiError} 422 for parameters that do not fit the kind of patch. Source: validation.go ValidatePatchOptions. */
export function checkPatchOptions(apply: boolean, query: (name: string) => string | undefined): void {
  const required = apply && (query("fieldManager") ?? "") === "" ? [fieldRequired("fieldManager", "is required for apply patch")] : [];
  const forbidden = !apply && query("force") !== undefined ? [fieldForbidden("force", "may not be specified for non-apply patch")] : [];
  const errors = [...required, ...forbidden];
  if (errors.length > 0) throw invalid({ group: "meta.k8s.io", kind: "PatchOptions" }, "", errors);
}

/** Merges a configuration into the object, or creates it. @throws {ApiError} */
export function applyConfiguration(
  registry: Registry,
  { definition, namespace, name, subresource }: ResourcePath,
  body: unknown,
  applying: Applying,
): { readonly object: JsonObject; readonly isCreated: boolean } {
  const target = subresource === "scale" ? SCALE : definition;
  const kind = subresource === "scale" ? SCALE_KIND : managedKindOf(definition);
  const configuration = configurationOf(target, body);
  ensureObject(configuration, "metadata")["name"] ??= name;
  const { dryRun } = applying;
  const apply = (live: JsonObject): JsonObject => decodedApply(applied(kind, live, configuration, applying), target);
  if (subresource === "scale") {
    const scale = (before: JsonObject): JsonObject => {
      if (definition.custom !== undefined && metaOf(before)["managedFields"] === undefined) throw cannotConvertScale("live", "");
      const after = apply(before);
      if (definition.custom !== undefined && !jsonEqual(before["spec"], after["spec"])) throw cannotConvertScale("new", name);
      return after;
    };
    const transform = (live: JsonObject): JsonObject => withWrittenScale(definition, live, scale);
    const update = { namespace, name, subresource: "", verb: "patch", dryRun, isApplied: true, transform } as const;
    return { object: scaleOf(definition, registry.update(definition, update).object), isCreated: false };
  }
  const transform = apply;
  if (registry.find(definition, namespace, name) !== undefined)
    return registry.update(definition, { namespace, name, subresource, verb: "patch", dryRun, isApplied: true, transform });
  if (subresource !== "") throw notFound(definition, name);
  const { name: given, uid = "" } = metaOf(configuration);
  // A uid names the object that is meant, which was deleted.
  if (uid !== "") {
    const why = `uid mismatch: the provided object specified uid ${String(uid)}, and no existing object was found`;
    throw conflict(definition, name, why);
  }
  if (given !== name) throw badRequest(`the name of the object (${String(given)}) does not match the name on the URL (${name})`);
  const object = transform(kind.empty);
  return { object: registry.create(definition, namespace, object, { dryRun, isApplied: true }), isCreated: true };
}

function configurationOf(target: Target, body: unknown): JsonObject {
  const value = typeof body === "string" ? parsedConfiguration(body) : body;
  if (!isObject(value)) throw badRequest("error decoding patch: the configuration is not an object");
  const configuration = clone(value);
  const gvk = gvkText(textAt(configuration, "apiVersion") ?? "", textAt(configuration, "kind") ?? "");
  if (gvk !== gvkText(apiVersionOf(target), target.kind)) throw badRequest(`invalid object type: ${gvk}`);
  if ((metaOf(configuration)["managedFields"] ?? null) !== null) throw badRequest("metadata.managedFields must be nil");
  return configuration;
}

/** Clients send JSON, for which the reader of YAML takes much longer. */
function parsedConfiguration(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    // The body is YAML, or neither JSON nor YAML.
  }
  try {
    return parseYaml(text);
  } catch (error) {
    throw badRequest(`error decoding patch: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Source: apimachinery/pkg/runtime/schema/group_version.go GroupVersionKind.String. */
function gvkText(apiVersion: string, kind: string): string {
  return `${apiVersion.includes("/") ? "" : "/"}${apiVersion}, Kind=${kind}`;
}

function applied(kind: ManagedKind, live: JsonObject, configuration: JsonObject, applying: Applying): JsonObject {
  try {
    return appliedObject(live, configuration, { kind, ...applying });
  } catch (error) {
    if (error instanceof ApplyConflictError) {
      const causes = error.causes.map(({ manager, path }) => ({
        reason: "FieldManagerConflict",
        message: `conflict with ${manager}`,
        field: path,
      }));
      throw new ApiError(409, "Conflict", error.message, { causes });
    }
    if (!(error instanceof TypeMismatchError)) throw error;
    const { namespace, name } = metaOf(configuration);
    const what = `${String(namespace ?? "")}/${String(name ?? "")}; ${gvkText(kind.apiVersion, kind.kind)}`;
    throw new ApiError(500, "", `failed to create typed patch object (${what}): ${error.message}`);
  }
}
