/** Owner references: an object's controller, and the reference that a controller sets when it creates or adopts. */
import { objectKey } from "./resources.ts";
import type { ObjectKey, ResourceInfo } from "./resources.ts";
import type { OwnerReference } from "./wire.ts";

/** The first reference with `controller: true`. Source: apimachinery pkg/apis/meta/v1/controller_ref.go GetControllerOf. */
export function controllerRef(metadata: { readonly ownerReferences?: readonly OwnerReference[] }): OwnerReference | undefined {
  return metadata.ownerReferences?.find((reference) => reference.controller === true);
}

/**
 * The object that a reference in `namespace` names. Returns undefined for an invalid name, which the API server accepts in references. Such
 * a reference affects no key, but its object still has a controller and is not an orphan.
 */
export function referencedKey(namespace: string, { name }: Pick<OwnerReference, "name">): ObjectKey | undefined {
  return name === "" || name.includes("/") ? undefined : objectKey(namespace, name);
}

/**
 * The controller reference to `owner`, as set on pods and ReplicaSets:
 * `{ apiVersion: "apps/v1", kind: "ReplicaSet", name, uid, controller: true, blockOwnerDeletion: true }`.
 *
 * Source: controller_ref.go NewControllerRef.
 */
export function ownerReferenceTo(
  info: Pick<ResourceInfo, "apiVersion" | "kind">,
  owner: { readonly metadata: { readonly name: string; readonly uid: string } },
): OwnerReference {
  const { name, uid } = owner.metadata;
  return { apiVersion: info.apiVersion, kind: info.kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** Whether `uid` controls the object; kind and name are not compared. Source: controller_ref.go IsControlledBy. */
export function isControlledBy(metadata: { readonly ownerReferences?: readonly OwnerReference[] }, uid: string): boolean {
  return controllerRef(metadata)?.uid === uid;
}

/** Whether two controller references are equal in every field, or both absent. */
export function sameControllerRef(a: OwnerReference | undefined, b: OwnerReference | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.apiVersion === b.apiVersion &&
    a.kind === b.kind &&
    a.name === b.name &&
    a.uid === b.uid &&
    a.controller === b.controller &&
    a.blockOwnerDeletion === b.blockOwnerDeletion
  );
}
