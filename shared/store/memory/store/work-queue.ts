/**
 * The state of the work queue (informer §12.2): dirty keys with their times, runs with their keys, and outstanding doorbells.
 *
 * `ready` is a set, so adds collapse; a run first removes its key, so an add during the run stays (WQ1). `runs` has one entry per key; only
 * the holder of its token may continue (WQ2).
 */
import {
  compareResourceVersions,
  infoIn,
  maxResourceVersion,
  minResourceVersion,
  ownerIdIn,
  slicesIn,
  splitKey,
} from "@deltaloop/kube/objects";
import type { OwnerId, ControllerName, ObjectKey, View } from "@deltaloop/kube/objects";
import type { DoneResult, Effect, Outcome, ParkedKey, Snapshot, AnyTaken, TakenLineage, TakeResult, WorkQueue } from "../../ports/store.ts";
import type { Doorbell } from "../../ports/doorbells.ts";
import { byKey, laneOfKey, primariesInside, queueOf, readSlice, sliceName } from "./data.ts";
import type { EpochData, QueueData, ResourceData } from "./data.ts";
import { forgedEntry, openSlice } from "./forged.ts";
import { LEASE_MS } from "@deltaloop/base";
import { lineageOf } from "./lineage.ts";
import { adoptExpired, intentsOf, pendingDeadlineMs } from "./intents.ts";
import { retryDelayMs } from "./rate-limiter.ts";
import { doorbell } from "./ring.ts";
import type { Ring } from "./ring.ts";
import type { StoreTime } from "./store-time.ts";

/** Age below which a doorbell counts as not yet delivered. */
const BELL_MS = 5_000;
const SWEEP_GRACE_MS = 5_000;
/** Maximum delay before the sweeper repeats a doorbell; after the nth ring it waits 5 s × 2^n. */
const SWEEP_PATIENCE_MS_MAX = 300_000;
/** Doorbells of one resync; the sweeper sends the rest. */
const RESYNC_BELLS_MAX = 500;
/**
 * Longest delay of a key with urgency `status`, so that one sync covers several changes: the delay is 1 ms per dependent, up to this
 * maximum.
 */
const STATUS_MS_MAX = 1_000;

/**
 * `add` of §12.2. @returns whether a doorbell must be rung: the key is newly dirty or due earlier, has no young doorbell, and no run holds
 * it. During a run a doorbell would find the key busy; the end of the run rings a doorbell instead.
 */
export function addKey(queue: QueueData, key: ObjectKey, atMs: number, nowMs: number): boolean {
  const readyAtMs = queue.ready.get(key);
  if (readyAtMs !== undefined && readyAtMs <= atMs) return false;
  queue.ready.set(key, atMs);
  if (isLive(queue, key, nowMs)) return false;
  const bell = queue.bells.get(key);
  if (bell && nowMs - bell.rungAtMs < BELL_MS && bell.dueMs <= atMs) return false;
  queue.bells.set(key, { rungAtMs: nowMs, dueMs: atMs, rings: 0 });
  return true;
}

/** Queues the keys that an item affects; `exempt` is the key whose own status write produced the item. */
export function queueEffect(
  epoch: EpochData,
  effect: Effect,
  ring: Ring,
  nowMs: number,
  exempt: { readonly controller: ControllerName; readonly key: ObjectKey } | undefined,
): void {
  const { controller, key } = effect;
  if (exempt?.controller === controller && exempt.key === key) return;
  const queue = queueOf(epoch, controller);
  const primary = queue.primaries.get(key);
  if (!effect.self && primary?.uid !== effect.uid) return;
  const atMs = effect.urgency === "act" ? nowMs : statusAtMs(epoch, effect, nowMs);
  if (addKey(queue, key, atMs, nowMs)) ring.note(controller, key);
}

/** Returns the end of the last run (or now, during a run) plus 1 ms per dependent, at most a second. */
function statusAtMs(epoch: EpochData, { controller, key, uid }: Effect, nowMs: number): number {
  const queue = queueOf(epoch, controller);
  const slices = resourceOf(epoch, infoIn(epoch.catalog, controller).dependents)?.slices;
  const dependents = slices?.get(ownerIdIn(epoch.catalog, controller, key, uid))?.size ?? 0;
  const endedAtMs = isLive(queue, key, nowMs) ? nowMs : (queue.endedAtMs.get(key) ?? 0);
  return Math.max(nowMs, endedAtMs + Math.min(STATUS_MS_MAX, dependents));
}

function resourceOf({ resources }: EpochData, view: View | undefined): ResourceData | undefined {
  return view === undefined ? undefined : resources.get(view);
}

function isLive(queue: QueueData, key: ObjectKey, nowMs: number): boolean {
  const run = queue.runs.get(key);
  return run !== undefined && run.leaseUntilMs > nowMs;
}

/** LN4: whether the run was taken under the current term and fence. */
export function isOfLineage({ token, tokenFence }: EpochData, { lineage }: AnyTaken): boolean {
  return lineage?.token === undefined || (token?.term === lineage.token.term && tokenFence === lineage.fence);
}

function takenLineage(epoch: EpochData, controller: ControllerName): TakenLineage {
  const { tokenFence, suspectMarks, resources } = epoch;
  const { token, checkpoint } = lineageOf(epoch);
  const fences = infoIn(epoch.catalog, controller).reads.map((name) => resources.get(name)?.fence ?? "0");
  return {
    ...(token && { token }),
    fence: token ? tokenFence : fences.reduce(maxResourceVersion),
    marks: suspectMarks,
    ...(checkpoint && { checkpoint }),
  };
}

export function holds(queue: QueueData, key: ObjectKey, token: string): boolean {
  return queue.runs.get(key)?.token === token;
}

/**
 * Takes a key, as `take` does once it has found the gate open. Clears the key's outstanding doorbell, whatever the result: the caller has
 * received it.
 */
export function takeKey(
  epoch: EpochData,
  run: AnyTaken,
  known: { readonly uid?: string; readonly owner?: OwnerId },
  { nowMs, isSure }: Pick<StoreTime, "nowMs" | "isSure">,
): TakeResult {
  const queue = queueOf(epoch, run.controller);
  const { key } = run;
  const readyAtMs = queue.ready.get(key);
  const abandoned = queue.runs.has(key) && !isLive(queue, key, nowMs);
  const repeated = queue.runs.get(key)?.token === run.token;
  if ((isLive(queue, key, nowMs) || (abandoned && !isSure)) && !repeated) return { kind: "busy" }; // ST2
  if (!abandoned && !repeated) {
    if (readyAtMs === undefined) return { kind: "empty" };
    if (readyAtMs > nowMs) {
      queue.bells.set(key, { rungAtMs: nowMs, dueMs: readyAtMs, rings: 0 });
      return { kind: "notYet", delayMs: readyAtMs - nowMs, bell: doorbell(epoch, run.controller, key, readyAtMs, nowMs) };
    }
  }
  const primary = queue.primaries.get(key);
  if (known.uid !== primary?.uid || known.owner !== primary?.owner) {
    return { kind: "moved", ...(primary && { uid: primary.uid }), ...(primary?.owner !== undefined && { owner: primary.owner }) };
  }
  queue.ready.delete(key);
  const leaseUntilMs = nowMs + LEASE_MS;
  const unended = (queue.runs.get(key)?.unended ?? 0) + (abandoned && !repeated ? 1 : 0);
  queue.runs.set(key, { token: run.token, leaseUntilMs, unended });
  return begin(epoch, run, primary?.uid, leaseUntilMs, nowMs);
}

/** IT3: expired ops of a dead token are read live before any decision; younger ops requeue the key for their deadline. */
function begin(epoch: EpochData, run: AnyTaken, uid: string | undefined, leaseUntilMs: number, nowMs: number): TakeResult {
  const queue = queueOf(epoch, run.controller);
  const owner = uid === undefined ? undefined : ownerIdIn(epoch.catalog, run.controller, run.key, uid);
  const deadlineMs = owner === undefined ? undefined : pendingDeadlineMs(epoch, owner);
  if (owner !== undefined && deadlineMs !== undefined && deadlineMs <= nowMs) {
    const intents = adoptExpired(epoch, owner, run, nowMs);
    const { primary, forged = [], failures, unended } = snapshotOf(epoch, run, owner, nowMs);
    const spoilt = forged.filter(({ resource }) => resource === infoIn(epoch.catalog, run.controller).primary); // no slice was read
    return {
      kind: "recover",
      snapshot: {
        ...(primary && { primary }),
        dependents: [],
        orphans: [],
        intents,
        failures,
        ...(unended !== undefined && { unended }),
        ...(spoilt.length > 0 && { forged: spoilt }),
      },
      leaseUntilMs,
      lineage: takenLineage(epoch, run.controller),
    };
  }
  if (deadlineMs !== undefined) queue.ready.set(run.key, deadlineMs); // `done` rings this key, or the sweeper if this run crashes
  const { release } = epoch.record;
  const lineage = takenLineage(epoch, run.controller);
  return { kind: "ok", snapshot: snapshotOf(epoch, run, owner, nowMs), leaseUntilMs, lineage, ...(release !== undefined && { release }) };
}

function snapshotOf(epoch: EpochData, run: AnyTaken, owner: OwnerId | undefined, nowMs: number): Snapshot {
  const queue = queueOf(epoch, run.controller);
  const counts = { failures: queue.failures.get(run.key) ?? 0, ...unendedOf(queue, run.key) };
  const nothing: Snapshot = { dependents: [], orphans: [], intents: [], ...counts };
  if (owner === undefined) return nothing;
  const { primary, dependents, slices: further } = infoIn(epoch.catalog, run.controller);
  const primaries = epoch.resources.get(primary);
  const row = primaries && laneOfKey(primaries, run.key).rows.get(run.key);
  const data = resourceOf(epoch, dependents);
  const open = (slice: string): ReturnType<typeof openSlice> =>
    dependents === undefined ? { rows: [], forged: [] } : openSlice(dependents, data, slice, readSlice(data, slice), nowMs);
  const [own, orphans] = [open(owner), open(sliceName(undefined, splitKey(run.key).namespace))];
  const spoilt = primaries && row && forgedEntry(primaries, row);
  const slices = slicesIn(epoch.catalog, run.controller, run.key, queue.primaries.get(run.key)?.uid ?? "").map(({ view, slice }) => {
    const found = resourceOf(epoch, view);
    return [view, openSlice(view, found, slice, readSlice(found, slice), nowMs)] as const;
  });
  const forged = [...(spoilt ? [spoilt] : []), ...own.forged, ...orphans.forged, ...slices.flatMap(([, opened]) => opened.forged)];
  return {
    ...(row && !spoilt && { primary: row }),
    dependents: own.rows,
    orphans: orphans.rows,
    intents: intentsOf(epoch, owner),
    ...(further && {
      slices: new Map(slices.map(([view, { rows }]) => [view, rows])),
      records: new Map(epoch.records.get(owner)),
    }),
    ...counts,
    ...basisOf(epoch, run, owner, nowMs),
    ...(forged.length > 0 && { forged }),
  };
}

/** The state on which the run's creates and deletes are based. */
function basisOf(
  epoch: EpochData,
  run: AnyTaken,
  owner: OwnerId,
  nowMs: number,
): Pick<Snapshot, "pods" | "mark" | "left" | "drawn" | "predecessorGone"> {
  const pods = epoch.resources.get("pods");
  const [mark, left, drawn] = [epoch.marks.get(owner), epoch.left.get(owner), epoch.drawn.get(owner)];
  const watermark = pods?.lanes.map((lane) => lane.watermark).reduce(minResourceVersion) ?? "0";
  const primaries = epoch.resources.get(infoIn(epoch.catalog, run.controller).primary);
  const gone = primaries?.predecessors.filter(({ key }) => key === run.key).map(({ rv }) => rv) ?? [];
  const predecessorGone = gone.reduce(maxResourceVersion, primaries?.predecessorsFloor || "0");
  const relistedMs = pods?.relistedMs;
  return {
    ...(pods && {
      pods: { fence: pods.fence, suspects: pods.suspects, watermark, atMs: nowMs, ...(relistedMs !== undefined && { relistedMs }) },
    }),
    ...(mark && { mark }),
    ...(left !== undefined && { left }),
    ...(drawn !== undefined && { drawn }),
    ...(compareResourceVersions(predecessorGone, watermark) > 0 && { predecessorGone }),
  };
}

function unendedOf(queue: QueueData, key: ObjectKey): Pick<Snapshot, "unended"> {
  const unended = queue.runs.get(key)?.unended ?? 0;
  return unended > 0 ? { unended } : {};
}

export function renewLease(queue: QueueData, run: AnyTaken, nowMs: number): number | undefined {
  const held = queue.runs.get(run.key);
  if (held?.token !== run.token) return undefined;
  const leaseUntilMs = nowMs + LEASE_MS;
  queue.runs.set(run.key, { ...held, leaseUntilMs });
  return leaseUntilMs;
}

/** Ends the run; a dirty key then needs a doorbell. A key that no run holds is also queued, unless the outcome is final. */
export function finishRun(epoch: EpochData, run: AnyTaken, outcome: Outcome, nowMs: number): DoneResult {
  const queue = queueOf(epoch, run.controller);
  const { key } = run;
  const rung = (): { readonly bell?: Doorbell } => {
    const readyAtMs = queue.ready.get(key);
    if (readyAtMs === undefined) return {};
    queue.bells.set(key, { rungAtMs: nowMs, dueMs: readyAtMs, rings: 0 });
    return { bell: doorbell(epoch, run.controller, key, readyAtMs, nowMs) };
  };
  if (!queue.runs.has(key)) {
    // A Store that was set back does not know the run (WQ9).
    if (outcome.kind === "requeueAfter") addKey(queue, key, nowMs + outcome.delayMs, nowMs);
    if (outcome.kind === "retry" && !queue.ready.has(key)) addKey(queue, key, nowMs, nowMs);
    return { kind: "ended", ...rung() };
  }
  if (!holds(queue, key, run.token)) return { kind: "stolen" };
  queue.runs.delete(key);
  queue.parked.delete(key);
  if (queue.primaries.has(key)) queue.endedAtMs.set(key, nowMs);
  switch (outcome.kind) {
    case "drop":
      if (queue.primaries.has(key)) queue.parked.set(key, (queue.failures.get(key) ?? 0) + 1);
      queue.failures.delete(key);
      break;
    case "ok":
      queue.failures.delete(key);
      break;
    case "requeueAfter":
      // The run has succeeded: as upstream's Forget, then AddAfter.
      queue.failures.delete(key);
      addKey(queue, key, nowMs + outcome.delayMs, nowMs);
      break;
    case "retry": {
      const failures = (queue.failures.get(key) ?? 0) + 1;
      queue.failures.set(key, failures);
      addKey(queue, key, nowMs + Math.max(0, Math.min(retryDelayMs(queue, failures, nowMs), outcome.withinMs ?? Infinity)), nowMs);
      break;
    }
    default:
      outcome satisfies never;
  }
  return { kind: "done", failures: queue.failures.get(key) ?? 0, ...rung() };
}

/** Returns overdue keys without a run, then keys of runs whose lease has expired. Omits keys whose doorbell was rung recently. */
export function sweepKeys(queue: QueueData, nowMs: number, keysMax: number, isStopped: (key: ObjectKey) => boolean): readonly ObjectKey[] {
  const overdue = dirtyKeys(queue).filter((key) => (queue.ready.get(key) ?? 0) < nowMs - SWEEP_GRACE_MS && !queue.runs.has(key));
  const abandoned = [...queue.runs.keys()].filter((key) => !isLive(queue, key, nowMs)).sort();
  const rung: ObjectKey[] = [];
  for (const key of [...overdue, ...abandoned]) {
    if (rung.length >= keysMax) break;
    if (isStopped(key)) continue;
    const bell = queue.bells.get(key);
    if (bell && nowMs - bell.rungAtMs < Math.min(BELL_MS * 2 ** bell.rings, SWEEP_PATIENCE_MS_MAX)) continue;
    queue.bells.set(key, { rungAtMs: nowMs, dueMs: nowMs, rings: (bell?.rings ?? 0) + 1 });
    rung.push(key);
  }
  return rung;
}

/** Enqueues the primaries for a resync (WQ7). @returns the keys whose doorbells are due */
export function resyncKeys(queue: QueueData, spreadMs: number, nowMs: number): readonly ObjectKey[] {
  const keys = primariesInside(queue);
  return keys
    .filter((key, index) => {
      if (queue.failures.has(key) && queue.ready.has(key)) return false;
      return addKey(queue, key, nowMs + Math.floor((index * spreadMs) / keys.length), nowMs);
    })
    .slice(0, RESYNC_BELLS_MAX);
}

/** Returns dirty keys, the earliest due first. */
export function dirtyKeys(queue: QueueData): readonly ObjectKey[] {
  return [...queue.ready]
    .map(([key, atMs]) => ({ key, atMs }))
    .sort((a, b) => a.atMs - b.atMs || byKey(a, b))
    .map(({ key }) => key);
}

/** Returns dirty and running keys, for users and tests. */
export function queuedKeys(queue: QueueData | undefined): Awaited<ReturnType<WorkQueue["queued"]>> {
  if (!queue) return [];
  const keys = [...new Set([...queue.ready.keys(), ...queue.runs.keys()])].sort();
  return keys.map((key) => {
    const readyAtMs = queue.ready.get(key);
    const leaseUntilMs = queue.runs.get(key)?.leaseUntilMs;
    return {
      key,
      ...(readyAtMs !== undefined && { readyAtMs }),
      ...(leaseUntilMs !== undefined && { leaseUntilMs }),
      failures: queue.failures.get(key) ?? 0,
    };
  });
}

/** Returns the parked keys (WQ6), sorted by key. */
export function parkedKeys(queue: QueueData | undefined): readonly ParkedKey[] {
  if (!queue) return [];
  return [...queue.parked]
    .filter(([key]) => !queue.ready.has(key) && !queue.runs.has(key))
    .map(([key, failures]) => ({ key, sinceMs: queue.endedAtMs.get(key) ?? 0, failures }))
    .sort(byKey);
}
