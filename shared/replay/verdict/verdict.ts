/** The verdict: what is wrong with a workload, and why. Computed from objects alone, without a replay. */
import { objectOf } from "../findings/quota.ts";
import { findingsOf, NEEDS_HISTORY, wordsOf } from "../findings/catalogue.ts";
import type { Finding, Target, Words } from "../findings/finding.ts";
import { arePodsComplete, availablePods, endedAvailability, isChanged, viewOf } from "../incident/view.ts";
import type { View, Workload } from "../incident/view.ts";
import type { ClusterState } from "../incident/cluster-state.ts";
import { pauseOf, rolloutChanges, withCompletion } from "../incident/spec-changes.ts";
import type { SpecChange } from "../incident/spec-changes.ts";
import { deletedPodsIn } from "./deleted-pods.ts";
import type { DeletedPods } from "./deleted-pods.ts";
import { changeElsewhere } from "./elsewhere.ts";
import type { ChangeElsewhere } from "./elsewhere.ts";
import { noChangeIn } from "./no-change.ts";
import type { NoChange } from "./no-change.ts";
import { canUndo, withUndo } from "./undo.ts";
import { waitsOf } from "./waits.ts";
import type { Wait } from "./waits.ts";

export type Health = "complete" | "progressing" | "deleting" | "degraded" | "stuck";

export interface Explained extends Finding {
  readonly words: Words;
}

export interface Verdict {
  readonly subject: Workload;
  readonly atMs: number;
  readonly health: Health;
  /** Revision of the current or last rollout. */
  readonly revision?: number | undefined;
  /** Most likely cause first. */
  readonly findings: readonly Explained[];
  readonly changes: readonly SpecChange[];
  /** Only for a recorded workload with a cause and without changes, or without changes since its last complete rollout. */
  readonly noChange?: NoChange | undefined;
  /** Only for a recorded workload with a cause, as the following. */
  readonly elsewhere?: ChangeElsewhere | undefined;
  readonly deletedPods?: DeletedPods | undefined;
  readonly effect: Effect;
  readonly waits: readonly Wait[];
  /** Resources that could not be read and might reveal further causes. */
  readonly unknown: readonly string[];
  /** Kinds of findings that the present objects cannot show; empty for a capture. */
  readonly notObservable: readonly string[];
}

/** Effect on the pods. */
export interface Effect {
  readonly wanted: number;
  readonly available: number;
  readonly ready: number;
  readonly updated: number;
  readonly total: number;
  /** Whether the counts are from the owner's status of an earlier generation, because no pods are known. */
  readonly isStale?: boolean;
  /** Whether no pod is available because strategy Recreate deleted those of the previous revision. */
  readonly isRecreated?: boolean;
  /** The lowest number of available pods since the cause began, if it was below the present one. */
  readonly lowest?: Lowest;
}

export interface Lowest {
  readonly available: number;
  /** How often the number fell to it from the present one. */
  readonly times: number;
  readonly lastMs: number;
}

/** Time before the first sign of a cause within which changes are considered. */
const WINDOW_MS = 60 * 60_000;
const STATE_CHECK_MS = 10_000;

export interface VerdictOptions {
  /** Earlier changes are omitted. */
  readonly sinceMs?: number | undefined;
  /** Whether only the present objects are known, as of a running cluster. Default: no. */
  readonly isLive?: boolean;
}

/** Returns undefined if the object does not exist at that moment. */
export function verdictOf(state: ClusterState, subject: Workload, { sinceMs, isLive = false }: VerdictOptions = {}): Verdict | undefined {
  const view = viewOf(state, subject);
  if (view === undefined) return undefined;
  const found = findingsOf(view);
  const findings = found.map((each) => ({ ...each, words: wordsIn(each, view, found[0]) }));
  const fromMs = sinceMs ?? windowOf(view, found);
  const changes = changesIn(view, found, fromMs);
  const noChange = isLive ? undefined : noChangeIn(view, found[0], { changes, fromMs });
  return {
    ...{ subject, atMs: state.nowMs, findings },
    health: healthOf(view, found),
    revision: view.owner?.revision,
    changes,
    ...(!isLive && {
      noChange,
      elsewhere: changeElsewhere(view, found[0], changes.length === 0 && noChange !== undefined),
      deletedPods: deletedPodsIn(view, found[0]),
    }),
    effect: withLowest(view, effectOf(view, found), found[0]),
    waits: waitsOf(view, found),
    unknown: [...state.unknown].toSorted(),
    notObservable: isLive ? NEEDS_HISTORY : [],
  };
}

/** @param first decides whether the help of an effect suggests an undo */
function wordsIn(finding: Finding, view: View, first: Finding | undefined): Words {
  const { owner, subject, oldPods } = view;
  const target: Target = {
    ...{ namespace: subject.namespace, object: objectOf(subject) },
    ...{ first: finding.objects[0] ?? objectOf(subject), count: finding.objects.length },
    canUndo: canUndo(view, finding.level === "cause" ? finding : first),
    hasOldPods: owner?.strategy.type === "RollingUpdate" && oldPods.length > 0,
  };
  const words = wordsOf(finding, target);
  if (finding.isEarlier !== true) return withUndo(words, finding, view, target);
  return {
    cause: `the replacement of an old pod fails: ${words.cause}`,
    help: [`kubectl -n ${subject.namespace} describe ${target.first}`],
  };
}

/** Counts pods if they are known: a status may be outdated and contradict the cause. */
function effectOf(view: View, findings: readonly Finding[]): Effect {
  const { owner, pods, oldPods, terminating } = view;
  const all = [...pods, ...oldPods];
  const reported = reportedBy(view);
  if (owner === undefined || (healthOf(view, findings) === "complete" && !arePodsComplete(view))) return reported;
  if (all.length + terminating.length === 0)
    return { ...reported, ...((owner.status.observedGeneration ?? 0) < (owner.generation ?? 0) && { isStale: true }) };
  const ready = all.filter(({ isReady }) => isReady);
  const available = availablePods(view, ready);
  const updated = isChanged(view) ? 0 : pods.length;
  const isRecreated = owner.strategy.type === "Recreate" && available.length === 0 && endedAvailability(view);
  const counts = { wanted: owner.replicas, available: available.length, ready: ready.length, updated, total: all.length };
  return { ...counts, ...(isRecreated && { isRecreated }) };
}

/** Times of causes are whole seconds. */
const SECOND_MS = 1_000;

/** A number that falls and recovers while the cause lasts is hidden by the present one. */
function withLowest({ state, owner }: View, effect: Effect, cause: Finding | undefined): Effect {
  if (owner === undefined || cause?.level !== "cause" || cause.since === undefined) return effect;
  const sinceMs = Math.floor(cause.since / SECOND_MS) * SECOND_MS;
  const falls: { atMs: number; available: number }[] = [];
  let before = 0;
  for (const { atMs, available } of state.availableOf(owner.uid)) {
    const last = falls.at(-1);
    if (available < effect.available && atMs >= sinceMs) {
      if (before >= effect.available) falls.push({ atMs, available });
      else if (last !== undefined) last.available = Math.min(last.available, available);
    }
    before = available;
  }
  const lowest = Math.min(...falls.map(({ available }) => available));
  const times = falls.filter(({ available }) => available === lowest);
  const lastMs = times.at(-1)?.atMs;
  return lastMs === undefined ? effect : { ...effect, lowest: { available: lowest, times: times.length, lastMs } };
}

function reportedBy({ owner, pods }: View): Effect {
  if (owner === undefined) {
    const ready = pods.filter(({ isReady }) => isReady).length;
    return { wanted: 1, available: ready, ready, updated: 1, total: 1 };
  }
  const { available, ready, updated, replicas } = owner.status;
  return { wanted: owner.replicas, available, ready, total: replicas, updated: owner.resource === "deployments" ? updated : replicas };
}

function healthOf(view: View, findings: readonly Finding[]): Health {
  const { owner, pods, nowMs } = view;
  const { wanted, available, updated, total } = reportedBy(view);
  if (findings.some(({ kind }) => kind === "deleted")) return "deleting";
  const causes = findings.filter(({ level }) => level === "cause");
  if (owner === undefined)
    return pods.every(({ isReady, phase }) => isReady || phase === "Succeeded") ? "complete" : causes.length > 0 ? "stuck" : "progressing";
  const isObserved = owner.generation === undefined || (owner.status.observedGeneration ?? 0) >= owner.generation;
  const isRolledOut = isObserved && updated >= wanted && total === updated;
  const isComplete = (isRolledOut && available >= wanted) || arePodsComplete(view);
  if (isComplete && !causes.some(({ kind }) => kind === "paused"))
    return causes.some(({ kind }) => BESIDE_COMPLETE.has(kind)) ? "degraded" : "complete";
  const isPast = findings.some(({ kind }) => kind === "deadline exceeded");
  if (causes.some(({ isEarlier }) => isEarlier !== true) || isPast) {
    const wasComplete = isRolledOut && owner.conditions.some(({ reason }) => reason === "NewReplicaSetAvailable");
    return wasComplete && !isPast ? "degraded" : "stuck";
  }
  if (causes.length > 0) return "degraded";
  const started = Math.max(owner.createdMs ?? 0, view.current?.createdMs ?? 0);
  const isOver =
    isRolledOut && owner.conditions.some(({ reason }) => reason === "NewReplicaSetAvailable") && nowMs - started > STATE_CHECK_MS;
  return isOver ? "degraded" : "progressing";
}

/** Causes that are shown even if all pods are available. */
const BESIDE_COMPLETE = new Set([
  "two writers of replicas",
  "controller does not act",
  "overlapping selectors",
  "container out of memory",
  "killed by probe",
]);

/** The window begins before the first sign of a cause, and before the rollout. */
function windowOf({ nowMs, owner, current }: View, findings: readonly Finding[]): number {
  const isRolledOut = owner?.conditions.some(({ reason }) => reason === "NewReplicaSetAvailable") === true;
  const rolloutMs = isRolledOut ? undefined : current?.createdMs;
  const signs = findings.flatMap(({ level, since }) => (level === "cause" ? (since ?? []) : []));
  return Math.min(nowMs, rolloutMs ?? nowMs, ...signs) - WINDOW_MS;
}

/** Recorded changes, and those visible in the objects; changes that match the cause come first, then the newest. */
function changesIn({ state, owner, current, previous }: View, findings: readonly Finding[], sinceMs: number): readonly SpecChange[] {
  if (owner === undefined) return [];
  const recorded = state.changesOf(owner.uid).filter(({ atMs = 0 }) => atMs >= sinceMs);
  const shown = current && previous ? rolloutChanges(owner, previous, current) : [];
  const recent = shown.filter(({ atMs = current?.createdMs ?? 0 }) => atMs >= sinceMs);
  const unrecorded = [...recent, ...(owner.paused ? [pauseOf(owner)] : [])].filter(
    ({ field }) => !recorded.some((each) => each.field === field),
  );
  const cause = findings.find(({ level }) => level !== "effect")?.kind ?? "";
  const matches = CHANGED_BY.find(([kinds]) => kinds.test(cause))?.[1];
  const rankOf = ({ field }: SpecChange): number => (matches?.test(field) === true ? 0 : 1);
  return withCompletion([...unrecorded, ...recorded], owner).toSorted((a, b) => rankOf(a) - rankOf(b) || (b.atMs ?? 0) - (a.atMs ?? 0));
}

/** Kinds of findings, and the fields whose change may cause them. */
const CHANGED_BY: readonly (readonly [RegExp, RegExp])[] = [
  [/^image |^command missing/, /\.image$|\.command$/],
  [/^(?:paused|waits for minReadySeconds)$/, /^(?:paused|minReadySeconds)$/],
  [/^quota|^limit range|^two writers/, /^replicas$|\.resources\./],
  [/^unschedulable|out of memory/, /\.resources\.|^(?:affinity|nodeSelector|tolerations)$/],
  [/probe/, /Probe\./],
  [/^(?:key|object|volume object) missing/, /\.env(?:\.|From$)|^volumes$/],
  [/^no room/, /^strategy\./],
];

const HEALTH_ORDER: readonly Health[] = ["stuck", "degraded", "deleting", "progressing", "complete"];

/** All workloads of the state, worst first. ReplicaSets of Deployments, and pods of any owner, are part of their owners. */
export function worstFirst(state: ClusterState, options?: VerdictOptions): readonly Verdict[] {
  const tops = state.owners.filter(({ ownerUid }) => ownerUid === undefined);
  // In a file with only pods, each pod gets a verdict.
  const bare = state.owners.length === 0 ? state.pods : state.pods.filter(({ ownerUid }) => ownerUid === undefined);
  return [...tops, ...bare]
    .flatMap(({ resource, namespace: of, name }) => verdictOf(state, { resource, namespace: of, name }, options) ?? [])
    .toSorted((a, b) => HEALTH_ORDER.indexOf(a.health) - HEALTH_ORDER.indexOf(b.health) || missing(b) - missing(a));
}

function missing({ effect: { wanted, available } }: Verdict): number {
  return wanted - available;
}
