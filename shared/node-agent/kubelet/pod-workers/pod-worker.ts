/**
 * One pod's worker as a state machine over its record (node-agent §4). Whoever learns something of a pod calls `acceptUpdate` at
 * once, also while a turn is in progress; whoever holds the pod's message plays one turn: `startSync`, the work, `endSync`. Each of
 * the three is one step of NodeStore.update.
 *
 *     (none) ──▶ syncing ──▶ terminating ──▶ terminated ──▶ finished ──housekeeping──▶ (none)
 *                                └─ known at runtime only ──────────────────────────────▲
 *
 * PW1 states only go to the right: who began to terminate is never synced again, until its record is purged.
 * PW2 the grace only gets shorter.
 * PW3 at most one update waits; a newer one takes its place and keeps its age.
 * PW4 a turn without a waiting update is idle, so a message may come twice.
 * PW5 the turn with the newest token writes; NodeStore refuses the others (NS2), so nothing here compares tokens.
 *
 * The pod itself is in the host's memory: a turn reads the newest one there, so an update that replaced another loses nothing.
 */
import type { AbnormalTermination, PendingUpdate, UpdateKind, WorkerRecord } from "../../ports/node-store.ts";
import type { StartVerdict } from "./static-start.ts";

/** What somebody learnt of a pod, and of it what its worker must know. */
export interface PodUpdate {
  readonly kind: UpdateKind;
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly nowMs: number;
  readonly deletionTimestamp?: true;
  readonly deletionGracePeriodSeconds?: number;
  /** `spec.terminationGracePeriodSeconds`, default 30. */
  readonly specGracePeriodSeconds: number;
  readonly phaseIsTerminal: boolean;
  /** The observed (cached) state has a running container or a ready sandbox; also when nobody could observe it. */
  readonly mayRun: boolean;
  /** Found at runtime, and the caller has no spec of it: what is said of spec, phase and deletion does not count. */
  readonly runtimeOnly?: true;
  /** Of a kill. */
  readonly graceOverrideSeconds?: number;
  /** Of a kill: what the status shall say. */
  readonly abnormal?: AbnormalTermination;
  /** Of a kill. */
  readonly evict?: true;
}

/** `cancel`: the turn in progress must end early (became terminating, or grace got shorter). `wake`: send a message for this UID. */
export interface Accepted {
  readonly record: WorkerRecord | undefined;
  readonly cancel: boolean;
  readonly wake: boolean;
}

/** Only the last one counts; the others are kept to be looked at. */
const ABNORMAL_TERMINATIONS_MAX = 8;

/**
 * Takes note of `update`; the same record comes back where it is ignored.
 *
 * Source: pkg/kubelet/pod_workers.go UpdatePod. Differs from upstream: a new record remembers that the runtime may have something
 * of the pod already (`observedRuntime`), because here a record can be lost while its pod runs, and then it still must be stopped.
 */
export function acceptUpdate(record: WorkerRecord | undefined, update: PodUpdate): Accepted {
  const ignored: Accepted = { record, cancel: false, wake: false };
  const isRuntimeOnly = update.runtimeOnly === true;
  if (isRuntimeOnly && update.kind !== "kill") return ignored;
  if (record?.terminatingAtMs !== undefined && update.kind === "create")
    return { ...ignored, record: record.restartRequested ? record : { ...record, restartRequested: true } };
  if (record?.finished || (isRuntimeOnly && record?.terminatedAtMs !== undefined)) return ignored;

  const before = withSpec(record ?? newRecord(update), update);
  const termination = before.terminatingAtMs === undefined ? terminationOf(update) : undefined;
  const after: WorkerRecord = { ...before, ...termination, pending: pendingOf(before, update) };
  if (workerState(after) !== "terminating") return { record: after, cancel: false, wake: true };

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
    wake: true,
  };
}

/** A pod that ended in an earlier life of the agent is terminated from the start, so that it holds no place; its clean-up still runs. */
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

/** A spec that was once seen is used for a kill that has none. */
function pendingOf({ pending, specGracePeriodSeconds }: WorkerRecord, { kind, nowMs }: PodUpdate): PendingUpdate {
  const runtimeOnly = specGracePeriodSeconds === undefined;
  return { kind, sinceMs: Math.min(pending?.sinceMs ?? nowMs, nowMs), ...(runtimeOnly && { runtimeOnly }) };
}

function withAbnormal(known: readonly AbnormalTermination[], next: AbnormalTermination | undefined): readonly AbnormalTermination[] {
  return next === undefined ? known : [...known, next].slice(-ABNORMAL_TERMINATIONS_MAX);
}

export type WorkerState = "syncing" | "terminating" | "terminated";

/** Source: pkg/kubelet/pod_workers.go podSyncStatus.WorkType. */
export function workerState({ terminatingAtMs, terminatedAtMs }: WorkerRecord): WorkerState {
  if (terminatedAtMs !== undefined) return "terminated";
  return terminatingAtMs === undefined ? "syncing" : "terminating";
}

/** `idle`: nothing waits, or it waits for its start gate; no token was made, and the turn ends here. */
export interface SyncStart {
  readonly record: WorkerRecord;
  readonly work: "sync" | "terminating" | "terminatingRuntime" | "terminated" | "idle" | "finishedUnstarted";
}

/**
 * Takes `pending` and makes the turn's token. `gate` counts for a pod that has not started: one that may not yet keeps its update,
 * one that never may is finished without any work, and its full name must be released.
 *
 * Source: pkg/kubelet/pod_workers.go startPodSync, cleanupUnstartedPod, acknowledgeTerminating. Differs from upstream: termination
 * is acknowledged here and not after the runtime was looked at; no other turn is in progress, and this one starts nothing.
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

/** How the work of a turn ended; `failed` also when it was cancelled. */
export type SyncEnd =
  | { readonly kind: "synced"; readonly terminalPhase: boolean }
  | { readonly kind: "terminatingDone" }
  | { readonly kind: "terminatingRuntimeDone" }
  | { readonly kind: "terminatedDone" }
  | { readonly kind: "failed" };

/**
 * Moves the record on; after a `transition` the next turn is due at once. With `pending` set in it, a message must be sent in any
 * case. No record: forget it.
 *
 * Source: pkg/kubelet/pod_workers.go podWorkerLoop, completeSync, completeTerminating, completeTerminatingRuntimePod,
 * completeTerminated. Differs from upstream: a pod that ended by itself has its effective grace from here on, not none.
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
      const { pending: _nobodyWillTakeIt, ...rest } = ended;
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
 * Lets the update of the last turn wait once more, unless a newer one does or there was no turn.
 *
 * Source: pkg/kubelet/pod_workers.go requeueLastPodUpdate.
 */
export function requeueLastUpdate(record: WorkerRecord, nowMs: number): WorkerRecord {
  if (record.pending !== undefined || record.token === 0) return record;
  const isRuntimeOnly = record.specGracePeriodSeconds === undefined;
  const pending: PendingUpdate = isRuntimeOnly ? { kind: "kill", sinceMs: nowMs, runtimeOnly: true } : { kind: "sync", sinceMs: nowMs };
  return { ...record, pending };
}

/** Seconds all of them; what nobody said is absent. */
export interface GraceWishes {
  /** What earlier updates came to; 0 = nothing yet. */
  readonly recorded: number;
  /** Of the API server, for a pod that is being deleted. */
  readonly deletion?: number | undefined;
  /** Of whoever kills it faster than that, such as an eviction. */
  readonly override?: number | undefined;
  readonly spec: number;
}

export interface EffectiveGrace {
  readonly seconds: number;
  /** A stop in progress was promised more. */
  readonly shortened: boolean;
}

/** Nobody is killed without a signal first. */
const GRACE_SECONDS_MIN = 1;

/**
 * The grace that holds from now on. It only ever gets shorter, and `spec` counts only where nobody else has spoken:
 *
 *     recorded 0,  spec 30                         → 30
 *     recorded 0,  spec 30, deletion 5             → 5
 *     recorded 5,  deletion 60                     → 5
 *     recorded 30, deletion 5, override 2          → 2, shortened
 *     recorded 0,  deletion 0                      → 1
 *
 * Source: pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod. Differs from upstream: a wish for 0 is one for 1. There, 0 is
 * also "nothing yet", so that an override of 30 beside a deletion with grace 0 makes 30, and a recorded 1 can grow.
 */
export function effectiveGrace({ recorded, deletion, override, spec }: GraceWishes): EffectiveGrace {
  let seconds = recorded;
  for (const wish of [deletion, override])
    if (wish !== undefined && (seconds === 0 || wish < seconds)) seconds = Math.max(wish, GRACE_SECONDS_MIN);
  const effective = seconds === 0 ? Math.max(spec, GRACE_SECONDS_MIN) : seconds;
  return { seconds: effective, shortened: recorded !== 0 && effective !== recorded };
}
