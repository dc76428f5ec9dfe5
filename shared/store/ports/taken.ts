/** A run of a key, as returned by the work queue and used by intents. */
import type { Controller, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { TakenLineage } from "./lineage.ts";

export interface Taken<C extends ControllerName = Controller> {
  readonly epoch: string;
  readonly controller: C;
  readonly key: ObjectKey;
  /** Random token of this take. */
  readonly token: string;
  /** The lineage that `take` returned (LN4). If absent, it is not compared. */
  readonly lineage?: TakenLineage;
}

/** A run of any controller. */
export type AnyTaken = Taken<ControllerName>;

/** How a run ends. */
export type Outcome =
  | { readonly kind: "ok" }
  /** The key is retried after its back-off, or after `withinMs` if that is earlier, for a deadline that a failure must not delay. */
  | { readonly kind: "retry"; readonly withinMs?: number }
  | { readonly kind: "requeueAfter"; readonly delayMs: number }
  /** The key is parked (WQ6), because the error is final or the last retry failed. */
  | { readonly kind: "drop" };

export type DoneResult =
  /** `failures` is the number of consecutive failures, including this run. */
  | { readonly kind: "done"; readonly failures: number; readonly bell?: Doorbell }
  /** No run holds the key. Usually the call is a repeat, because the first response was lost with its doorbell; otherwise WQ9. */
  | { readonly kind: "ended"; readonly bell?: Doorbell }
  | { readonly kind: "stolen" };
