/** A run of a key, as the work queue hands it out and the intents ask for it. */
import type { Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { TakenLineage } from "./lineage.ts";

export interface Taken {
  readonly epoch: string;
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** Random, one per take. */
  readonly token: string;
  /** As `take` returned it (LN4); absent: not compared. */
  readonly lineage?: TakenLineage;
}

/** How it ends. */
export type Outcome =
  | { readonly kind: "ok" }
  /** After its back-off; `withinMs` at the latest, when something falls due that the failure must not hold up. */
  | { readonly kind: "retry"; readonly withinMs?: number }
  | { readonly kind: "requeueAfter"; readonly delayMs: number }
  /** Given up after its last retry, or at once: parked (WQ6). */
  | { readonly kind: "drop" };

export type DoneResult =
  /** `failures`: in a row, this run included. */
  | { readonly kind: "done"; readonly failures: number; readonly bell?: Doorbell }
  /** The run had ended before and the key is free: mostly a repeated call whose first answer was lost with its doorbell. */
  | { readonly kind: "ended"; readonly bell?: Doorbell }
  | { readonly kind: "stolen" };
