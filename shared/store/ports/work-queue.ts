/** The work queue: keys that are due, and runs (informer §12). */
import type { OwnerId, Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { Forged, Row } from "./index-store.ts";
import type { Stop } from "./guard-store.ts";
import type { DecisionMark, Intent } from "./intents.ts";
import type { TakenLineage } from "./lineage.ts";
import type { DoneResult, Outcome, Taken } from "./taken.ts";

/** The state of the pod cache when a key was taken. */
export interface PodCache {
  readonly fence: string;
  /** How often pods were marked SUSPECT in this epoch. */
  readonly suspects: number;
  /** The least watermark of the pod lanes. */
  readonly watermark: string;
  /** When the key was taken, by the Store's time. */
  readonly atMs: number;
}

export interface Snapshot {
  /** Absent when the primary is gone: nothing to do. */
  readonly primary?: Row;
  /** The primary's slice (pods, or replica sets of a Deployment). */
  readonly dependents: readonly Row[];
  /** Objects of the dependents' resource in the namespace without controller owner. */
  readonly orphans: readonly Row[];
  readonly intents: readonly Intent[];
  /** Absent where pods were never opened. */
  readonly pods?: PodCache;
  /** The basis of the owner's creates and deletes. Absent: no list yet, or an older build wrote the row. */
  readonly mark?: DecisionMark;
  /** Pods of the owner that ceased to be active since the snapshot that its last own status was computed from. Absent: none. */
  readonly left?: number;
  /** resourceVersion by which another primary of this key was gone, if that is known and above the watermark. */
  readonly predecessorGone?: string;
  /** Consecutive failures of this key. */
  readonly failures: number;
  /** Preceding starts of this key that never ended, because the run died or was too slow. Absent: none. */
  readonly unended?: number;
  /** Values that fail their MAC, which are not among the rows: they must be read live before any decision (A14). */
  readonly forged?: readonly Forged[];
}

export type TakeResult =
  | {
      readonly kind: "ok";
      readonly snapshot: Snapshot;
      readonly leaseUntilMs: number;
      readonly lineage?: TakenLineage;
      /** That the cluster runs, as far as it is published. */
      readonly release?: string;
    }
  /**
   * Expired ops of a dead token: look them up live, write them through, `done`. No snapshot to decide on: it has the primary
   * and exactly the expired ops, which are the run's own from here on (else IT1 would forbid it to lower them).
   */
  | { readonly kind: "recover"; readonly snapshot: Snapshot; readonly leaseUntilMs: number; readonly lineage?: TakenLineage }
  /** Another controller is at work, and no user has resumed (GD1). */
  | { readonly kind: "stopped"; readonly stop: Stop }
  | { readonly kind: "gated"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "empty" }
  | { readonly kind: "notYet"; readonly delayMs: number; readonly bell: Doorbell }
  /** The primary's uid or owner is another one than the caller's; take again with these. */
  | { readonly kind: "moved"; readonly uid?: string; readonly owner?: OwnerId }
  | { readonly kind: "otherEpoch" };

/** A key that is not run until it is added again: by its next event, the resync (informer §15), or an operator. */
export interface ParkedKey {
  readonly key: ObjectKey;
  /** When its last run ended, by the Store's time. */
  readonly sinceMs: number;
  /** How often in a row it had failed then, that run included. */
  readonly failures: number;
}

export interface WorkQueue {
  /** Queues `key` at now + `delayMs`; the answer is the doorbell to ring, if one is due. */
  add(epoch: string, controller: Controller, key: ObjectKey, delayMs: number): Promise<Doorbell | undefined>;
  take(run: Taken, known: { readonly uid?: string; readonly owner?: OwnerId }): Promise<TakeResult>;
  /**
   * A whole lease more (shared/base/times.ts), or undefined when the key was taken over. Answers the new lease end; `stopped`: the lease
   * stays as it is, and no call may begin (GD1).
   */
  renew(run: Taken): Promise<number | "stopped" | undefined>;
  done(run: Taken, outcome: Outcome): Promise<DoneResult>;
  /**
   * Queues every primary of `controller`, spread evenly over `spreadMs` from now (WQ7). Answers the doorbells of the first 500; the
   * sweeper rings the others.
   */
  resync(epoch: string, controller: Controller, spreadMs: number): Promise<readonly Doorbell[]>;
  /** Keys overdue by 5 s without a run, and keys whose lease ran out (≤ 500 a pass), of controllers whose gate is open. */
  sweep(epoch: string): Promise<readonly Doorbell[]>;
  /** Queued and running keys with their times, for users and tests. */
  queued(
    controller: Controller,
  ): Promise<
    readonly { readonly key: ObjectKey; readonly readyAtMs?: number; readonly leaseUntilMs?: number; readonly failures: number }[]
  >;
  /** Parked keys (WQ6), for users, in the order of keys. */
  parked(controller: Controller): Promise<readonly ParkedKey[]>;
}
