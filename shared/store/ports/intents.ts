/**
 * Intents, this project's expectations: creates and deletes are registered before their calls, and settled with the write-through of the
 * responses (informer §13).
 */
import type { CachedResource, Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { ItemChange, ItemOutcome, NamespaceCount } from "./index-store.ts";
import type { DoneResult, Outcome, Taken } from "./taken.ts";

/**
 * A call that was, may be or will be made for an owner. `pending` (a call may be in flight) blocks creates and deletes;
 * `planned` (a name to use first) blocks nothing.
 */
export interface Intent {
  /** `c:<pod name>` or `d:<pod uid>`. */
  readonly id: string;
  readonly verb: "create" | "delete";
  readonly name: string;
  /** Deletes only. */
  readonly uid?: string;
  readonly state: "pending" | "planned";
  readonly token: string;
  readonly deadlineMs: number;
  /** An unanswered call with this name may still land until then; a name is not given up before. */
  readonly mayLandUntilMs?: number;
}

/**
 * The basis of an owner's creates and deletes. It is valid under this fence and number of SUSPECT marks alone, and is deleted with
 * the owner.
 */
export interface DecisionMark {
  /** `listed`: a live list of its pods. `created`: our answered POST of the owner itself. `disputed`: a list that contradicted the cache. */
  readonly kind: "listed" | "created" | "disputed";
  readonly fence: string;
  readonly suspects: number;
  /** resourceVersion of the list, or of the owner as it was created. */
  readonly version: string;
  /** When, by the Store's time. */
  readonly atMs: number;
  /** When lists contradicted the cache, the latest two. */
  readonly disputedMs?: readonly number[];
}

export interface IntentStore {
  /** Pending from now, for OP_DEADLINE_MS. "stolen" without the lease or when the key's uid is no longer `ownerUid`. */
  registerIntents(
    run: Taken,
    ownerUid: string,
    intents: readonly Pick<Intent, "id" | "verb" | "name" | "uid" | "mayLandUntilMs">[],
  ): Promise<"ok" | "stolen">;
  /**
   * Own answers and live reads, by the rules A1, A4–A7, A10, and what became of the run's own ops. The key itself is queued
   * if a row changed or an answer was dropped by A5/A6, never by its own status. Also re-stamps the deadline of the token's
   * pending ops.
   */
  writeThrough(run: Taken, write: WriteThrough): Promise<WriteThroughResult>;
}

export interface WriteThrough {
  readonly resource: CachedResource;
  /** ≤ 500 puts, one per key. */
  readonly items: readonly ItemChange[];
  readonly counts: readonly NamespaceCount[];
  readonly ownerUid: string;
  /** Ops that ended (done, refused). Quiet: lowering one's own op queues nothing. */
  readonly lower: readonly string[];
  /** Creates that were not answered, or not tried while an earlier call may still land: back to planned, only if they still exist. */
  readonly plan: readonly { readonly id: string; readonly mayLand: boolean }[];
  /** Creates that a terminating namespace has refused: pending for the expectation's five minutes, as upstream keeps expecting them. */
  readonly hold?: readonly string[];
  /** Rows of `resource` (pods) whose delete was answered without an object: flag `gone`. Not done on `retry`, like the ops. */
  readonly gone: readonly { readonly key: ObjectKey; readonly uid: string }[];
  /** Marks of owners, each kept only if the Store knows the owner by this uid after the items. Not done on `retry`, like the ops. */
  readonly marks?: readonly {
    readonly controller: Controller;
    readonly key: ObjectKey;
    readonly uid: string;
    readonly mark: DecisionMark;
  }[];
  /** The items are the answer to the primary's own status write. */
  readonly ownStatus: boolean;
  /** Of an own status: the run's `Snapshot.left`, which that status counts no more. */
  readonly left?: number;
  /** Then the run ends, in the same step and as by `done` (WQ8). Not done on `retry`, like the ops. */
  readonly ends?: Outcome;
}

export type WriteThroughResult =
  | {
      readonly kind: "ok";
      readonly bells: readonly Doorbell[];
      readonly outcomes: readonly ItemOutcome[];
      /** Of `ends`. */
      readonly done?: DoneResult;
    }
  | { readonly kind: "retry"; readonly index: number; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  | { readonly kind: "otherEpoch" };
