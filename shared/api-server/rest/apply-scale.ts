/**
 * Server-side apply of /scale.
 *
 * Source: kubernetes/pkg/registry/apps/deployment/storage/storage.go (scaleUpdatedObjectInfo),
 * apiextensions-apiserver/pkg/registry/customresource/etcd.go.
 */
import { ensureObject, type JsonObject, metaOf, numberAt, objectAt, textAt } from "@deltaloop/base";
import { builtInTypes } from "../apply/built-in-types.ts";
import type { ManagedKind } from "../apply/field-manager.ts";
import { setOf } from "../apply/field-set.ts";
import { fieldElement } from "../apply/path-element.ts";
import { parentEntries, type ReplicasPath, SCALE_TYPE, SCALE_VERSION, scaleEntries } from "../apply/scale-fields.ts";
import { fieldInvalid, invalid } from "../scheme/api-error.ts";
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

/** The parent after an apply of its Scale, with its managed fields. @param apply merges the configuration @throws {ApiError} */
export function withAppliedScale(definition: ResourceDefinition, parent: JsonObject, apply: (scale: JsonObject) => JsonObject): JsonObject {
  const path = replicasPathOf(definition);
  const entries = metaOf(parent)["managedFields"];
  const before = scaleOf(definition, parent);
  const ofScale = scaleEntries(entries, path);
  if (ofScale !== undefined) ensureObject(before, "metadata")["managedFields"] = ofScale;
  const scale = apply(before);
  const replicas = numberAt(objectAt(scale, "spec"), "replicas") ?? 0;
  if (replicas < 0)
    throw invalid({ group: "autoscaling", kind: "Scale" }, textAt(metaOf(parent), "name") ?? "", [
      fieldInvalid("spec.replicas", replicas, "must be greater than or equal to 0"),
    ]);
  const object = withScale(definition, parent, scale);
  const meta = ensureObject(object, "metadata");
  const after = parentEntries(entries, metaOf(scale)["managedFields"], path);
  if (after === undefined) delete meta["managedFields"];
  else meta["managedFields"] = after;
  return object;
}

function replicasPathOf(definition: ResourceDefinition): ReplicasPath {
  const path = textAt(definition.custom?.scale, "specReplicasPath") ?? ".spec.replicas";
  return { apiVersion: apiVersionOf(definition), path: path.replace(/^\./u, "").split(".").map(fieldElement) };
}
