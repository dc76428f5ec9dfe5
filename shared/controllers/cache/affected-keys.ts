/** The work-queue keys that a change affects. Pure; the informer reads the cache and enqueues. */
import type { Cached, View, ObjectKey } from "@deltaloop/kube/objects";
import type { Effect } from "@deltaloop/store/ports";

/** A change relative to the index: `old` is the indexed object, never one from a message. */
export type Delta = { [R in View]: { readonly resource: R; readonly old?: Cached<R>; readonly new?: Cached<R> } }[View];

/**
 * Cached objects that a decision may look up. On a miss the informer reads the object and calls the decision again.
 */
export interface Lookups {
  get<R extends View>(resource: R, key: ObjectKey): Cached<R> | undefined;
  /** All primaries (the objects that a controller syncs) of a namespace. */
  primaries<R extends View>(resource: R, namespace: string): readonly Cached<R>[];
}

/** One controller's entry in the registry. `delta` never pairs two uids: a replaced object is a delete and an add. */
export type AffectedKeys = (delta: Delta, lookups: Lookups) => readonly Effect[];
