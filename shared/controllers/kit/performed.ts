/** The inputs and results of perform.ts as plain types, so that every part of it can use them. */
import type { Cached, CachedResource, KubeObject } from "@deltaloop/kube/objects";
import type { Succeeded, SyncResult } from "./run.ts";
import type { Sealed } from "./sealed.ts";
import type { Write } from "./writes.ts";

export type WriteOf<K extends Write["kind"]> = Extract<Write, { readonly kind: K }>;

/** The writes that need nothing but themselves. The others have functions of their own in perform.ts, which name what they need. */
export type ListedWrite = Exclude<Write, { readonly kind: "CreateReplicaSet" | "RollBack" | "UpdateStatus" }>;

/** Makes the body of a ReplicaSet from the live owner, whose generation and digest are those of the decision. */
export type BuildReplicaSet = (live: KubeObject, write: WriteOf<"CreateReplicaSet">) => Sealed<object>;

/** Makes the merge patch of a rollback from the live owner and the live ReplicaSet to roll back to, if there is one. */
export type BuildRollback = (live: KubeObject, target: KubeObject | undefined, write: WriteOf<"RollBack">) => Sealed<object>;

export interface StatusOptions {
  /**
   * ReplicaSets and ReplicationControllers only, after a lost race with the generation unchanged: returns the same status on top of the
   * live object (its other conditions, its resourceVersion), or undefined if nothing is left to write.
   */
  readonly recompute?: (live: Cached) => WriteOf<"UpdateStatus"> | undefined;
  /** Set if this is the sync's last write: returns the sync's result from the stored object. The write-through may then end the run (WQ8). */
  readonly finalResult?: (stored: Cached) => Succeeded;
}

/** One answer. Objects are stripped: full API objects never leave perform(). */
export type WriteResult =
  | StoredResult
  /** CreatePods: how many of them exist now (or were refused because the namespace is going away, replicaset §7.1). */
  | { readonly kind: "created"; readonly count: number }
  | { readonly kind: "deleted" }
  /** The object is gone (404), or (release) another one stands in its place. */
  | { readonly kind: "gone"; readonly error: Error }
  /** PatchReplicaSet: somebody wrote first; what stands there now has been written through, which queues the key. DeleteReplicaSet: it changed. DeletePod: it is another one, or no longer the owner's, or on its way out. */
  | { readonly kind: "conflict"; readonly error: Error }
  /** CreateReplicaSet: the name is taken; `live` is who has it (absent: gone again). The caller decides what that means. */
  | { readonly kind: "alreadyExists"; readonly error: Error; readonly live?: Cached<"replicasets"> }
  | { readonly kind: "failed"; readonly error: Error }
  /** Not called: an earlier write failed, the owner is being deleted, or the sync ends here. */
  | { readonly kind: "notTried" };

export type StoredResult = {
  [R in CachedResource]: { readonly kind: "stored"; readonly resource: R; readonly object: Cached<R> };
}[CachedResource];

export interface Performed {
  /**
   * The sync ends here, whatever else it would have done: the owner is gone (done), it changed under the decision (again),
   * or nothing was sent (shadow: done).
   */
  readonly end?: SyncResult;
  /** One per write, in order. */
  readonly results: readonly WriteResult[];
  /**
   * What the sync must end with, after what it still wants to do (a status write, say). Of claims all, aggregated; of a batch
   * of creates or deletes one of them, as upstream. A patch of a ReplicaSet that found it changed or gone is an error; not so
   * `alreadyExists`, nor what a clean-up or a claim finds gone.
   */
  readonly error?: Error;
}
