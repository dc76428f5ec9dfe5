/**
 * The Store: holds all state that must change atomically; one call is one step. The index, the work queue and the intents are interfaces of
 * one adapter. `shared/store/redis` (one Lua script per verb) and `shared/store/memory` pass the same suite, test/conformance/store.ts. A
 * Store is bound to one deployment and one cluster, and uses its own time (Redis TIME in production, a Clock in tests and replay).
 *
 * Index (informer §11)
 * IX1 an older resourceVersion never replaces a newer one; equal versions change nothing and have no effects (A4).
 * IX2  a delete is a value: a late put at or below it is dropped (A5), and so is a put at or below the lane's watermark
 *     whose row is absent, unless it was listed (A6).
 * IX3  row, slice entry, namespace count, watermark, intents and work-queue keys of one item change in one step.
 * IX4  a put keeps the flag `gone` while the uid is the same; only a delete or another uid clears it (A7).
 * IX5  a pack of an older fence or another epoch changes nothing (A1, A2); a repeated sequence number changes nothing and returns the
 *      affected keys that are still dirty (A3).
 * IX6 the watermark moves only as far as all earlier messages of the lane are applied, and not while the lane is frozen (A11, A13).
 * IX7 a manifest (key, uid and version of every listed object of a lane) is applied only after all earlier messages of its lane, only if
 *     every listed object has its row, and removes all unlisted rows in the same step (§11.5).
 * IX8 if a row or a namespace count that an item was computed from has changed since it was read, the call returns `retry` at that item.
 * IX9  within one history a list at L holds the newest version at or below L of each object. So a row or tombstone that is newer than the
 *      listed object, but not newer than L, is from a lost history: IX1, IX2 and IX7 ignore it, and the listed object replaces it with all
 *      effects and without its flag `gone`. Values newer than L stay. Other cached objects may be from that history as well, so the same
 *      step marks every resource SUSPECT (`markSuspect`).
 * IX10 an item whose row was not read is applied only if its key is empty or holds exactly what the item would write. Otherwise the call
 *      returns `retry` at that item without applying it.
 *
 * A16 a Store whose build has another projection than the epoch applies no pack and no manifest: its slices and effects could be wrong.
 *
 * Heartbeats of quiet lanes (informer §10.8). The model is test/simulation/heartbeats/model.ts.
 * HB1 a heartbeat of another epoch changes nothing, and under another fence than the lane's nothing in that lane.
 * HB2 of one fence, a heartbeat is applied only if it is later than all applied before.
 * HB3 if all messages up to `sequence` and none after it are applied, the lane counts as heard, and its watermark rises to `rv` unless the
 *     lane is frozen.
 * HB4 if an earlier message is missing, it opens a hole, and changes nothing else.
 *
 * A14 a value with an invalid MAC (shared/store/signer.ts) counts as absent for IX1, IX2 and IX7. So does a row without its slice entry, and
 *     a primary whose entry differs from its row or from the work queue. Readers get it as `Forged`, read the object live and put it with
 *     that `Forged`, which replaces exactly the forged text; if the text has changed, the call returns `retry`. A6 does not apply to such
 *     puts.
 *     A snapshot with forged values must not be used for decisions.
 *
 * Accounting (informer §16)
 * TY1  each item is counted once as received and once by its fate, in the step that ends it, so that always
 *          received = applied + superseded + duplicate + fenced + otherEpoch + quarantined + dead.
 *      An item that will be redelivered (no epoch yet, a fence that is not open, a changed row) has not ended. A new epoch changes no count.
 *
 * Loss (informer §11.7)
 * SL1 a Store is *set back* if it has an older checkpoint than one it has confirmed, or a smaller fence than one it has opened, or a
 *      different primary from the one on which the fence was opened: the latest writes may be missing, older ones are complete. The checkpoint that
 *      detects this marks every resource SUSPECT and ends every run, in the same step.
 * SL2 after such a failover every gate is closed; opening a fence on the new primary marks the resource SUSPECT.
 * SL3  a Store is *damaged* when an open resource or one of its lanes is missing, or keys were evicted: further losses are unknown. The
 *      checkpoint that detects this marks the remaining resources SUSPECT; only a new epoch helps. A later leader gets this result when it
 *      opens its fence, which changes nothing.
 *
 * Work queue (informer §12)
 * WQ1  adds before a take collapse into one run; an add during a run leads to exactly one more.
 * WQ2 a key has one run at a time. A key whose lease has expired may be taken by another run; the calls of the former run then return
 *     "stolen". A `take` repeated after a lost response gets the same result; a repeated `done` returns the doorbell again if the key is
 *     due.
 * WQ3 of several adds the earliest time applies; an immediate add overrides a back-off.
 * WQ4  no key is handed out while the controller's gate is closed; keys stay dirty meanwhile.
 * WQ5  a lost doorbell is rung by `sweep`; a young outstanding one is not repeated, and none is rung during the key's run: the end of the
 *      run rings.
 * WQ6  a key whose run ended with `drop` is parked: neither queued nor run until the next add, which resets its failures. It is removed
 *      with its primary, so parked keys never outnumber primaries.
 * WQ7 a resync adds every primary (so WQ3 and WQ6 apply), except those in back-off, which keep their time.
 * WQ8 a write-through with `ends` is `writeThrough` and then `done` in one step, so that the run's key gets a doorbell if the write
 *     enqueued it. Rows are written even if another run holds the key; the run ends only if it still holds the key and no item must be
 *     retried.
 * WQ9 the outcomes `requeueAfter` and `retry` of a run that the Store does not know also queue the key, and a write of its own
 *     status queues it as any other change does: a Store that was set back has lost what the run decided on.
 *
 * Lineage (informer §11.11): LN1–LN5 in lineage.ts.
 *
 * Guard (informer §11.9): GD1–GD8 in guard-store.ts.
 *
 * Intents (informer §13)
 * IT1 only the run that holds the key registers intents, and only the run whose token an op has settles or re-plans it.
 * IT2 an event settles an op by the pod's name (create) or uid (delete), so a repeated event does not settle another op.
 * IT3  `take` returns `recover` instead of a snapshot if there are expired pending ops of a dead token.
 * IT4  intents are keyed by the owner (namespace, kind, name, uid) and deleted with it.
 * IT5 the number of pod names drawn for an owner is stored in the step that registers the ops with these names, and deleted with the owner.
 *     So if the Store loses this step, the next run draws the same names, and its creates find the pods that exist already. Names
 *     whose creates were not sent are drawn again, too, and a rejected name is used again unless the rejection quotes it.
 */
import type { EpochStore } from "./epochs.ts";
import type { EventStore } from "./events.ts";
import type { GuardStore } from "./guard-store.ts";
import type { IndexStore } from "./index-store.ts";
import type { IntentStore } from "./intents.ts";
import type { KeyStore } from "./key-use.ts";
import type { TallyStore } from "./tallies.ts";
import type { WorkQueue } from "./work-queue.ts";

export type * from "./epoch-record.ts";
export type * from "./epochs.ts";
export type * from "./lineage.ts";
export type * from "./index-store.ts";
export type * from "./taken.ts";
export type * from "./work-queue.ts";
export type * from "./intents.ts";
export type * from "./key-use.ts";
export type * from "./last-writes.ts";
export type * from "./events.ts";
export type * from "./tallies.ts";
export type { ForeignWrite, ForeignWrites, GuardState, GuardStore, ResumeRequest, Stop, StopState } from "./guard-store.ts";

export interface Store extends EpochStore, IndexStore, WorkQueue, IntentStore, KeyStore, EventStore, TallyStore, GuardStore {
  /** Closes connections that the adapter opened itself. */
  close(): Promise<void>;
}
