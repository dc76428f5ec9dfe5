/**
 * One pod's worker as a state machine over its record (node-agent §4). Event sources call `acceptUpdate` at any time; the holder of the
 * pod's message runs `startSync`, the sync, `endSync`. Each of the three is one NodeStore.update.
 *
 *     (none) ──▶ syncing ──▶ terminating ──▶ terminated ──▶ finished ──housekeeping──▶ (none)
 *                                └─ known at runtime only ──────────────────────────────▲
 *
 * PW1 a state changes only from left to right: a terminating pod is never synced again until its record is purged.
 * PW2 the grace period only gets shorter.
 * PW3 at most one update is pending. A newer update replaces it, but keeps its arrival time.
 * PW4 a sync without a pending update does nothing, so duplicate messages are harmless.
 * PW5 only the sync with the newest token writes; NodeStore enforces it (NS2).
 *
 * Syncs read the newest pod from the pod manager, so replacing a pending update loses nothing.
 */
import type { AbnormalTermination, PendingUpdate, UpdateKind, WorkerRecord } from "../../ports/node-store.ts";
import type { StartVerdict } from "./static-start.ts";

/** A change to a pod, reduced to the fields that its worker needs. */
export interface PodUpdate {
  readonly kind: UpdateKind;
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly nowMs: number;
  readonly deletionTimestamp?: true;
  readonly deletionGracePeriodSeconds?: number;
  /** Value of `spec.terminationGracePeriodSeconds`. Default: 30. */
  readonly specGracePeriodSeconds: number;
  readonly phaseIsTerminal: boolean;
  /** Whether the last observation has a running container or a ready sandbox, or is missing. */
  readonly mayRun: boolean;
  /** Set if the pod was found in the runtime and the caller has no spec. Spec, phase and deletion fields are then ignored. */
  readonly runtimeOnly?: true;
  /** A grace period that overrides the pod's; only for `kill`. */
  readonly graceOverrideSeconds?: number;
  /** The reason to report in the status; only for `kill`. */
  readonly abnormal?: AbnormalTermination;
  /** The kill is an eviction; only for `kill`. */
  readonly evict?: true;
}

/**
 * `cancel`: end the running sync early, because termination began or the grace period became shorter. `enqueue`: send a message for this
 * UID.
 */
export interface Accepted {
  readonly record: WorkerRecord | undefined;
  readonly cancel: boolean;
  readonly enqueue: boolean;
}

/** Maximum number of recorded reasons. Only the last one is used; the others help in debugging. */
const ABNORMAL_TERMINATIONS_MAX = 8;

/**
 * Merges `update` into the record; returns the same record if the update is ignored. Source: pkg/kubelet/pod_workers.go UpdatePod. Differs
 * from upstream: a new record stores `observedRuntime`, because a record can be lost while its pod runs, and the pod must still be stopped.
 */
export function acceptUpdate(record: WorkerRecord | undefined, update: PodUpdate): Accepted {
  const ignored: Accepted = { record, cancel: false, enqueue: false };
  const isRuntimeOnly = update.runtimeOnly === true;
  if (isRuntimeOnly && update.kind !== "kill") return ignored;
  if (record?.terminatingAtMs !== undefined && update.kind === "create")
    return { ...ignored, record: record.restartRequested ? record : { ...record, restartRequested: true } };
  if (record?.finished || (isRuntimeOnly && record?.terminatedAtMs !== undefined)) return ignored;

  const before = withSpec(record ?? newRecord(update), update);
  const termination = before.terminatingAtMs === undefined ? terminationOf(update) : undefined;
  const after: WorkerRecord = { ...before, ...termination, pending: pendingOf(before, update) };
  if (workerState(after) !== "terminating") return { record: after, cancel: false, enqueue: true };

  const grace = effectiveGrace({
    recorded: before.gracePeriodSeconds,
    deletion: isRuntimeOnly ? undefined : update.deletionGracePeriodSeconds,
    override: update.graceOverrideSeconds,
    spec: before.specGracePeriodSeconds ?? 0,
  });
  const abnormalTerminations = withAbnormal(before.abnormalTerminations, update.abnormal);
  return {
    record: { ...after, gracePeriodSeconds: grace.seconds, abnormalTerminations },
    cancel: termination !== undefined || grace.shortened,
    enqueue: true,
  };
}

/** A pod that ended before the agent started begins as terminated: it holds no resources, but is still cleaned up. */
function newRecord(update: PodUpdate): WorkerRecord {
  const { fullName, isStatic, nowMs, runtimeOnly, phaseIsTerminal, mayRun } = update;
  const hasEnded = runtimeOnly !== true && phaseIsTerminal && !mayRun;
  return {
    fullName,
    isStatic,
    syncedAtMs: nowMs,
    ...(hasEnded && { terminatingAtMs: nowMs, startedTerminating: true, terminatedAtMs: nowMs }),
    gracePeriodSeconds: hasEnded ? effectiveGrace({ recorded: 0, spec: update.specGracePeriodSeconds }).seconds : 0,
    ...(mayRun && { observedRuntime: true }),
    abnormalTerminations: [],
    token: 0,
  };
}

function withSpec(record: WorkerRecord, update: PodUpdate): WorkerRecord {
  if (update.runtimeOnly) return { ...record, observedRuntime: true };
  return { ...record, isStatic: update.isStatic, specGracePeriodSeconds: update.specGracePeriodSeconds };
}

function terminationOf(update: PodUpdate): Pick<WorkerRecord, "terminatingAtMs" | "deleted" | "evicted"> | undefined {
  const terminatingAtMs = update.nowMs;
  if (update.runtimeOnly || update.deletionTimestamp) return { terminatingAtMs, deleted: true };
  if (update.phaseIsTerminal) return { terminatingAtMs };
  if (update.kind !== "kill") return undefined;
  return update.evict ? { terminatingAtMs, evicted: true } : { terminatingAtMs };
}

/** A kill without a spec uses the last known grace period. */
function pendingOf({ pending, specGracePeriodSeconds }: WorkerRecord, { kind, nowMs }: PodUpdate): PendingUpdate {
  const runtimeOnly = specGracePeriodSeconds === undefined;
  return { kind, sinceMs: Math.min(pending?.sinceMs ?? nowMs, nowMs), ...(runtimeOnly && { runtimeOnly }) };
}

function withAbnormal(known: readonly AbnormalTermination[], next: AbnormalTermination | undefined): readonly AbnormalTermination[] {
  return next === undefined ? known : [...known, next].slice(-ABNORMAL_TERMINATIONS_MAX);
}

export type WorkerState = "syncing" | "terminating" | "terminated";

/** Returns the state of the worker. Source: pkg/kubelet/pod_workers.go podSyncStatus.WorkType. */
export function workerState({ terminatingAtMs, terminatedAtMs }: WorkerRecord): WorkerState {
  if (terminatedAtMs !== undefined) return "terminated";
  return terminatingAtMs === undefined ? "syncing" : "terminating";
}

/** `idle` means that no update is pending, or that the start gate blocks the update; no token is issued. */
export interface SyncStart {
  readonly record: WorkerRecord;
  readonly work: "sync" | "terminating" | "terminatingRuntime" | "terminated" | "idle" | "finishedUnstarted";
}

/**
 * Takes `pending` and issues a sync token. For a pod that has not started, `gate` decides: `notYet` keeps the update pending; `never`
 * finishes the pod without any work, and the caller releases its full name. Source: pkg/kubelet/pod_workers.go startPodSync,
 * cleanupUnstartedPod, acknowledgeTerminating. Differs from upstream: acknowledges termination here, before the runtime is observed. This
 * is safe, because no other sync runs and this one starts no container.
 */
export function startSync(record: WorkerRecord, gate: StartVerdict, nowMs: number): SyncStart {
  const { pending, ...rest } = record;
  if (pending === undefined) return { record, work: "idle" };
  const state = workerState(record);
  const token = record.token + 1;
  if (record.startedAtMs === undefined && pending.runtimeOnly !== true) {
    if (state === "syncing" && gate !== "start") return { record, work: "idle" };
    if (state !== "syncing" && (gate === "never" || record.isStatic) && !record.observedRuntime)
      return { record: { ...rest, token, terminatedAtMs: rest.terminatedAtMs ?? nowMs, finished: true }, work: "finishedUnstarted" };
  }
  const taken: WorkerRecord = { ...rest, token, ...(pending.runtimeOnly !== true && { startedAtMs: rest.startedAtMs ?? nowMs }) };
  switch (state) {
    case "syncing":
      return { record: taken, work: "sync" };
    case "terminating":
      return { record: { ...taken, startedTerminating: true }, work: pending.runtimeOnly ? "terminatingRuntime" : "terminating" };
    case "terminated":
      return { record: taken, work: "terminated" };
    default:
      return state satisfies never;
  }
}

/** How a sync ended; `failed` includes cancellation. */
export type SyncEnd =
  | { readonly kind: "synced"; readonly terminalPhase: boolean }
  | { readonly kind: "terminatingDone" }
  | { readonly kind: "terminatingRuntimeDone" }
  | { readonly kind: "terminatedDone" }
  | { readonly kind: "failed" };

/**
 * Updates the record after a sync. After a `transition`, the next sync is due immediately; for a `pending` update, the caller sends a
 * message. Returns undefined if the record must be deleted. Source: pkg/kubelet/pod_workers.go podWorkerLoop, completeSync,
 * completeTerminating, completeTerminatingRuntimePod, completeTerminated. Differs from upstream: the effective grace period of a pod that
 * ended by itself is set here.
 */
export function endSync(
  record: WorkerRecord,
  end: SyncEnd,
  nowMs: number,
): { readonly record: WorkerRecord | undefined; readonly transition: boolean } {
  const ended: WorkerRecord = { ...record, lastTurnEndedAtMs: nowMs };
  switch (end.kind) {
    case "failed":
      return { record: ended, transition: false };
    case "synced":
      return end.terminalPhase ? { record: endedByItself(ended, nowMs), transition: true } : { record: ended, transition: false };
    case "terminatingDone":
      return { record: requeueLastUpdate({ ...ended, terminatedAtMs: nowMs, abnormalTerminations: [] }, nowMs), transition: true };
    case "terminatingRuntimeDone":
      return { record: undefined, transition: false };
    case "terminatedDone": {
      const { pending: _dropped, ...rest } = ended;
      return { record: { ...rest, finished: true }, transition: false };
    }
    default:
      return end satisfies never;
  }
}

function endedByItself(record: WorkerRecord, nowMs: number): WorkerRecord {
  const grace = effectiveGrace({ recorded: record.gracePeriodSeconds, spec: record.specGracePeriodSeconds ?? 0 });
  const terminating = {
    terminatingAtMs: record.terminatingAtMs ?? nowMs,
    startedTerminating: true,
    gracePeriodSeconds: grace.seconds,
  } as const;
  return requeueLastUpdate({ ...record, ...terminating }, nowMs);
}

/**
 * Makes the last update pending again, unless another update is pending or no sync has run. Source: pkg/kubelet/pod_workers.go
 * requeueLastPodUpdate.
 */
export function requeueLastUpdate(record: WorkerRecord, nowMs: number): WorkerRecord {
  if (record.pending !== undefined || record.token === 0) return record;
  const isRuntimeOnly = record.specGracePeriodSeconds === undefined;
  const pending: PendingUpdate = isRuntimeOnly ? { kind: "kill", sinceMs: nowMs, runtimeOnly: true } : { kind: "sync", sinceMs: nowMs };
  return { ...record, pending };
}

/** Requested grace periods in seconds. */
export interface RequestedGrace {
  /** The result of earlier updates; 0 if there is none. */
  readonly recorded: number;
  /** The grace period of the pod's deletion in the API server, if it is being deleted. */
  readonly deletion?: number | undefined;
  /** The grace period of a kill that has its own, such as an eviction. */
  readonly override?: number | undefined;
  readonly spec: number;
}

export interface EffectiveGrace {
  readonly seconds: number;
  /** Whether a running stop had a longer grace period. */
  readonly shortened: boolean;
}

/** The minimum grace period, so that every container gets a termination signal first. */
const GRACE_SECONDS_MIN = 1;

/**
 * Computes the effective grace period. It only gets shorter; `spec` applies only if there is no other value.
 *
 *     recorded 0,  spec 30                         → 30
 *     recorded 0,  spec 30, deletion 5             → 5
 *     recorded 5,  deletion 60                     → 5
 *     recorded 30, deletion 5, override 2          → 2, shortened
 *     recorded 0,  deletion 0                      → 1
 *
 * Source: pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod. Differs from upstream: 0 is raised to 1. In upstream, 0 also means
 * "unset", so that an override of 30 together with a deletion with grace 0 yields 30, and a recorded 1 can grow.
 */
export function effectiveGrace({ recorded, deletion, override, spec }: RequestedGrace): EffectiveGrace {
  let seconds = recorded;
  for (const wish of [deletion, override])
    if (wish !== undefined && (seconds === 0 || wish < seconds)) seconds = Math.max(wish, GRACE_SECONDS_MIN);
  const effective = seconds === 0 ? Math.max(spec, GRACE_SECONDS_MIN) : seconds;
  return { seconds: effective, shortened: recorded !== 0 && effective !== recorded };
}
