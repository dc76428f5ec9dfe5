/**
 * Cluster lineage (informer §11.11): records which cluster's leader works on an epoch, so that a cloned cluster, a restored cluster and a
 * restored Store are detected. The executable model is test/simulation/lineage/model.mjs.
 *
 * LN1 `openEpoch` and `openFence` store the caller's term by compare-and-set: only if the stored term is the one that the caller has read.
 *     An equal fence under another term is rejected.
 * LN2 `openFence` marks the resource SUSPECT unless the caller proves that the Store still has the last leader's state: exactly the
 *     released Lease's final checkpoint, or at least the caller's own last confirmed checkpoint.
 * LN3 a checkpoint stores the token's count. If the Store has a smaller count than the confirmed one, or another term, it has lost writes
 *     (SL1).
 * LN4 `registerIntents` of a run is rejected once term, fence or number of SUSPECT marks differ from what `take` returned; its
 *     `writeThrough` once term or fence differ.
 * LN5 EPOCHS_MAX new epochs within EPOCHS_WINDOW_MS close every gate. Their opening times are stored outside epochs; times in the future do
 *     not count.
 *
 * These rules do not apply to a caller without a term: shadow mode and replay, which have no Lease, or an older build.
 */
import type { EpochRecord } from "./epoch-record.ts";

/** A leader's term: random, one for each acquisition and raise of the Lease. `count` grows with each confirmed renewal. */
export interface TermToken {
  readonly term: string;
  readonly count: number;
}

export interface Checkpoint {
  readonly fence: string;
  readonly number: number;
}

/** The Store's record of the epoch's leader. */
export interface Lineage {
  readonly record: EpochRecord;
  /** Absent if an older build, or a leader without a Lease, has opened the newest fence. */
  readonly token?: TermToken;
  readonly checkpoint?: Checkpoint;
}

/** A leader's claim about the Store's state (LN2). */
export interface Proof {
  readonly token: TermToken;
  readonly checkpoint: Checkpoint;
  /** Whether the Store must hold exactly this checkpoint. Otherwise a later checkpoint of the same term and fence is accepted. */
  readonly isExact: boolean;
}

/** The lineage that `take` returns, on which the run's decisions depend. */
export interface TakenLineage {
  readonly token?: TermToken;
  /** The greatest fence among the resources that the controller reads. */
  readonly fence: string;
  /** Number of SUSPECT marks in this epoch. */
  readonly marks: number;
  readonly checkpoint?: Checkpoint;
  /**
   * The Store may lose data between two checkpoints without detecting it, because failovers are not detected (durability class A, Redis
   * Cluster). Deletes then need a live list.
   */
  readonly losesUnseen?: true;
}

/** Number of new epochs within EPOCHS_WINDOW_MS at which every gate closes (LN5). */
export const EPOCHS_MAX = 4;
export const EPOCHS_WINDOW_MS = 600_000;
export const EPOCHS_REASON = `${EPOCHS_MAX} new epochs within ${EPOCHS_WINDOW_MS / 60_000} minutes: two clusters may share this cache (deltaloop resume --lineage)`;
/** SUSPECT reason of a resource whose new leader has no proof (LN2). */
export const UNPROVEN_REASON = "the last leader did not release its Lease with the checkpoint that the store holds";

/** Whether `listed` has the term of `token` with at least its count. */
export function lists(listed: readonly TermToken[], token: TermToken): boolean {
  return listed.some(({ term, count }) => term === token.term && token.count <= count);
}

/** LN5: how many of the times `openedMs` are within the last EPOCHS_WINDOW_MS. */
export function recentEpochs(openedMs: readonly number[], nowMs: number): number {
  return openedMs.filter((atMs) => atMs <= nowMs && nowMs - atMs < EPOCHS_WINDOW_MS).length;
}

/** Orders checkpoints of one epoch: by fence, then by number. */
export function isOlderCheckpoint(a: Checkpoint, b: Checkpoint): boolean {
  if (a.fence === b.fence) return a.number < b.number;
  return a.fence.length === b.fence.length ? a.fence < b.fence : a.fence.length < b.fence.length;
}
