/**
 * Managed fields of /scale: those of the parent's replicas, as fields of a Scale.
 *
 * Source: apimachinery/pkg/util/managedfields/scalehandler.go.
 */
import { isObject, type Json, type JsonObject } from "@deltaloop/base";
import { difference, type FieldSet, intersection, setOf } from "./field-set.ts";
import { decodeManagedFields, encodeManagedFields, type Managed } from "./managed-fields.ts";
import { fieldElement, type Path } from "./path-element.ts";
import type { TypeRef } from "./type-schema.ts";
import type { Owned } from "./updater.ts";

export const SCALE_VERSION = "autoscaling/v1";
const REPLICAS = setOf([fieldElement("spec"), fieldElement("replicas")]);

/** The path of the replicas field in the parent resource. */
export interface ReplicasPath {
  /** The API version of the parent resource, for example `apps/v1`. */
  readonly apiVersion: string;
  readonly path: Path;
}

const NUMBER: TypeRef = { scalar: "numeric" };
const TEXT: TypeRef = { scalar: "string" };

export const SCALE_TYPE: TypeRef = struct({
  apiVersion: TEXT,
  kind: TEXT,
  metadata: { name: "meta.v1.ObjectMeta" },
  spec: struct({ replicas: NUMBER }),
  status: struct({ replicas: NUMBER, selector: TEXT }),
});

function struct(types: Readonly<Record<string, TypeRef>>): TypeRef {
  const fields = new Map(Object.entries(types).map(([name, type]) => [name, { type }]));
  return { map: { fields, element: undefined, isAtomic: false } };
}

/** The entries of a Scale, from those of its parent. */
export function scaleEntries(entries: Json | undefined, { apiVersion, path }: ReplicasPath): JsonObject[] | undefined {
  const { owners, times } = managed(entries);
  const own = [...owners].filter(([, owned]) => owned.apiVersion === apiVersion && has(owned.fields, path));
  return encodeManagedFields({
    owners: new Map(own.map(([id, { isApplied }]) => [id, { apiVersion: SCALE_VERSION, isApplied, fields: REPLICAS }])),
    times,
  });
}

/** Returns the parent's managedFields entries after a write to its scale subresource. `scale`: the entries of the written Scale. */
export function parentEntries(
  entries: Json | undefined,
  scale: Json | undefined,
  { apiVersion, path }: ReplicasPath,
): JsonObject[] | undefined {
  const { owners: before, times } = managed(entries);
  const ofScale = new Map(managed(scale).owners);
  const owners = new Map<string, Owned>();
  for (const [id, owned] of before) {
    if (owned.apiVersion !== apiVersion) continue;
    if (!has(owned.fields, path) || ofScale.delete(id)) owners.set(id, owned);
    else {
      // Another manager has taken the replicas.
      const fields = difference(owned.fields, setOf(path));
      if (fields.size > 0) owners.set(id, { ...owned, fields });
    }
  }
  for (const [id, { isApplied, fields }] of ofScale)
    if (intersection(fields, REPLICAS).size > 0) owners.set(id, { apiVersion, isApplied, fields: setOf(path) });
  return encodeManagedFields({ owners, times });
}

function managed(entries: Json | undefined): Managed {
  return decodeManagedFields(Array.isArray(entries) ? entries.filter(isObject) : []);
}

function has(fields: FieldSet, path: Path): boolean {
  return intersection(fields, setOf(path)).size > 0;
}
