/** The inputs and results of perform.ts as plain types, so that every part of it can use them. */
import type { Cached, CachedResource, KubeObject } from "@deltaloop/kube/objects";
import type { Succeeded, SyncResult } from "./run.ts";
import type { Sealed } from "./sealed.ts";
import type { Write } from "./writes.ts";

export type WriteOf<K extends Write["kind"]> = Extract<Write, { readonly kind: K }>;

/** The writes that `perform` accepts without further input; the other kinds have their own functions in perform.ts. */
export type ListedWrite = Exclude<Write, { readonly kind: "CreateReplicaSet" | "RollBack" | "UpdateStatus" }>;

/** Makes the body of a ReplicaSet from the live owner, whose generation and digest are those of the decision. */
export type BuildReplicaSet = (live: KubeObject, write: WriteOf<"CreateReplicaSet">) => Sealed<object>;

/** Makes the merge patch of a rollback from the live owner and the live ReplicaSet to roll back to, if there is one. */
export type BuildRollback = (live: KubeObject, target: KubeObject | undefined, write: WriteOf<"RollBack">) => Sealed<object>;

export interface StatusOptions {
  /**
   * ReplicaSets and ReplicationControllers only. Called after a conflict if the generation is unchanged: returns the status for the live
   * object, with that object's other conditions and resourceVersion, or undefined if the live object already has it.
   */
  readonly recompute?: (live: Cached) => WriteOf<"UpdateStatus"> | undefined;
  /** Set if this is the sync's last write: returns the sync's result from the stored object. The write-through may then end the run (WQ8). */
  readonly finalResult?: (stored: Cached) => Succeeded;
}

/** The result of one write. Objects are stripped: full API objects never leave perform(). */
export type WriteResult =
  | StoredResult
  /** CreatePods: the number of pods created, including those that a terminating namespace rejected (replicaset §7.1). */
  | { readonly kind: "created"; readonly count: number }
  | { readonly kind: "deleted" }
  /** The object no longer exists (404), or (release) another object has its name. */
  | { readonly kind: "gone"; readonly error: Error }
  /** PatchReplicaSet: another client wrote first; the live object was written through, which queues the key. DeleteReplicaSet: it changed. DeletePod: replaced, released or terminating. */
  | { readonly kind: "conflict"; readonly error: Error }
  /** CreateReplicaSet: the name is taken; `live` is the object that has it (absent if that object no longer exists). The caller decides. */
  | { readonly kind: "alreadyExists"; readonly error: Error; readonly live?: Cached<"replicasets"> }
  | { readonly kind: "failed"; readonly error: Error }
  /** Not called: an earlier write failed, the owner is being deleted, or the sync ends here. */
  | { readonly kind: "notTried" };

export type StoredResult = {
  [R in CachedResource]: { readonly kind: "stored"; readonly resource: R; readonly object: Cached<R> };
}[CachedResource];

export interface Performed {
  /**
   * Ends the sync: the owner is gone (done), it changed since the decision (again), or nothing was sent (shadow mode: done).
   */
  readonly end?: SyncResult;
  /** One per write, in order. */
  readonly results: readonly WriteResult[];
  /**
   * The error with which the sync must end, after its remaining work such as a status write. Claims: the aggregate of all errors. Creates
   * or deletes: one of the errors, as in upstream. A ReplicaSet patch is an error if the object was changed or deleted. `alreadyExists` is
   * not an error, nor is an object that a clean-up or claim finds deleted.
   */
  readonly error?: Error;
}
