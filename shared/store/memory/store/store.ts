/**
 * The Store in memory: the whole contract of shared/store/ports/store.ts in one process, for the demo without Redis, tests and replay. Each
 * verb is one synchronous step and therefore atomic; the other files of this folder make the decisions.
 */
import { ownerIdIn } from "@deltaloop/kube/objects";
import type { ObjectKey } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import type { Doorbell } from "../../ports/doorbells.ts";
import type { Store } from "../../ports/store.ts";
import type { StoreOptions } from "../../store-options.ts";
import { applyManifest, applyPack, readManifest, stashManifest } from "./apply.ts";
import { correlationsOf, createMemoryData, queueOf } from "./data.ts";
import type { MemoryData } from "./data.ts";
import { checkpoint, epochNamed, heartbeat, markSuspect, noteForgery, openEpoch, openFence, openGeneration, quarantine } from "./epochs.ts";
import { gateReason } from "./gate.ts";
import { reportForeignWrites, resume, stopFor } from "./guard-store.ts";
import { readEntries, readGhosts, readIndex, readLane, readSlices } from "./index.ts";
import { register } from "./intents.ts";
import { lineage } from "./lineage.ts";
import { doorbell } from "./ring.ts";
import { storeTime } from "./store-time.ts";
import type { MemoryStoreOptions } from "./store-time.ts";
import { addKey, finishRun, holds, isOfLineage, parkedKeys, queuedKeys, renewLease, resyncKeys, sweepKeys, takeKey } from "./work-queue.ts";
import { correlate } from "@deltaloop/kube/events";
import { tallies } from "./tallies.ts";
import { writeThrough } from "./write-through.ts";

/** Maximum number of doorbells that one pass of the sweeper rings. */
const SWEEP_MAX = 500;

/**
 * @param data shared by several Stores, as several functions share one Redis; default: separate data.
 * @throws {TypeError} without a clock, because the memory Store has no other source of time.
 */
export function createMemoryStore(given: StoreOptions, data: MemoryData = createMemoryData(given.catalog)): Store {
  const { clock: serverClock } = given;
  if (!serverClock) throw new TypeError("the memory Store needs a clock");
  const options: MemoryStoreOptions = { ...given, clock: serverClock };
  const clock: StoreClock = { now: () => storeTime(data.epoch?.clock, serverClock.now()).nowMs };
  return {
    ...indexVerbs(data, options, clock),
    ...epochVerbs(data, options, clock),
    ...queueVerbs(data, options, clock),
    correlateEvents: async (controller, happenings) => {
      const nowMs = clock.now();
      return happenings.map((each) => correlate(correlationsOf(data, controller), { ...each, message: each.key }, nowMs));
    },
    keyUse: async () => ({ current: 0, former: 0, foreign: 0, ghosts: 0, hidden: 0 }), // this Store signs nothing (forged.ts)
    tallies: async () => tallies(data),
    guard: async () => data.guard,
    reportForeignWrites: async (writes, nowMs) => reportForeignWrites(data, writes, nowMs),
    resume: async (request) => resume(data, request),
    close: async () => {},
  };
}

/** Returns the Store's time. */
type StoreClock = Pick<Clock, "now">;

type Verbs<K extends keyof Store> = Pick<Store, K>;

function epochVerbs(
  data: MemoryData,
  options: MemoryStoreOptions,
  clock: StoreClock,
): Verbs<
  | "epoch"
  | "lineage"
  | "forgetRecentEpochs"
  | "openEpoch"
  | "forgetEpochs"
  | "openFence"
  | "openGeneration"
  | "checkpoint"
  | "heartbeat"
  | "markSuspect"
  | "takeTurns"
  | "gate"
  | "quarantine"
  | "quarantined"
  | "noteForgery"
  | "forgeries"
> {
  return {
    epoch: async () => data.epoch?.record,
    lineage: async () => lineage(data, clock.now()),
    forgetRecentEpochs: async () => void (data.openedMs = []),
    openEpoch: async (record, over, token) => openEpoch(data, record, over, token, clock.now()),
    forgetEpochs: async () => 0, // openEpoch removes the previous epoch completely
    openFence: async (request) => openFence(data, request),
    openGeneration: async (request) => openGeneration(data, request),
    checkpoint: async (request) => checkpoint(data, request, options.clock.now()),
    heartbeat: async (request) => heartbeat(data, request, clock.now()),
    markSuspect: async (resource, reason) => markSuspect(data, resource, reason),
    takeTurns: async (name, jobs) => {
      const epoch = epochNamed(data, name);
      return jobs.flatMap(({ job, afterMs }) => {
        const dueMs = epoch?.turns.get(job);
        if (dueMs === undefined || dueMs <= clock.now()) epoch?.turns.set(job, clock.now() + Math.ceil(afterMs));
        return dueMs !== undefined && dueMs <= clock.now() ? [job] : [];
      });
    },
    gate: async (controller) => {
      const reason = gateReason(data, controller, options);
      return reason === undefined ? { open: true } : { open: false, reason };
    },
    quarantine: async (entry, ended) => quarantine(data, entry, ended),
    quarantined: async () => data.epoch?.quarantine ?? [],
    noteForgery: async (forgery) => noteForgery(data, forgery),
    forgeries: async () => data.forgeries,
  };
}

function indexVerbs(
  data: MemoryData,
  options: MemoryStoreOptions,
  clock: StoreClock,
): Verbs<
  | "readIndex"
  | "readSlices"
  | "readLane"
  | "readEntries"
  | "readGhosts"
  | "applyPack"
  | "stashManifest"
  | "readManifest"
  | "applyManifest"
  | "writeThrough"
  | "registerIntents"
> {
  return {
    readIndex: async (request) => readIndex(data, request),
    readSlices: async (slices) => readSlices(data, slices),
    readLane: async (resource, lane) => readLane(data, resource, lane),
    readEntries: async (resource, keys) => readEntries(data, resource, keys),
    readGhosts: async (resource) => readGhosts(data, resource),
    applyPack: async (pack, items, extra) => applyPack(data, pack, items, extra, options, clock.now()),
    stashManifest: async (pack, rows) => stashManifest(data, pack, rows, clock.now()),
    readManifest: async (pack) => readManifest(data, pack),
    applyManifest: async (pack, manifest) => applyManifest(data, pack, manifest, options, clock.now()),
    writeThrough: async (run, write) => writeThrough(data, run, write, clock.now()),
    registerIntents: async (run, ownerUid, intents, drawn) => {
      const epoch = epochNamed(data, run.epoch);
      const queue = epoch && queueOf(epoch, run.controller);
      // Ops stored under the uid of a replaced primary would never be removed (IT4).
      if (!epoch || !queue || !holds(queue, run.key, run.token) || queue.primaries.get(run.key)?.uid !== ownerUid) return "stolen";
      if (!isOfLineage(epoch, run) || (run.lineage && run.lineage.marks !== epoch.suspectMarks)) return "stolen"; // LN4
      const owner = ownerIdIn(epoch.catalog, run.controller, run.key, ownerUid);
      register(epoch, owner, run, intents, clock.now());
      if (drawn !== undefined) epoch.drawn.set(owner, drawn);
      return "ok";
    },
  };
}

function queueVerbs(
  data: MemoryData,
  options: MemoryStoreOptions,
  clock: StoreClock,
): Verbs<"add" | "take" | "renew" | "done" | "resync" | "sweep" | "dueIn" | "queued" | "parked"> {
  return {
    add: async (name, controller, key, delayMs) => {
      const epoch = epochNamed(data, name);
      const nowMs = clock.now();
      const atMs = nowMs + delayMs;
      return epoch && addKey(queueOf(epoch, controller), key, atMs, nowMs) ? doorbell(epoch, controller, key, atMs, nowMs) : undefined;
    },
    take: async (run, known) => {
      const { epoch } = data;
      if (epoch && epoch.record.epoch !== run.epoch) return { kind: "otherEpoch" };
      if (epoch) queueOf(epoch, run.controller).bells.delete(run.key);
      const stop = stopFor(data, options, run.key);
      if (epoch && stop) return { kind: "stopped", stop };
      const reason = gateReason(data, run.controller, options);
      if (!epoch || reason !== undefined) return { kind: "gated", reason: reason ?? "" };
      return takeKey(epoch, run, known, storeTime(data.epoch?.clock, options.clock.now()));
    },
    renew: async (run) => {
      const epoch = epochNamed(data, run.epoch);
      const queue = epoch && queueOf(epoch, run.controller);
      if (!queue || !holds(queue, run.key, run.token)) return undefined;
      return stopFor(data, options, run.key) ? "stopped" : renewLease(queue, run, clock.now());
    },
    done: async (run, outcome) => {
      const epoch = epochNamed(data, run.epoch);
      return epoch ? finishRun(epoch, run, outcome, clock.now()) : { kind: "stolen" };
    },
    resync: async (name, controller, spreadMs) => {
      const nowMs = clock.now();
      const epoch = epochNamed(data, name);
      if (!epoch) return [];
      const queue = queueOf(epoch, controller);
      return resyncKeys(queue, spreadMs, nowMs).map((key) => doorbell(epoch, controller, key, queue.ready.get(key) ?? nowMs, nowMs));
    },
    sweep: async (name) => sweep(data, name, options, clock.now()),
    dueIn: async (name) => dueIn(data, name, clock.now()),
    queued: async (controller) => queuedKeys(data.epoch && queueOf(data.epoch, controller)),
    parked: async (controller) => parkedKeys(data.epoch && queueOf(data.epoch, controller)),
  };
}

function dueIn(data: MemoryData, name: string, nowMs: number): number | undefined {
  const epoch = epochNamed(data, name);
  const queues = epoch ? data.catalog.controllers.map((controller) => queueOf(epoch, controller)) : [];
  if (queues.some(({ runs }) => runs.size > 0)) return 0;
  const earliest = queues.flatMap(({ ready }) => [...ready.values()]).reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  return Number.isFinite(earliest) ? Math.max(0, earliest - nowMs) : undefined;
}

/** Returns the doorbells of lost or overdue keys (WQ5). Omits keys of a controller whose gate is closed: a worker could not take them. */
function sweep(data: MemoryData, name: string, options: MemoryStoreOptions, nowMs: number): readonly Doorbell[] {
  const epoch = epochNamed(data, name);
  const bells: Doorbell[] = [];
  if (!epoch) return bells;
  const open = data.catalog.controllers.filter((controller) => gateReason(data, controller, options) === undefined);
  for (const controller of open) {
    const isStopped = (key: ObjectKey): boolean => stopFor(data, options, key) !== undefined;
    const keys = sweepKeys(queueOf(epoch, controller), nowMs, SWEEP_MAX - bells.length, isStopped);
    bells.push(...keys.map((key) => doorbell(epoch, controller, key, nowMs, nowMs)));
  }
  return bells;
}
