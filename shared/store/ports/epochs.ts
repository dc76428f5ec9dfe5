/** Epochs, fences, generations, gates: permission to change the Store, and to decide on its content (informer §11). */
import type { CachedResource, Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { EpochRecord } from "./epoch-record.ts";
import type { Lineage, Proof, TermToken } from "./lineage.ts";
import type { Ended } from "./tallies.ts";

export type ResourceState = "INIT" | "SYNCING" | "SYNCED" | "SUSPECT";

/** The answer to a fenced call of a watcher that is no longer the leader. `noEpoch`: missing or another one (after a flush, a rebuild). */
export type Fenced = { readonly kind: "fenced"; readonly fence: string } | { readonly kind: "noEpoch" };

export interface EpochStore {
  epoch(): Promise<EpochRecord | undefined>;
  /** The current epoch with its leader, and how many epochs were opened recently (LN5). */
  lineage(): Promise<{ readonly current?: Lineage; readonly recentEpochs: number }>;
  /** Forgets the recent epochs, which ends the stop of LN5. */
  forgetRecentEpochs(): Promise<void>;
  /**
   * Creates `record` if there is none, or replaces the epoch `over`; a Lineage is compared with token and checkpoint (LN1). Anything else
   * in place: `exists`. `token`: of the leader that opens it.
   */
  openEpoch(
    record: EpochRecord,
    over?: string | Lineage,
    token?: TermToken,
  ): Promise<{ readonly kind: "opened" } | { readonly kind: "exists"; readonly record: EpochRecord }>;
  /**
   * Removes a part of the keys of epochs that are no longer current, EPOCH_GRACE_MS after it was first seen that they are not, and
   * answers how much: a bounded step, to be repeated now and then by one caller. Nothing when `epoch` is not the current one. `full`: the Store is, so
   * EPOCH_GRACE_FULL_MS are enough, and the step is a greater one (FU5).
   */
  forgetEpochs(epoch: string, full?: boolean): Promise<number>;
  /**
   * Makes `fence` the stream of `resource`: a greater one resets the lanes' sequences and holes and keeps W; the same one is
   * a repeat and changes nothing.
   */
  openFence(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly resource: CachedResource;
    readonly lanes: number;
    /** LN1, LN2. Absent: no Lease. `expected`: the stored term that the caller has seen. */
    readonly token?: TermToken;
    readonly expected?: string | undefined;
    readonly proof?: Proof | undefined;
  }): Promise<
    /** Another term than `expected` is stored. */
    | { readonly kind: "foreign" }
    /** The fence is stored under another term. */
    | { readonly kind: "equalFence" }
    /** A build with another number of lanes made the epoch; nothing was stored. */
    | { readonly kind: "otherLanes"; readonly lanes: number }
    | { readonly kind: "open"; readonly state: ResourceState; readonly syncedGeneration: number; readonly lanes: readonly LaneState[] }
    | { readonly kind: "damaged"; readonly why: string }
    | Fenced
  >;
  /** Starts a LIST-equivalent: the answer's `floor` is the greatest W, below which no list may be. */
  openGeneration(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly resource: CachedResource;
  }): Promise<{ readonly kind: "open"; readonly generation: number; readonly floor: string } | Fenced>;
  /**
   * At most once a second: records what is sent, proves the fence, detects a loss (SL1, SL3), and returns what the watcher must repair.
   * `beat` counts the checkpoints of a fence from 1; `answered` is the last one that got an answer, 0 before any did.
   * `full`: the Store has no room for anything that came (FU4).
   */
  checkpoint(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly sent: Readonly<Partial<Record<CachedResource, string>>>;
    readonly beat: number;
    readonly answered: number;
    /** The caller's clock, by which jumps of the Store's are found (informer §12.5). Absent: the Store's time is its server's. */
    readonly nowMs?: number;
    /** LN3. `confirmed`: the greatest count that a checkpoint was answered for. */
    readonly token?: TermToken;
    readonly confirmed?: number;
    /** Published with the epoch (EpochRecord.release). Absent: as it is. */
    readonly release?: string;
  }): Promise<
    | { readonly kind: "ok"; readonly resources: readonly ResourceHealth[]; readonly full?: boolean }
    | { readonly kind: "setBack"; readonly why: string }
    | { readonly kind: "damaged"; readonly why: string }
    | Fenced
  >;
  /**
   * DLQ arrival, lost primary, repair storm: the gate closes, the leader raises the fence and lists again. Only a generation
   * opened after the mark ends it: what was lost may be newer than a list that runs already.
   */
  markSuspect(resource: CachedResource, reason: string): Promise<void>;
  /**
   * Whether a periodic task is due, for the current leader: true once `afterMs` (as said the last time) have gone by since it
   * was true last. The first call of an epoch begins to count. `afterMs` is how long from now until the next time.
   */
  takeTurn(epoch: string, job: string, afterMs: number): Promise<boolean>;
  /** Whether keys of `controller` are handed out, and if not why, as text for users. */
  gate(controller: Controller): Promise<{ readonly open: true } | { readonly open: false; readonly reason: string }>;
  /** `ended`: items that came and end with it. */
  quarantine(entry: QuarantineEntry, ended?: Ended): Promise<void>;
  quarantined(): Promise<readonly QuarantineEntry[]>;
  /** Records a forged message of Q1. Kept outside of epochs and of the quarantine, so that forgeries cannot displace entries. */
  noteForgery(forgery: Forgery): Promise<void>;
  /** The last 1,000, the oldest first, each text cut after 200 characters. */
  forgeries(): Promise<readonly Forgery[]>;
}

export interface LaneState {
  readonly lane: number;
  /** Last contiguous sequence of the current fence. */
  readonly last: number;
  readonly watermark: string;
  readonly generation: number;
  readonly frozen: boolean;
}

export interface ResourceHealth {
  readonly resource: CachedResource;
  readonly state: ResourceState;
  readonly syncedGeneration: number;
  readonly generation: number;
  /** Milliseconds since the oldest unfilled hole opened; absent without one. */
  readonly holeForMs?: number;
  readonly frozenLanes: readonly number[];
  /** Keys whose payload a manifest found missing. */
  readonly needed: readonly ObjectKey[];
  readonly watermarks: readonly string[];
  /** The greatest version that a run has written through; absent: none has. */
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
  /** The queue of the message. */
  readonly where: string;
  readonly why: string;
  /** Of the body. */
  readonly bytes: number;
  readonly atMs: number;
}
