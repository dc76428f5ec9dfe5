/**
 * Who owns what, as caches name it (design decision 14). An owner is bound to its namespace: uids can be read by whoever may read
 * objects, so a slice named by a uid alone let one namespace move another's pods. A reference that matches in part is another
 * owner's, and so nobody's.
 *
 *     | dependents  | what names the owner             | Source                                                          |
 *     |-------------|----------------------------------|-----------------------------------------------------------------|
 *     | pods        | namespace, kind, name and uid    | pkg/controller/controller_utils.go PodControllerIndexKey        |
 *     | replicasets | namespace and uid                | controller_ref_manager.go ClaimReplicaSets, of a namespace's list |
 *
 * Differs from upstream: the ReplicaSets of one controller, which rank a scale-down's victims, are those of its namespace
 * (upstream's index `controllerUID` knows no namespace).
 */
import { hash } from "node:crypto";
import type { Cached, CachedOwner, CachedPod, CachedReplicaSet } from "./cached.ts";
import { controllerRef } from "./owner-references.ts";
import { CONTROLLER_INFO, RESOURCES, splitKey } from "./resources.ts";
import type { CachedResource, Controller, ObjectKey } from "./resources.ts";

/**
 * 22 characters of base64, 128 bits of a SHA-256: it names a slice and is compared, and nobody reads more from it. It never begins
 * with a dash, as the slices of orphans do.
 */
export type OwnerId = string;

const CHARACTERS = 22;

/** The owner of pods: every part counts. */
export function podOwnerId(namespace: string, { kind, name, uid }: CachedOwner): OwnerId {
  return idOf([namespace, kind, name, uid]);
}

/** The owner of anything else. */
export function ownerId(namespace: string, uid: string): OwnerId {
  return idOf([namespace, uid]);
}

/** Whether two pods name the same controller; both without one is the same. */
export function sameOwner(a: CachedOwner | undefined, b: CachedOwner | undefined): boolean {
  return a?.uid === b?.uid && a?.kind === b?.kind && a?.name === b?.name;
}

/** The controller owner of a cached object; absent = it has none. */
export function ownerOfCached(resource: CachedResource, object: Cached): OwnerId | undefined {
  if (resource === "pods") {
    const { namespace, owner } = object as CachedPod; // `resource` says so
    return owner && podOwnerId(namespace, owner);
  }
  const { metadata } = object as CachedReplicaSet; // all others have metadata
  const reference = controllerRef(metadata);
  return reference && ownerId(metadata.namespace, reference.uid);
}

/** A primary as the owner of its dependents: names their slice and its intents. */
export function primaryAsOwner(controller: Controller, key: ObjectKey, uid: string): OwnerId {
  const { primary, dependents } = CONTROLLER_INFO[controller];
  const { namespace, name } = splitKey(key);
  return dependents === "pods" ? podOwnerId(namespace, { kind: RESOURCES[primary].kind, name, uid }) : ownerId(namespace, uid);
}

/**
 * Parts are kept apart by NUL, which no namespace and nothing of a real owner holds: a text with as many of them as a real owner's has
 * one reading. (A reference may hold any character; a foreign one then names an owner that does not exist.)
 */
function idOf(parts: readonly string[]): OwnerId {
  return hash("sha256", parts.join("\0"), "base64").slice(0, CHARACTERS);
}
