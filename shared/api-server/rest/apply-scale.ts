/**
 * Server-side apply of /scale.
 *
 * Source: kubernetes/pkg/registry/apps/deployment/storage/storage.go (scaleUpdatedObjectInfo),
 * apiextensions-apiserver/pkg/registry/customresource/etcd.go.
 */
import { clone, ensureObject, type JsonObject, metaOf, numberAt, objectAt, textAt } from "@deltaloop/base";
import { builtInTypes } from "../apply/built-in-types.ts";
import { managedAfterUpdate, type ManagedKind } from "../apply/field-manager.ts";
import { setOf } from "../apply/field-set.ts";
import { fieldElement } from "../apply/path-element.ts";
import { parentEntries, type ReplicasPath, SCALE_TYPE, SCALE_VERSION, scaleEntries } from "../apply/scale-fields.ts";
import type { FieldWriter } from "../registry/field-managers.ts";
import { ApiError, fieldInvalid, invalid } from "../scheme/api-error.ts";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import { scaleOf, withScale } from "./scale.ts";

export const SCALE_KIND: ManagedKind = {
  get schema() {
    return builtInTypes();
  },
  apiVersion: SCALE_VERSION,
  kind: "Scale",
  typeIn: (version) => (version === SCALE_VERSION ? SCALE_TYPE : undefined),
  empty: { apiVersion: SCALE_VERSION, kind: "Scale", metadata: {}, spec: {}, status: { replicas: 0 } },
  resetFields: () => setOf(),
};

/**
 * The parent after a write of its Scale, with its managed fields.
 *
 * @param write makes the Scale of the one before, with managed fields if that has them
 * @throws {ApiError} 422 for a negative size
 */
export function withWrittenScale(definition: ResourceDefinition, parent: JsonObject, write: (scale: JsonObject) => JsonObject): JsonObject {
  const path = replicasPathOf(definition);
  const entries = metaOf(parent)["managedFields"];
  const before = scaleOf(definition, parent);
  const ofScale = scaleEntries(entries, path);
  if (ofScale !== undefined) ensureObject(before, "metadata")["managedFields"] = ofScale;
  const scale = write(before);
  const replicas = numberAt(objectAt(scale, "spec"), "replicas") ?? 0;
  if (replicas < 0)
    throw invalid({ group: "autoscaling", kind: "Scale" }, textAt(metaOf(parent), "name") ?? "", [
      fieldInvalid("spec.replicas", replicas, "must be greater than or equal to 0"),
    ]);
  const object = withScale(definition, parent, scale);
  const meta = ensureObject(object, "metadata");
  if (entries === undefined && metaOf(scale)["managedFields"] === undefined) return object;
  const after = parentEntries(entries, metaOf(scale)["managedFields"], path);
  if (after === undefined) delete meta["managedFields"];
  else meta["managedFields"] = after;
  return object;
}

/** A Scale that a client sent, with its managed fields. @param isTracked whether the parent has managed fields */
export function trackScale(before: JsonObject, sent: JsonObject, writer: FieldWriter | undefined, isTracked: boolean): JsonObject {
  const scale = clone(sent);
  // Go omits a size of 0, so the field has no manager.
  const spec = objectAt(scale, "spec");
  if (spec?.["replicas"] === 0) delete spec["replicas"];
  const meta = ensureObject(scale, "metadata");
  const entries =
    isTracked && writer !== undefined
      ? managedAfterUpdate(before, scale, { kind: SCALE_KIND, ...writer })
      : metaOf(before)["managedFields"];
  if (entries === undefined) delete meta["managedFields"];
  else meta["managedFields"] = entries;
  return scale;
}

/** Upstream cannot apply a custom resource's Scale, unless that changes nothing. @param which Scale: the one before, or after */
export function cannotConvertScale(which: "live" | "new", name: string): ApiError {
  const why = `failed to convert ${which} object (/${name}; ${SCALE_VERSION}, Kind=Scale) to proper version: request to convert CR to an invalid group/version: ${SCALE_VERSION}`;
  return new ApiError(500, "", which === "live" ? `failed to create manager for existing fields: ${why}` : why);
}

function replicasPathOf(definition: ResourceDefinition): ReplicasPath {
  const path = textAt(definition.custom?.scale, "specReplicasPath") ?? ".spec.replicas";
  return { apiVersion: apiVersionOf(definition), path: path.replace(/^\./u, "").split(".").map(fieldElement) };
}
