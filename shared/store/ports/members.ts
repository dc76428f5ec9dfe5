/**
 * The watchers that share the clusters of a deployment. Their records only nominate leaders; a cluster's Lease and fence decide who leads.
 *
 * MR1 a record is live until its watcher has not called `beat` for MEMBER_SILENT_MS by the Store's clock. So watchers' clocks may differ.
 * MR2 a watcher that was silent counts as new when it returns.
 * MR3 at most MOVES_MAX moves are granted to live watchers at once. A granted move stays granted while its watcher names it in each `beat`.
 * MR4 a record that another client has changed is not returned.
 * MR5 records are deleted when their watchers leave, or have been silent for MEMBER_FORGET_MS.
 */
export const MEMBER_SILENT_MS = 5_000;
export const MEMBER_FORGET_MS = 60_000;
/** Clusters that move from a living leader to a watcher with a higher rank. */
export const MOVES_MAX = 20;

export interface MemberClaims {
  /** Ids of the clusters whose Lease this watcher holds. */
  readonly leads: readonly string[];
  /** Ids of the clusters whose Lease it has read and found held by another watcher. */
  readonly waits: readonly string[];
}

/** Another watcher, by the Store's clock. */
export interface Member extends MemberClaims {
  readonly id: string;
  readonly joinedMs: number;
  readonly beatMs: number;
}

export interface BeatResult {
  /** The Store's time. */
  readonly nowMs: number;
  /** When this watcher joined (MR2). */
  readonly joinedMs: number;
  /** The requested moves that are granted. */
  readonly granted: readonly string[];
  readonly others: readonly Member[];
}

export interface Members {
  /** Stores this watcher's claims. `moves`: ids of clusters that it moves or wants to move to itself, the granted ones first. */
  beat(id: string, claims: MemberClaims, moves: readonly string[]): Promise<BeatResult>;
  leave(id: string): Promise<void>;
}
