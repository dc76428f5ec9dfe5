/** The work queue: keys that are due, and runs (informer §12). */
import type { OwnerId, ControllerName, ObjectKey, View } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";
import type { Forged, Row } from "./index-store.ts";
import type { Stop } from "./guard-store.ts";
import type { DecisionMark, Intent } from "./intents.ts";
import type { LastWriteRecord } from "./last-writes.ts";
import type { TakenLineage } from "./lineage.ts";
import type { DoneResult, Outcome, AnyTaken } from "./taken.ts";

/** The state of the pod cache when a key was taken. */
export interface PodCache {
  readonly fence: string;
  /** Number of SUSPECT marks of pods in this epoch. */
  readonly suspects: number;
  /** The least watermark of the pod lanes. */
  readonly watermark: string;
  /** Time at which the key was taken, by the Store's time. */
  readonly atMs: number;
  /** Time at which a list ended the last SUSPECT mark, by the Store's time. Absent if there was none. */
  readonly relistedMs?: number;
}

export interface Snapshot {
  /** Absent if the primary no longer exists; the run then has nothing to do. */
  readonly primary?: Row;
  /** The primary's slice (pods, or ReplicaSets of a Deployment). */
  readonly dependents: readonly Row[];
  /** Objects of the dependents' resource in the namespace without a controller owner. */
  readonly orphans: readonly Row[];
  readonly intents: readonly Intent[];
  /** The rows of each of the controller's `slices`. */
  readonly slices?: ReadonlyMap<View, readonly Row[]>;
  /** The last writes of the run's controller, by the id under which they were stored. Absent if there are none. */
  readonly records?: ReadonlyMap<string, LastWriteRecord>;
  /** Absent if no fence was opened for pods. */
  readonly pods?: PodCache;
  /** The mark that allows the owner's creates and deletes to be based on the cache. Absent if the owner's pods were not listed yet. */
  readonly mark?: DecisionMark;
  /**
   * Number of the owner's pods that became inactive since the snapshot from which this controller computed the owner's last status. Absent
   * if there are none.
   */
  readonly left?: number;
  /** Number of pod names drawn for this owner in this epoch (IT5). Absent if none were drawn, or an older build drew them. */
  readonly drawn?: number;
  /** resourceVersion at which a former primary of the same key no longer existed, if known and above the watermark. */
  readonly predecessorGone?: string;
  /** Consecutive failures of this key. */
  readonly failures: number;
  /** Number of runs directly before this one that never ended, because they crashed or were too slow. Absent if there are none. */
  readonly unended?: number;
  /** Values that have an invalid MAC and are not among the rows; they must be read live before any decision (A14). */
  readonly forged?: readonly Forged[];
}

export type TakeResult =
  | {
      readonly kind: "ok";
      readonly snapshot: Snapshot;
      readonly leaseUntilMs: number;
      readonly lineage?: TakenLineage;
      /** The cluster's release, if published. */
      readonly release?: string;
    }
  /**
   * A crashed run left ops that have expired. Read their objects live, write them through and call `done`. Do not use the snapshot for
   * decisions: it has only the primary and the expired ops, which now have this run's token so that it may settle them (IT1).
   */
  | { readonly kind: "recover"; readonly snapshot: Snapshot; readonly leaseUntilMs: number; readonly lineage?: TakenLineage }
  /** Another controller writes the objects, and no user has resumed (GD1). */
  | { readonly kind: "stopped"; readonly stop: Stop }
  | { readonly kind: "gated"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "empty" }
  | { readonly kind: "notYet"; readonly delayMs: number; readonly bell: Doorbell }
  /** The primary's uid or owner differs from the caller's; call `take` again with the returned values. */
  | { readonly kind: "moved"; readonly uid?: string; readonly owner?: OwnerId }
  | { readonly kind: "otherEpoch" };

/** A key that is not run until it is added again: by its next event, the resync (informer §15), or an operator. */
export interface ParkedKey {
  readonly key: ObjectKey;
  /** Time at which the key's last run ended, by the Store's time. */
  readonly sinceMs: number;
  /** Number of consecutive failures at that time, including the last run. */
  readonly failures: number;
}

export interface WorkQueue {
  /** Queues `key` for now + `delayMs`; returns the doorbell to ring, if one is due. */
  add(epoch: string, controller: ControllerName, key: ObjectKey, delayMs: number): Promise<Doorbell | undefined>;
  take(run: AnyTaken, known: { readonly uid?: string; readonly owner?: OwnerId }): Promise<TakeResult>;
  /**
   * Renews the lease for a full period (shared/base/times.ts) and returns its new end; undefined if the key was taken over. `stopped`: the
   * lease is not renewed, and no new call may start (GD1).
   */
  renew(run: AnyTaken): Promise<number | "stopped" | undefined>;
  done(run: AnyTaken, outcome: Outcome): Promise<DoneResult>;
  /**
   * Queues every primary of `controller` but those outside, spread evenly over `spreadMs` from now (WQ7). Returns the doorbells of the first 500; the sweeper
   * rings the others.
   */
  resync(epoch: string, controller: ControllerName, spreadMs: number): Promise<readonly Doorbell[]>;
  /**
   * Returns the doorbells to send again, at most 500 per call: for keys that are overdue by 5 s without a run and for keys whose lease has
   * expired, if the controller's gate is open.
   */
  sweep(epoch: string): Promise<readonly Doorbell[]>;
  /** Milliseconds until the earliest queued key is due: 0 while one is overdue or a run is in progress; undefined without both. */
  dueIn(epoch: string): Promise<number | undefined>;
  /** Returns queued and running keys with their times, for users and tests. */
  queued(
    controller: ControllerName,
  ): Promise<
    readonly { readonly key: ObjectKey; readonly readyAtMs?: number; readonly leaseUntilMs?: number; readonly failures: number }[]
  >;
  /** Returns parked keys (WQ6) for users, sorted by key. */
  parked(controller: ControllerName): Promise<readonly ParkedKey[]>;
}
