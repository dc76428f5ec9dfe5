/** Epochs, fences, lists and gates: which watcher may change the cache, and when controllers may decide on it (informer §11). */
import type { View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { EpochRecord } from "./epoch-record.ts";
import type { Lineage, Proof, TermToken } from "./lineage.ts";
import type { Ended } from "./tallies.ts";

export type ResourceState = "INIT" | "SYNCING" | "SYNCED" | "SUSPECT";

/**
 * The result of a call of a watcher that no longer leads: the Store has a greater fence. `noEpoch`: the Store has no epoch or another
 * epoch, after a flush or a rebuild.
 */
export type Fenced = { readonly kind: "fenced"; readonly fence: string } | { readonly kind: "noEpoch" };

export interface EpochStore {
  epoch(): Promise<EpochRecord | undefined>;
  /** The current epoch with its leader, and how many epochs were opened recently (LN5). */
  lineage(): Promise<{ readonly current?: Lineage; readonly recentEpochs: number }>;
  /** Forgets the recent epochs, which ends the stop of LN5. */
  forgetRecentEpochs(): Promise<void>;
  /**
   * Creates `record` if there is no epoch, or replaces the epoch `over`; a Lineage is compared with token and checkpoint (LN1). Returns
   * `exists` if another epoch is present. `token`: the term of the leader that opens the epoch.
   */
  openEpoch(
    record: EpochRecord,
    over?: string | Lineage,
    token?: TermToken,
  ): Promise<{ readonly kind: "opened" } | { readonly kind: "exists"; readonly record: EpochRecord }>;
  /**
   * Removes some keys of epochs that have not been current for EPOCH_GRACE_MS, and returns their number. One caller repeats this bounded
   * step periodically. Does nothing if `epoch` is not the current one. `full`: the Store is full, so EPOCH_GRACE_FULL_MS suffice and the
   * step is larger (FU5).
   */
  forgetEpochs(epoch: string, full?: boolean): Promise<number>;
  /**
   * Makes `fence` the stream of `resource`: a greater fence resets the lanes' sequences and holes and keeps their watermarks; the same
   * fence changes nothing.
   */
  openFence(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly resource: View;
    /** Number of lanes of a resource that the epoch does not have yet, and the only accepted number without `lanesMax`. */
    readonly lanes: number;
    /** One lane is accepted too, and this number (LG3). */
    readonly lanesMax?: number;
    /** With a greater fence, one lane grows to `lanesMax` (LG2). */
    readonly grows?: boolean;
    /** The leader's term (LN1, LN2). Absent if the caller uses no Lease. `expected`: the stored term that the caller has read. */
    readonly token?: TermToken;
    readonly expected?: string | undefined;
    readonly proof?: Proof | undefined;
  }): Promise<
    /** The Store has a term other than `expected`. */
    | { readonly kind: "foreign" }
    /** The fence is stored under another term. */
    | { readonly kind: "equalFence" }
    /** The epoch was made by a build with another number of lanes (LG3); nothing was stored. */
    | { readonly kind: "otherLanes"; readonly lanes: number }
    | { readonly kind: "open"; readonly state: ResourceState; readonly syncedGeneration: number; readonly lanes: readonly LaneState[] }
    | { readonly kind: "damaged"; readonly why: string }
    | Fenced
  >;
  /** Announces a list. Returns its number (`generation`), and the greatest watermark (`floor`): the list must not be older. */
  openGeneration(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly resource: View;
  }): Promise<{ readonly kind: "open"; readonly generation: number; readonly floor: string } | Fenced>;
  /**
   * At most once a second: records what is sent, proves the fence, detects a loss (SL1, SL3), and returns what the watcher must repair.
   * `beat` counts the checkpoints of a fence from 1; `answered` is the `beat` of the last one that got a response, 0 before the first.
   * `full`: the Store had no room for received items (FU4).
   */
  checkpoint(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly sent: Readonly<Partial<Record<View, string>>>;
    readonly beat: number;
    readonly answered: number;
    /** The caller's clock, which reveals jumps of the Store's clock (informer §12.5). If absent, the Store uses its server's time. */
    readonly nowMs?: number;
    /** The leader's term (LN3). `confirmed`: the greatest count of a term whose checkpoint the Store has answered. */
    readonly token?: TermToken;
    readonly confirmed?: number;
    /** Published with the epoch (EpochRecord.release). If absent, the published release stays unchanged. */
    readonly release?: string;
  }): Promise<
    | { readonly kind: "ok"; readonly resources: readonly ResourceHealth[]; readonly full?: boolean }
    | { readonly kind: "setBack"; readonly why: string }
    | { readonly kind: "damaged"; readonly why: string }
    | Fenced
  >;
  /**
   * Applies the heartbeat of quiet lanes (HB1–HB4). `late`: the same fence had a heartbeat of this time or later, so nothing changes.
   * `ahead`: lanes whose earlier messages are missing.
   */
  heartbeat(
    heartbeat: Heartbeat,
  ): Promise<
    | { readonly kind: "applied"; readonly ahead: readonly HeartbeatLane[] }
    | { readonly kind: "late" }
    | { readonly kind: "dropped"; readonly why: "fence" | "epoch" }
    | { readonly kind: "noEpoch" }
  >;
  /**
   * Marks a resource SUSPECT: the gate closes, and the leader raises the fence and lists again. Called after a dead-lettered message, a
   * failover or too many repairs. Only a list announced after the mark ends it, because the lost data may be newer than a list in
   * progress.
   */
  markSuspect(resource: View, reason: string): Promise<void>;
  /**
   * Returns the periodic jobs that the leader must run now; each is due again in its `afterMs`. The first call of an epoch for a job does not
   * return it and starts its period.
   */
  takeTurns(epoch: string, jobs: readonly { readonly job: string; readonly afterMs: number }[]): Promise<readonly string[]>;
  /** Whether keys of `controller` are handed out; if not, `reason` is text for users. */
  gate(controller: ControllerName): Promise<{ readonly open: true } | { readonly open: false; readonly reason: string }>;
  /** Adds an entry to the quarantine. `ended`: the received items that are counted as quarantined with this entry (TY1). */
  quarantine(entry: QuarantineEntry, ended?: Ended): Promise<void>;
  quarantined(): Promise<readonly QuarantineEntry[]>;
  /** Records a forged delta message. Kept outside of epochs and of the quarantine, so that forgeries cannot displace entries. */
  noteForgery(forgery: Forgery): Promise<void>;
  /** Returns the last 1,000 forgeries, oldest first, with each text truncated to 200 characters. */
  forgeries(): Promise<readonly Forgery[]>;
}

export interface LaneState {
  readonly lane: number;
  /** The greatest sequence number of the current fence up to which all messages are applied. */
  readonly last: number;
  readonly watermark: string;
  readonly generation: number;
  readonly frozen: boolean;
}

/** What a leader sends of its quiet lanes. It consumes no sequence number. */
export interface Heartbeat {
  readonly epoch: string;
  readonly fence: string;
  /** The leader's clock; each heartbeat of a fence has a later time than the one before. */
  readonly sentMs: number;
  readonly lanes: readonly HeartbeatLane[];
}

export interface HeartbeatLane {
  readonly resource: View;
  readonly lane: number;
  /** The lane's last sequence number. */
  readonly sequence: number;
  /** Every event of the lane up to this version is in a message up to `sequence`. */
  readonly rv: string;
}

export interface ResourceHealth {
  readonly resource: View;
  readonly state: ResourceState;
  readonly syncedGeneration: number;
  readonly generation: number;
  /** Milliseconds since the oldest open hole appeared; absent without a hole. */
  readonly holeForMs?: number;
  readonly frozenLanes: readonly number[];
  /** Keys whose payload is missing according to a manifest. */
  readonly needed: readonly ObjectKey[];
  readonly watermarks: readonly string[];
  /** The sequence number up to which each lane's messages are applied. */
  readonly applied: readonly number[];
  /** Number of rows, while the resource has one lane. */
  readonly rows?: number;
  /** The greatest version that a run has written through; absent if no run has. */
  readonly written?: string;
}

/** An item that could not be applied. The last 1,000 are kept; they block nothing. */
export interface QuarantineEntry {
  /** Object key, message id or line position. */
  readonly what: string;
  readonly where: string;
  readonly why: string;
  readonly atMs: number;
}

/** A message whose MAC is missing, wrong or of an unknown key. Nothing of its content is kept. */
export interface Forgery {
  readonly messageId: string;
  /** The queue that the message came from. */
  readonly where: string;
  readonly why: string;
  /** Size of the body. */
  readonly bytes: number;
  readonly atMs: number;
}
