/** What controllers say about a change: which work-queue keys it concerns. Pure; the informer does the looking up. */
import type { Cached, CachedResource, ObjectKey } from "@deltaloop/kube/objects";
import type { Effect } from "@deltaloop/store/ports";

/** A change as the index saw it: `old` is what the index held, never what a message claims. */
export type Delta = { [R in CachedResource]: { readonly resource: R; readonly old?: Cached<R>; readonly new?: Cached<R> } }[CachedResource];

/**
 * Cached objects a decision may ask for. The informer answers what it has read; what it has not, it reads, and asks the
 * decision again. So a decision simply looks up what it needs.
 */
export interface Lookups {
  get<R extends CachedResource>(resource: R, key: ObjectKey): Cached<R> | undefined;
  /** All primaries of a namespace. */
  primaries<R extends CachedResource>(resource: R, namespace: string): readonly Cached<R>[];
}

/** One controller's part of the registry. `delta` never pairs two uids: a replaced object comes as a delete and an add. */
export type AffectedKeys = (delta: Delta, lookups: Lookups) => readonly Effect[];
