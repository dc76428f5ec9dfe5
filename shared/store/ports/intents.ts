/**
 * Intents, this project's expectations: a sync registers creates and deletes before it sends them, and settles them with the write-through
 * of the responses (informer §13). Implemented by memory/store/intents.ts and redis/intent-store.ts (scripts/intents).
 */
import type { View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { ItemChange, ItemOutcome, NamespaceCount } from "./index-store.ts";
import type { RecordChange } from "./last-writes.ts";
import type { DoneResult, Outcome, AnyTaken } from "./taken.ts";

/**
 * A create or delete of an owner's pod. `pending`: the call may be in flight, and the owner's syncs create and delete nothing. `planned`: a
 * pod name that the next create uses first; blocks nothing.
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
  /** Time until which a call with this name that got no response may still take effect, so that the name must be kept. */
  readonly mayLandUntilMs?: number;
}

/**
 * Records what allows an owner's creates and deletes to be based on the cache (controllers/kit/decision-basis.ts). Valid only under this
 * fence and number of SUSPECT marks; deleted with the owner.
 */
export interface DecisionMark {
  /**
   * `listed`: a live list of its pods. `created`: this controller's successful POST of the owner itself. `disputed`: a list that
   * contradicted the cache.
   */
  readonly kind: "listed" | "created" | "disputed";
  readonly fence: string;
  readonly suspects: number;
  /** resourceVersion of the list, or of the created owner. */
  readonly version: string;
  /** Time of the mark, by the Store's time. */
  readonly atMs: number;
  /** Times of the latest two lists that contradicted the cache. */
  readonly disputedMs?: readonly number[];
}

export interface IntentStore {
  /**
   * Registers intents as pending for OP_DEADLINE_MS. Returns "stolen" without the lease, or if the key's uid is no longer `ownerUid`.
   * `drawn`: the next `Snapshot.drawn` (IT5); if absent, it stays unchanged.
   */
  registerIntents(
    run: AnyTaken,
    ownerUid: string,
    intents: readonly Pick<Intent, "id" | "verb" | "name" | "uid" | "mayLandUntilMs">[],
    drawn?: number,
  ): Promise<"ok" | "stolen">;
  /**
   * Writes the responses to this run's writes and live reads into the cache, by the rules A1, A4–A7, A10, and settles the run's intents.
   * Enqueues the run's key if a row changed or a response was late or absent, but not for its own status write. Also renews the deadline of
   * the run's pending intents.
   */
  writeThrough(run: AnyTaken, write: WriteThrough): Promise<WriteThroughResult>;
}

export interface WriteThrough {
  readonly resource: View;
  /** ≤ 500 puts, one per key. */
  readonly items: readonly ItemChange[];
  readonly counts: readonly NamespaceCount[];
  readonly ownerUid: string;
  /** Ids of intents (ops) whose calls got a response. Settling a run's own op enqueues no key. */
  readonly lower: readonly string[];
  /**
   * Creates to plan again if their ops still exist: creates without a response, and creates that were not tried while an earlier call may
   * still take effect.
   */
  readonly plan: readonly { readonly id: string; readonly mayLand: boolean }[];
  /** Creates that a terminating namespace has rejected: pending for five minutes, as upstream's expectation. */
  readonly hold?: readonly string[];
  /**
   * Rows of `resource` (pods) whose delete succeeded without an object in the response: flags them `gone`. Skipped on `retry`, like the
   * ops.
   */
  readonly gone: readonly { readonly key: ObjectKey; readonly uid: string }[];
  /** Marks of owners, each stored only if the Store has the owner with this uid after the items. Skipped on `retry`, like the ops. */
  readonly marks?: readonly {
    readonly controller: ControllerName;
    readonly key: ObjectKey;
    readonly uid: string;
    readonly mark: DecisionMark;
  }[];
  /** Last-write records of the primary, stored only if the Store has it with `ownerUid` after the items. Skipped on `retry`. */
  readonly records?: readonly RecordChange[];
  /** Whether the items are the response to the primary's own status write. */
  readonly ownStatus: boolean;
  /**
   * With an own status write: the run's `Snapshot.left`, to subtract from the stored number because the new status no longer counts these
   * pods.
   */
  readonly left?: number;
  /** The outcome with which the run ends in the same step, as by `done` (WQ8). Skipped on `retry`, like the ops. */
  readonly ends?: Outcome;
}

export type WriteThroughResult =
  | {
      readonly kind: "ok";
      readonly bells: readonly Doorbell[];
      readonly outcomes: readonly ItemOutcome[];
      /** The result of `ends`. */
      readonly done?: DoneResult;
    }
  | { readonly kind: "retry"; readonly index: number; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  | { readonly kind: "otherEpoch" };
