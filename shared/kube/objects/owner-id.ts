/**
 * Owner ids, the keys of slices in caches (design decision 14). An owner id includes the namespace: anyone who may read objects can read
 * uids, and a slice keyed by the uid alone would let one namespace move another's pods. A reference that matches only in part is another
 * owner.
 *
 *     | dependents  | owner's identity                 | Source                                                          |
 *     |-------------|----------------------------------|-----------------------------------------------------------------|
 *     | pods        | namespace, kind, name and uid    | pkg/controller/controller_utils.go PodControllerIndexKey        |
 *     | replicasets | namespace and uid                | controller_ref_manager.go ClaimReplicaSets, from a list of the namespace |
 *
 * Differs from upstream: the sibling ReplicaSets that rank a scale-down's victims are those of one namespace (upstream's index
 * `controllerUID` has no namespace).
 */
import { hash } from "node:crypto";
import type { Cached, CachedOwner, CachedPod, CachedReplicaSet } from "./cached.ts";
import { controllerRef } from "./owner-references.ts";
import { CONTROLLER_INFO, RESOURCES, splitKey } from "./resources.ts";
import type { CachedResource, Controller, ObjectKey } from "./resources.ts";

/** 22 characters of base64, 128 bits of a SHA-256: an opaque key. Unlike the names of orphan slices, it never starts with a dash. */
export type OwnerId = string;

const CHARACTERS = 22;

/** The owner id of pods. */
export function podOwnerId(namespace: string, { kind, name, uid }: CachedOwner): OwnerId {
  return idOf([namespace, kind, name, uid]);
}

/** The owner id of other objects. */
export function ownerId(namespace: string, uid: string): OwnerId {
  return idOf([namespace, uid]);
}

/** Returns the name of the slice that a primary watches: by its key, or by namespace or cluster. */
export function mappedSlice(by: "key" | "namespace" | "cluster", key: ObjectKey): OwnerId {
  return idOf([by, by === "key" ? key : by === "namespace" ? splitKey(key).namespace : ""]);
}

/** Whether two pods have the same controller, or both have none. */
export function sameOwner(a: CachedOwner | undefined, b: CachedOwner | undefined): boolean {
  return a?.uid === b?.uid && a?.kind === b?.kind && a?.name === b?.name;
}

/** The controller owner of a cached object, if any. */
export function ownerOfCached(resource: CachedResource, object: Cached): OwnerId | undefined {
  if (resource === "pods") {
    const { namespace, owner } = object as CachedPod; // `resource` determines the type
    return owner && podOwnerId(namespace, owner);
  }
  const { metadata } = object as CachedReplicaSet; // all other kinds have metadata
  const reference = controllerRef(metadata);
  return reference && ownerId(metadata.namespace, reference.uid);
}

/** The owner id of a primary, which keys its dependents' slice and its intents. */
export function primaryAsOwner(controller: Controller, key: ObjectKey, uid: string): OwnerId {
  const { primary, dependents } = CONTROLLER_INFO[controller];
  const { namespace, name } = splitKey(key);
  return dependents === "pods" ? podOwnerId(namespace, { kind: RESOURCES[primary].kind, name, uid }) : ownerId(namespace, uid);
}

/**
 * Joins the components with NUL, which neither namespaces nor real owners contain, so that the text is unambiguous. (A reference may hold
 * any character; an invalid one then names an owner that does not exist.)
 */
function idOf(parts: readonly string[]): OwnerId {
  return hash("sha256", parts.join("\0"), "base64").slice(0, CHARACTERS);
}
