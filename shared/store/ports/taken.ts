/** A run of a key, as returned by the work queue and used by intents. */
import type { Controller, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { TakenLineage } from "./lineage.ts";

export interface Taken<C extends ControllerName = Controller> {
  readonly epoch: string;
  readonly controller: C;
  readonly key: ObjectKey;
  /** Random, a new one for each take. */
  readonly token: string;
  /** The lineage from `take` (LN4); absent: not compared. */
  readonly lineage?: TakenLineage;
}

/** A run of any controller. */
export type AnyTaken = Taken<ControllerName>;

/** How a run ends. */
export type Outcome =
  | { readonly kind: "ok" }
  /** Retried after its back-off; after `withinMs` at the latest, for a deadline that a failure must not delay. */
  | { readonly kind: "retry"; readonly withinMs?: number }
  | { readonly kind: "requeueAfter"; readonly delayMs: number }
  /** Not retried, because the error is final or was the last retry: the key is parked (WQ6). */
  | { readonly kind: "drop" };

export type DoneResult =
  /** `failures`: consecutive, including this run. */
  | { readonly kind: "done"; readonly failures: number; readonly bell?: Doorbell }
  /** The run had ended already and the key is free: usually a repeated call whose first response was lost with its doorbell. */
  | { readonly kind: "ended"; readonly bell?: Doorbell }
  | { readonly kind: "stolen" };
