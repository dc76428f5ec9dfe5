/**
 * The Store: everything that must change together stands in one place, and one call is one step. The index, the work queue
 * and the intents are three views of it, never three adapters. `shared/store/redis` (one Lua script a verb) and
 * `shared/store/memory` pass the same suite, test/conformance/store.ts. A Store is bound to one deployment and one
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
 * IX10 an item whose row nobody has read is done only if that shows in the step itself: nothing stands there, or exactly what the item
 *     would write. Everything else answers `retry` at that item and changes nothing of it.
 *
 * A14 what fails its MAC (shared/store/signer.ts) counts as absent for IX1, IX2 and IX7; so does a row whose entry is not there, and a
 *     primary whose entry is not the one that its row and the queue name. Whoever comes upon it gets it as `Forged`, reads the object
 *     live and puts it back with that `Forged`: then the exact bad text is replaced, or, if something else stands there by now, the
 *     call answers `retry`. What was put back so is not held to A6. A snapshot that holds some is not decided on.
 *
 * Account (informer §16)
 * TY1  every item that comes to an end in a lane is counted in the step that ends it, once as received and once by what became of it:
 *      received = applied + superseded + duplicate + fenced + otherEpoch + quarantined + dead, whatever comes, and in whatever order.
 *      What comes again (no epoch yet, a fence that is not open, a row that moved) is not at its end. A new epoch changes no count.
 *
 * Loss (informer §11.7)
 * SL1  a Store is *set back* when it holds an older checkpoint than one it has answered, or a smaller fence than one it has opened, or
 *     when another primary serves it than the one the fence was opened on: what it held last may be missing, what it holds is whole.
 *     The checkpoint that sees this makes every resource suspect and ends every run, in the same step.
 * SL2  while another primary serves it every gate is closed, whoever asks; a fence that is opened there makes the resource suspect.
 * SL3  a Store is *damaged* when an open resource or a lane of one is missing, or keys were evicted: nothing tells what else is. The
 *     checkpoint that sees this makes what is left suspect; only a new epoch helps. A leader that comes after it is told when it opens
 *     its fence, and nothing is changed: what it would open anew is not all that is lost.
 *
 * Work queue (informer §12)
 * WQ1  adds before a take collapse into one run; an add during a run leads to exactly one more.
 * WQ2  one key is never taken twice at once; an expired lease may be taken over, and its old holder's calls answer "stolen". The same
 *     take once more, its answer having been lost, is answered once more; of the same end what is due by then is rung once more.
 * WQ3  the earliest requested time wins; an immediate add overtakes a back-off.
 * WQ4  nothing is handed out while the gate of the controller is closed; keys stay dirty meanwhile.
 * WQ5  a lost doorbell is rung by `sweep`; one that is outstanding and young is not repeated, and none is rung for a key that a run
 *      holds: its end rings.
 * WQ6  a key whose run ended with `drop` is parked: neither queued nor run until the next add, whoever makes it, and its failures begin
 *      anew. It is no longer parked the moment it is added, and forgotten with its primary, so there are never more than primaries.
 * WQ7  a resync is an add of every primary (so WQ3 holds, and WQ6), but of none that is backing off: that one runs in its time.
 * WQ8  a write-through that ends its run is the two calls in one step, the write first: so what it queues of its own key is rung. What it
 *      tells is true whoever holds the key; the run ends only by its own token, and not while some of the write must come again.
 *
 * Lineage (informer §11.11): LN1–LN5 in store/ports/lineage.ts.
 *
 * Guard (informer §11.9): GD1–GD8 in store/guard-store.ts.
 *
 * Intents (informer §13)
 * IT1  `registerIntents` and every lowering or re-planning by a worker is void without its token.
 * IT2  lowering is by the pod's own name or uid, so it happens at most once whatever is repeated.
 * IT3  `take` never hands out a snapshot beside expired pending ops of a dead token: it answers `recover`.
 * IT4  intents are keyed by the owner (namespace, kind, name, uid) and vanish with it.
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
export type * from "./events.ts";
export type * from "./tallies.ts";
export type { ForeignWrite, ForeignWrites, GuardState, GuardStore, ResumeRequest, Stop, StopState } from "./guard-store.ts";

export interface Store extends EpochStore, IndexStore, WorkQueue, IntentStore, KeyStore, EventStore, TallyStore, GuardStore {
  /** Ends connections that the adapter opened itself. */
  close(): Promise<void>;
}
