/**
 * The Store: everything that must change together stands in one place, and one call is one step. The index, the work queue
 * and the intents are three views of it, never three adapters. `shared/adapters/redis` (one Lua script a verb) and
 * `shared/adapters/memory` pass the same suite, test/conformance/store.ts. A Store is bound to one deployment and one
 * cluster; time is the Store's own (Redis TIME in production, a Clock in tests and replay).
 *
 * Index (informer §11)
 * IX1  an older resourceVersion never wins; equal versions change nothing and have no effects (A4).
 * IX2  a delete is a value: a late put at or below it is dropped (A5), and so is a put at or below the lane's watermark
 *     whose row is absent, unless it was listed (A6).
 * IX3  row, slice entry, namespace count, watermark, intents and work-queue keys of one item change in one step.
 * IX4  a put keeps the flag `gone` while the uid is the same; only a delete or another uid clears it (A7).
 * IX5  a pack of an older fence or another epoch changes nothing (A1, A2); a repeated sequence changes nothing and answers
 *     which affected keys are still dirty (A3).
 * IX6  the watermark moves over contiguous sequences only, and not while the lane is frozen (A11, A13).
 * IX7  a manifest is applied only when contiguous, verifies every listed row, and sweeps its lane at once (§11.5).
 * IX8  look-ups are compared: if a row or a namespace count moved since it was read, the call answers `retry` at that item.
 * IX9  within one history a list at L holds the newest version at or below L of each object. So a row or tombstone that is newer than
 *     what is listed, and not newer than L, is of a history that is no more: neither IX1 nor IX2 nor IX7 counts it, a listed object takes
 *     its place with all effects, and its flag `gone` goes with it. What is newer than L stays. What is cached of other objects may be
 *     of that history, too, and nothing may be decided on both: the same step makes every resource suspect (`markSuspect`).
 *
 * A14 what fails its MAC (shared/api/signer.ts) counts as absent for IX1, IX2 and IX7; so does a row whose entry is not there, and a
 *     primary whose entry is not the one that its row and the queue name. Whoever comes upon it gets it as `Forged`, reads the object
 *     live and puts it back with that `Forged`: then the exact bad text is replaced, or, if something else stands there by now, the
 *     call answers `retry`. What was put back so is not held to A6. A snapshot that holds some is not decided on.
 *
 * Loss (informer §11.7)
 * SL1  a Store is *set back* when it holds an older checkpoint than one it has answered, or a smaller fence than one it has opened, or
 *     when another primary serves it than the one the fence was opened on: what it held last may be missing, what it holds is whole.
 *     The checkpoint that sees this makes every resource suspect and ends every run, in the same step.
 * SL2  while another primary serves it every gate is shut, whoever asks; a fence that is opened there makes the resource suspect.
 * SL3  a Store is *damaged* when an open resource or a lane of one is missing, or keys were evicted: nothing tells what else is. The
 *     checkpoint that sees this makes what is left suspect; only a new epoch helps. A leader that comes after it is told when it opens
 *     its fence, and nothing is changed: what it would open anew is not all that is lost.
 *
 * Work queue (informer §12)
 * WQ1  adds before a take collapse into one run; an add during a run leads to exactly one more.
 * WQ2  one key is never taken twice at once; an expired lease may be taken over, and its old holder's calls answer "stolen". The same
 *     take once more, its answer having been lost, is answered once more.
 * WQ3  the earliest requested time wins; an immediate add overtakes a back-off.
 * WQ4  nothing is handed out while the gate of the controller is shut; keys stay dirty meanwhile.
 * WQ5  a lost doorbell is rung by `sweep`; one that is outstanding and young is not repeated.
 * WQ6  a key whose run ended with `drop` is parked: neither queued nor run until the next add, whoever makes it, and its failures begin
 *      anew. It is no longer parked the moment it is added, and forgotten with its primary, so there are never more than primaries.
 * WQ7  a resync is an add of every primary (so WQ3 holds, and WQ6), but of none that is backing off: that one runs in its time.
 *
 * Intents (informer §13)
 * IT1  `registerIntents` and every lowering or re-planning by a worker is void without its token.
 * IT2  lowering is by the pod's own name or uid, so it happens at most once whatever is repeated.
 * IT3  `take` never hands out a snapshot beside expired pending ops of a dead token: it answers `recover`.
 * IT4  intents are keyed by the owner (namespace, kind, name, uid) and vanish with it.
 */
import type { Cached } from "../api/cached.ts";
import type { OwnerId } from "../api/owner-id.ts";
import type { CachedResource, Controller, ObjectKey } from "../api/resources.ts";
import type { Doorbell } from "./doorbells.ts";

export interface Store extends EpochStore, IndexStore, WorkQueue, IntentStore, KeyStore {
  /** Ends connections that the adapter opened itself. */
  close(): Promise<void>;
}

// ---------------------------------------------------------------------------------------------------------------- epochs

/** One incarnation of the cache of one cluster. Anything that differs here makes another epoch. */
export interface EpochRecord {
  /** Random, never reused; part of every key and every message. */
  readonly epoch: string;
  readonly clusterUid: string;
  /** Version of projection and slice functions together. */
  readonly projection: number;
  /** `<keyId>.<form>` of the template digests. */
  readonly digestPrefix: string;
  /** The pod template layout whose hash is computed, as `v1.36`. */
  readonly hashLayout: string;
  /** Fence of the watcher that created the epoch. */
  readonly fence: string;
}

export type ResourceState = "INIT" | "SYNCING" | "SYNCED" | "SUSPECT";

/** What a fenced call of a watcher that lost its place gets. `noEpoch`: missing or another one (after a flush, a rebuild). */
export type Fenced = { readonly kind: "fenced"; readonly fence: string } | { readonly kind: "noEpoch" };

export interface EpochStore {
  epoch(): Promise<EpochRecord | undefined>;
  /** Creates `record` if there is none, or replaces the epoch named by `over`. Anything else in place: `exists`. */
  openEpoch(
    record: EpochRecord,
    over?: string,
  ): Promise<{ readonly kind: "opened" } | { readonly kind: "exists"; readonly record: EpochRecord }>;
  /**
   * Takes away some of what is left of epochs that are no longer current, EPOCH_GRACE_MS after it was first seen that they are not, and
   * answers how much: a bounded step, to be repeated now and then by one caller. Nothing when `epoch` is not the current one.
   */
  forgetEpochs(epoch: string): Promise<number>;
  /**
   * Makes `fence` the stream of `resource`: a greater one resets the lanes' sequences and holes and keeps W; the same one is
   * a repeat and changes nothing.
   */
  openFence(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly resource: CachedResource;
    readonly lanes: number;
  }): Promise<
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
   * At most once a second: records what is sent, proves the fence, tells a loss (SL1, SL3), and brings back what the watcher must mend.
   * `beat` counts the checkpoints of a fence from 1; `answered` is the last one that got an answer, 0 before any did.
   */
  checkpoint(request: {
    readonly epoch: string;
    readonly fence: string;
    readonly sent: Readonly<Partial<Record<CachedResource, string>>>;
    readonly beat: number;
    readonly answered: number;
  }): Promise<
    | { readonly kind: "ok"; readonly resources: readonly ResourceHealth[] }
    | { readonly kind: "setBack"; readonly why: string }
    | { readonly kind: "damaged"; readonly why: string }
    | Fenced
  >;
  /**
   * DLQ arrival, lost primary, repair storm: the gate shuts, the leader raises the fence and lists again. Only a generation
   * opened after the mark ends it: what was lost may be newer than a list that runs already.
   */
  markSuspect(resource: CachedResource, reason: string): Promise<void>;
  /**
   * Whether it is time for what is done seldom, whoever leads then: true once `afterMs` (as said the last time) have gone by since it
   * was true last. The first call of an epoch begins to count. `afterMs` is how long from now until the next time.
   */
  takeTurn(epoch: string, job: string, afterMs: number): Promise<boolean>;
  /** Whether keys of `controller` are handed out, and if not why, in words for people. */
  gate(controller: Controller): Promise<{ readonly open: true } | { readonly open: false; readonly reason: string }>;
  quarantine(entry: QuarantineEntry): Promise<void>;
  quarantined(): Promise<readonly QuarantineEntry[]>;
  /** Keeps that a message of Q1 was not ours. Outside epochs, apart from the quarantine: whoever forges must not push it out. */
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
}

/** Something that could not be applied: named, kept (the last 1000), in nobody's way. */
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
  /** The queue it stood in. */
  readonly where: string;
  readonly why: string;
  /** Of the body. */
  readonly bytes: number;
  readonly atMs: number;
}

// ----------------------------------------------------------------------------------------------------------------- index

/**
 * Something that fails its MAC, is missing although its other half is there, or has been flagged `gone` for longer than a minute (A14).
 * Opaque to all but the Store: it names a place and what stands there.
 */
export interface Forged {
  readonly resource: CachedResource;
  /** As it stands there; it may be no key at all. */
  readonly key: ObjectKey;
  readonly where: "row" | "entry" | "tombstone";
  /** Of an entry: its slice. */
  readonly slice?: string;
  /** Empty: nothing stands there. */
  readonly text: string;
}

/** What the audit sees of a key (`readEntries`). */
export interface CachedEntry {
  readonly key: ObjectKey;
  /** Absent: what stands there cannot be believed. */
  readonly row?: Row;
  /** What stands there: handed back with what was read live, it is replaced by that, as A14 has it. */
  readonly stands: Forged;
}

export interface Ghost {
  readonly stands: Forged;
  /** Whose slice it stands in, if it is known: to be queued once the ghost is gone. */
  readonly owner?: { readonly controller: Controller; readonly key: ObjectKey };
}

/** One cached object with its version row. */
export interface Row<R extends CachedResource = CachedResource> {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** Its controller owner: the slice it stands in. Absent = the orphans of its namespace. */
  readonly owner?: OwnerId;
  /** A delete was answered; the stream has not said so yet. Readers treat the object as deleted. */
  readonly gone: boolean;
  readonly object: Cached<R>;
}

export interface NamespaceCount {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly count: number;
}

export interface IndexRequest {
  /**
   * `put`: the version about to be put; a row that is not older answers in `current`, without its object (A4). `listRV`: it was listed
   * at that version (IX9).
   */
  readonly rows?: readonly {
    readonly resource: CachedResource;
    readonly key: ObjectKey;
    readonly put?: string;
    readonly listRV?: string;
  }[];
  /** All primaries of a namespace (replicasets, replicationcontrollers, deployments). Their counts are read first. */
  readonly primaries?: readonly { readonly resource: CachedResource; readonly namespace: string }[];
  /** Counts to read (first) without the primaries, for rows whose owner chain an effect rests on. */
  readonly counts?: readonly { readonly resource: CachedResource; readonly namespace: string }[];
}

export interface IndexView {
  readonly rows: readonly { readonly resource: CachedResource; readonly row: Row }[];
  /** Rows that are at the version about to be put, or newer, and of one history with it (IX9). */
  readonly current?: readonly { readonly resource: CachedResource; readonly row: Omit<Row, "object"> }[];
  readonly primaries: readonly { readonly resource: CachedResource; readonly namespace: string; readonly rows: readonly Row[] }[];
  readonly counts: readonly NamespaceCount[];
  /** What was asked for and cannot be believed; it is in none of the lists above. */
  readonly forged?: readonly Forged[];
}

/** A key to queue because an object changed; decided by the controllers' affected-keys.ts, carried out inside the Store's step. */
export interface Effect {
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** uid of the primary; the key is queued only if the Store knows that primary by this uid. `self` effects skip the check. */
  readonly uid: string;
  /** `act`: a create, delete or claim may follow, so now. `status`: end of its last run + min(1 s, 1 ms × dependents). */
  readonly urgency: "act" | "status";
  /** The item is that primary itself (also when it goes away). */
  readonly self?: boolean;
  /** Queue only if this owner's pod slice is empty after the item (last pod of a Recreate Deployment, informer §11.2 step 4). */
  readonly ifEmpty?: OwnerId;
}

/** One object's change with what was read to decide its effects. */
export interface ItemChange {
  /**
   * `gone`: a live read found nothing, so the row of this uid is flagged `gone` until its DELETED event comes (informer §10.4).
   * It concerns whom a delete would; without such a row, and with the flag there already, it is `same`.
   */
  readonly type: "put" | "delete" | "gone";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** Puts only. */
  readonly object?: Cached;
  /** Puts only: its controller owner. */
  readonly owner?: OwnerId;
  /** The row as read; absent = none was there. */
  readonly expected?: { readonly rv: string; readonly uid: string; readonly owner?: OwnerId };
  readonly effects: readonly Effect[];
  /** A primary appeared, disappeared, or changed uid, selector or controller owner: its namespace's count moves. */
  readonly counted: boolean;
  /** What stands in this object's place and must still stand there: it goes, and the item, which was read live after it, takes its place (A14). */
  readonly forged?: readonly Forged[];
  /** Intents this change answers: `c:<pod name>` or `d:<pod uid>` of an owner. */
  readonly lowers: readonly { readonly owner: OwnerId; readonly op: string }[];
}

export interface PackHeader {
  readonly epoch: string;
  readonly fence: string;
  readonly generation: number;
  readonly resource: CachedResource;
  readonly lane: number;
  readonly sequence: number;
  /** `D` live delta, `L` listed object, `W` watermark. Manifests have a call of their own. */
  readonly kind: "D" | "L" | "W";
}

export type ApplyResult =
  /** `outcomes` has one rule (`A4` … `A9`) per item of this call. */
  | { readonly kind: "applied"; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  /** Items before `index` are applied; read again and send the rest. */
  | { readonly kind: "retry"; readonly index: number; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  | { readonly kind: "duplicate"; readonly bells: readonly Doorbell[] }
  /** Older fence or another epoch: acknowledge and forget. */
  | { readonly kind: "dropped"; readonly why: "fence" | "epoch" }
  /** Come back: no epoch, or the fence is not open yet. */
  | { readonly kind: "noEpoch" }
  | { readonly kind: "notOpen" };

/** `changed` A7/A9 · `same` A4/A8 · `late` A5 · `absent` A6. */
export type ItemOutcome = "changed" | "same" | "late" | "absent";

export interface ManifestRow {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
}

export interface IndexStore {
  readIndex(request: IndexRequest): Promise<IndexView>;
  /**
   * Entries of whole slices: dependents of an owner, or (`orphansOf`) a namespace's objects without controller owner.
   * @throws {ForgedRowsError} when an entry fails its MAC (A14).
   */
  readSlices(slices: readonly SliceRef[]): Promise<readonly (readonly Row[])[]>;
  /**
   * Version rows of one lane, without objects; of those that fail their MAC nothing but that, as of such tombstones. `watermark`: that
   * of the lane in the same moment.
   */
  readLane(
    resource: CachedResource,
    lane: number,
  ): Promise<{ readonly rows: readonly Omit<Row, "object">[]; readonly forged: readonly Forged[]; readonly watermark: string }>;
  /**
   * What stands under these keys, for the audit: an object as it is cached, or that it cannot be believed (A14), in which also an entry
   * of another version than its row counts. Of a key without a row there is nothing. Row and entry are read one after the other, so what
   * changes in between may look unbelievable: look again.
   */
  readEntries(resource: CachedResource, keys: readonly ObjectKey[]): Promise<readonly CachedEntry[]>;
  /**
   * Entries whose row is not there, or names another slice (at most 1,000): objects that their owners count and that do not exist, or
   * not there. No rule of the index finds these, since nothing looks from an entry to its row.
   */
  readGhosts(resource: CachedResource): Promise<readonly Ghost[]>;
  /**
   * Applies items in order (≤ 100, one per key). `commit` goes with the last call of a message: it commits the sequence and,
   * when contiguous, raises W to `watermark` (greatest rv of the message; W: its rv; L: none). `listRV`: the version of the
   * list that the items are of (L; IX9).
   */
  applyPack(
    pack: PackHeader,
    items: readonly ItemChange[],
    options: { readonly counts: readonly NamespaceCount[]; readonly listRV?: string; readonly commit?: { readonly watermark?: string } },
  ): Promise<ApplyResult>;
  /** A part that is not the last: kept until the last one comes. */
  stashManifest(pack: Omit<PackHeader, "kind">, rows: readonly ManifestRow[]): Promise<ApplyResult | { readonly kind: "early" }>;
  /** What the earlier parts hold, and how many there are: one that fails its MAC is not among them. */
  readManifest(pack: Omit<PackHeader, "kind">): Promise<{ readonly rows: readonly ManifestRow[]; readonly parts: number }>;
  /**
   * The last (or only) part. `rows` are all rows of the lane at `listRV`, `sweep` a delete for each cached row that is not
   * among them and not newer than `listRV`. `needed`: a listed row is missing, the lane is frozen. `early`: not contiguous,
   * which is a hole from now on. `incomplete`: in its turn, but parts of it are missing; nothing is done.
   * `forged` counts as absent and goes (A14); `sweep` has an item for each such row that is not listed.
   */
  applyManifest(
    pack: Omit<PackHeader, "kind">,
    manifest: {
      readonly listRV: string;
      readonly rows: readonly ManifestRow[];
      readonly sweep: readonly ItemChange[];
      readonly counts: readonly NamespaceCount[];
      readonly forged?: readonly Forged[];
      /** False: earlier parts are missing. */
      readonly whole?: boolean;
    },
  ): Promise<
    | ApplyResult
    | { readonly kind: "early" }
    | { readonly kind: "incomplete" }
    | { readonly kind: "needed"; readonly keys: readonly ObjectKey[] }
  >;
}

export type SliceRef =
  | { readonly resource: CachedResource; readonly owner: OwnerId }
  | { readonly resource: CachedResource; readonly orphansOf: string };

// ------------------------------------------------------------------------------------------------------------ work queue

export interface Snapshot {
  /** Absent when the primary is gone: nothing to do. */
  readonly primary?: Row;
  /** The primary's slice (pods, or replica sets of a Deployment). */
  readonly dependents: readonly Row[];
  /** Objects of the dependents' resource in the namespace without controller owner. */
  readonly orphans: readonly Row[];
  readonly intents: readonly Intent[];
  /** Consecutive failures of this key. */
  readonly failures: number;
  /** Starts of this key right before this one that never ended: whoever ran it died, or was too slow. Absent: none. */
  readonly unended?: number;
  /** What cannot be believed, and is not among the rows: nothing may be decided before it has been read live (A14). */
  readonly forged?: readonly Forged[];
}

export type TakeResult =
  | { readonly kind: "ok"; readonly snapshot: Snapshot; readonly leaseUntilMs: number }
  /**
   * Expired ops of a dead token: look them up live, write them through, `done`. No snapshot to decide on: it has the primary
   * and exactly the expired ops, which are the run's own from here on (else IT1 would forbid it to lower them).
   */
  | { readonly kind: "recover"; readonly snapshot: Snapshot; readonly leaseUntilMs: number }
  | { readonly kind: "gated"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "empty" }
  | { readonly kind: "notYet"; readonly delayMs: number; readonly bell: Doorbell }
  /** The primary's uid or owner is another one than the caller's; take again with these. */
  | { readonly kind: "moved"; readonly uid?: string; readonly owner?: OwnerId }
  | { readonly kind: "otherEpoch" };

export type Outcome =
  | { readonly kind: "ok" }
  | { readonly kind: "retry" }
  | { readonly kind: "requeueAfter"; readonly delayMs: number }
  /** Given up after its last retry, or at once: parked (WQ6). */
  | { readonly kind: "drop" };

/** A key that nobody will run until something adds it: its next event, the resync (informer §15), or a person. */
export interface ParkedKey {
  readonly key: ObjectKey;
  /** When its last run ended, by the Store's time. */
  readonly sinceMs: number;
  /** How often in a row it had failed then, that run included. */
  readonly failures: number;
}

export interface Taken {
  readonly epoch: string;
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** Random, one per take. */
  readonly token: string;
}

export interface WorkQueue {
  /** Queues `key` at now + `delayMs`; the answer is the doorbell to ring, if one is due. */
  add(epoch: string, controller: Controller, key: ObjectKey, delayMs: number): Promise<Doorbell | undefined>;
  take(run: Taken, known: { readonly uid?: string; readonly owner?: OwnerId }): Promise<TakeResult>;
  /** A whole lease more (shared/ports/times.ts), or undefined when the key was taken over. Answers the new lease end. */
  renew(run: Taken): Promise<number | undefined>;
  done(
    run: Taken,
    outcome: Outcome,
  ): Promise<{ readonly kind: "done"; readonly failures: number; readonly bell?: Doorbell } | { readonly kind: "stolen" }>;
  /**
   * Queues every primary of `controller`, spread evenly over `spreadMs` from now (WQ7). Answers the doorbells of the first 500; the
   * sweeper rings the others.
   */
  resync(epoch: string, controller: Controller, spreadMs: number): Promise<readonly Doorbell[]>;
  /** Keys overdue by 5 s with nobody on them, and keys whose lease ran out (≤ 500 a pass), of controllers whose gate is open. */
  sweep(epoch: string): Promise<readonly Doorbell[]>;
  /** Queued and running keys with their times, for people and tests. */
  queued(
    controller: Controller,
  ): Promise<
    readonly { readonly key: ObjectKey; readonly readyAtMs?: number; readonly leaseUntilMs?: number; readonly failures: number }[]
  >;
  /** Parked keys (WQ6), for people, in the order of keys. */
  parked(controller: Controller): Promise<readonly ParkedKey[]>;
}

// --------------------------------------------------------------------------------------------------------------- intents

/**
 * A call that was, may be or will be made for an owner. `pending` (a call may be in flight) blocks creates and deletes;
 * `planned` (a name to use first) blocks nothing.
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
  /** An unanswered call with this name may still land until then; a name is not given up before. */
  readonly mayLandUntilMs?: number;
}

export interface IntentStore {
  /** Pending from now, for OP_DEADLINE_MS. "stolen" without the lease or when the key's uid is no longer `ownerUid`. */
  registerIntents(
    run: Taken,
    ownerUid: string,
    intents: readonly Pick<Intent, "id" | "verb" | "name" | "uid" | "mayLandUntilMs">[],
  ): Promise<"ok" | "stolen">;
  /**
   * Own answers and live reads, by the rules A1, A4–A7, A10, and what became of the run's own ops. The key itself is queued
   * if a row changed or an answer was dropped by A5/A6, never by its own status. Also re-stamps the deadline of the token's
   * pending ops.
   */
  writeThrough(run: Taken, write: WriteThrough): Promise<WriteThroughResult>;
}

export interface WriteThrough {
  readonly resource: CachedResource;
  /** ≤ 500 puts, one per key. */
  readonly items: readonly ItemChange[];
  readonly counts: readonly NamespaceCount[];
  readonly ownerUid: string;
  /** Ops that ended (done, refused). Quiet: lowering one's own op queues nothing. */
  readonly lower: readonly string[];
  /** Creates that were not answered, or not tried while an earlier call may still land: back to planned, only if they still stand. */
  readonly plan: readonly { readonly id: string; readonly mayLand: boolean }[];
  /** Creates that a namespace on its way out has refused: pending for the expectation's five minutes, as upstream goes on expecting them. */
  readonly hold?: readonly string[];
  /** Rows of `resource` (pods) whose delete was answered without an object: flag `gone`. Not done on `retry`, like the ops. */
  readonly gone: readonly { readonly key: ObjectKey; readonly uid: string }[];
  /** The items are the answer to the primary's own status write. */
  readonly ownStatus: boolean;
}

export type WriteThroughResult =
  | { readonly kind: "ok"; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  | { readonly kind: "retry"; readonly index: number; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  | { readonly kind: "otherEpoch" };

// ------------------------------------------------------------------------------------------------------------- MAC keys

/** What of the current epoch is signed with which key. Texts, not objects: an object has a row and an entry, or a tombstone. */
export interface KeyUse {
  readonly current: number;
  /** Signed with a key that is accepted and signs no more. */
  readonly former: number;
  /** Of a key that is not accepted, or forged: A14 replaces it when its object is next looked at. */
  readonly foreign: number;
  /**
   * Entries that are signed and whose row is not there: somebody put back what was deleted, and the owner counts an object that does
   * not exist. No rule of the index finds these, since nothing looks from an entry to its row.
   */
  readonly ghosts: number;
  /** Rows whose entry is not there: their objects are hidden from their owners until their next event, which puts them back (A14). */
  readonly hidden: number;
}

export interface KeyStore {
  /**
   * Counts all of `resource`: rows, tombstones, and the entries of slices that anybody may read. With `mend`, what a former key has
   * signed is signed anew, and ghosts are taken away and their owners queued: each only if exactly what was found stands there still,
   * so nothing that is written meanwhile is lost, and what was is found by the next look. Answers what was found before.
   */
  keyUse(resource: CachedResource, mend: boolean): Promise<KeyUse>;
}
