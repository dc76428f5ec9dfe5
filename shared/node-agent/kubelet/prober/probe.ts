/**
 * One turn of one probe (node-agent §11): a step function over its counters. `beforeProbe` says whether the probe runs now,
 * `afterProbe` what its outcome means; between the two the edge runs it.
 *
 * PB1 an outcome counts for the container whose id the record holds; a new id starts with the initial result.
 * PB2 a probe that could not be run changes nothing.
 * PB3 a failed liveness or startup probe is on hold until a new container: its kill must not be disturbed, and is asked for once.
 * PB4 `run` is not reset by a new container, only by a hold: so does upstream.
 */
import type { ProbeKind, ProbeRecord, ProbeResult } from "../../ports/node-store.ts";
import { initContainersOf, isSidecar } from "../types/pod.ts";
import type { ContainerSpec, NodePod, ProbeSpec } from "../types/pod.ts";

/** Source: pkg/apis/core/v1/defaults.go SetDefaults_Probe. */
const FAILURE_THRESHOLD = 3;
const SUCCESS_THRESHOLD = 1;

export interface ProbeInput {
  readonly kind: ProbeKind;
  readonly spec: ProbeSpec;
  readonly record: ProbeRecord | undefined;
  readonly nowMs: number;
  /** The container in the cached status, if any. */
  readonly container: ProbedContainer | undefined;
  /** There is a cached status. */
  readonly hasStatus: boolean;
  readonly phaseIsTerminal: boolean;
  readonly podIsDeleting: boolean;
  readonly restartPolicy: string;
  readonly isSidecar: boolean;
}

export interface ProbedContainer {
  readonly id: string;
  readonly running: boolean;
  readonly startedAtMs?: number;
  /** The status field of that name. */
  readonly started: boolean;
  readonly terminated: boolean;
}

/**
 * `run`: the probe must be executed and `afterProbe` called. Otherwise `record` is the new row: undefined = stop for good and
 * forget; one that is `stopped` needs no further turn but stays, for status asks it. `published` as in AfterProbe.
 */
export type ProbeStep =
  | { readonly run: true; readonly record: ProbeRecord; readonly published?: ProbeResult }
  | { readonly run: false; readonly record: ProbeRecord | undefined; readonly published?: ProbeResult };

export interface AfterProbe {
  readonly record: ProbeRecord;
  /** The result changed and must be acted on (§3); a liveness probe's Success never must. */
  readonly published?: ProbeResult;
}

/** What is taken for true of a container before its first probe. Source: pkg/kubelet/prober/worker.go newWorker. */
export function initialResult(kind: ProbeKind): ProbeResult {
  switch (kind) {
    case "readiness":
      return "Failure";
    case "liveness":
      return "Success";
    case "startup":
      return "Unknown";
    default:
      return kind satisfies never;
  }
}

/**
 * Whether the probe runs now.
 *
 *     started 4 s ago, initialDelaySeconds 5 → waits; 5.2 s ago → runs
 *
 * Source: worker.go doProbe, up to the call of the probe.
 *
 * Differs from upstream: a probe that is done with its container keeps its last result in a `stopped` record, where upstream
 * drops worker and result and takes a container without a worker for started. Here status goes by the spec's probes.
 */
export function beforeProbe(input: ProbeInput): ProbeStep {
  const { kind, container } = input;
  const record = input.record ?? { containerId: "", run: 0 };
  if (!input.hasStatus) return { run: false, record };
  if (input.phaseIsTerminal) return { run: false, record: undefined };
  if (container === undefined) return { run: false, record };

  const known = recordOf(kind, record, container.id);
  const wait = (next: ProbeRecord): ProbeStep => ({ run: false, record: next, ...publication(kind, record, next) });
  if (known.onHold === true || known.stopped === true) return wait(known);
  if (!container.running) {
    const isLast = container.terminated && input.restartPolicy === "Never" && !input.isSidecar;
    return wait({ ...known, result: "Failure", ...(isLast && { stopped: true }) });
  }
  // A quiet end: nothing that dies on request is to be killed or called unstarted.
  if (input.podIsDeleting && kind !== "readiness") return wait({ ...known, result: "Success", stopped: true });
  if (isBeforeDelay(input.spec, container, input.nowMs)) return wait(known);
  if (container.started === (kind === "startup")) return wait(known);
  return { run: true, record: known, ...publication(kind, record, known) };
}

/**
 * What the outcome of a run means for the record that `beforeProbe` gave.
 *
 *     failureThreshold 3, result Success:   F F S F F  → stays      F F S F F F → Failure at the sixth, and on hold
 *
 * Source: worker.go doProbe, after the call of the probe.
 */
export function afterProbe(kind: ProbeKind, spec: ProbeSpec, record: ProbeRecord, outcome: "Success" | "Failure" | "error"): AfterProbe {
  if (outcome === "error") return { record };
  const run = record.lastOutcome === outcome ? record.run + 1 : 1;
  const counted: ProbeRecord = { ...record, lastOutcome: outcome, run };
  // Zero is what a spec that was never defaulted says for "not set".
  const threshold = outcome === "Failure" ? spec.failureThreshold || FAILURE_THRESHOLD : spec.successThreshold || SUCCESS_THRESHOLD;
  if (run < threshold) return { record: counted };
  const holds = kind !== "readiness" && outcome === "Failure";
  const next: ProbeRecord = { ...counted, result: outcome, ...(holds && { run: 0, onHold: true }) };
  return { record: next, ...publication(kind, record, next) };
}

/** The record as it is for this container: a new id drops result and hold, and keeps the counters (PB4). */
function recordOf(kind: ProbeKind, record: ProbeRecord, containerId: string): ProbeRecord {
  if (record.containerId === containerId) return record;
  const { result: _result, onHold: _onHold, stopped: _stopped, ...counters } = record;
  return { ...counters, containerId, result: initialResult(kind) };
}

/** Source: pkg/kubelet/prober/results/results_manager.go Set; kubelet.go syncLoopIteration for what nobody acts on. */
function publication(kind: ProbeKind, before: ProbeRecord, after: ProbeRecord): { readonly published?: ProbeResult } {
  const isKnown = before.containerId === after.containerId && before.result === after.result;
  if (isKnown || after.result === undefined || (kind === "liveness" && after.result !== "Failure")) return {};
  return { published: after.result };
}

/** Whole seconds are compared, as upstream does. */
function isBeforeDelay(spec: ProbeSpec, { startedAtMs = 0 }: ProbedContainer, nowMs: number): boolean {
  return Math.trunc((nowMs - startedAtMs) / 1000) < (spec.initialDelaySeconds ?? 0);
}

export interface ProbeId {
  readonly uid: string;
  readonly container: string;
  readonly kind: ProbeKind;
}

export interface PodProbe {
  readonly container: string;
  readonly kind: ProbeKind;
  readonly spec: ProbeSpec;
}

/** `<uid>/<container>/<kind>`. Neither a UID nor a container's name has a slash. */
export function probeKey(uid: string, container: string, kind: ProbeKind): string {
  return `${uid}/${container}/${kind}`;
}

/** The parts of a `probeKey`. */
export function splitProbeKey(key: string): ProbeId {
  const [uid = "", container = "", kind] = key.split("/");
  return { uid, container, kind: kind as ProbeKind }; // only probeKey makes keys
}

/** Of regular containers and sidecars; other init containers and ephemeral ones have none. Source: prober_manager.go AddPod. */
export function probesOf(pod: NodePod): readonly PodProbe[] {
  return [...pod.spec.containers, ...initContainersOf(pod).filter(isSidecar)].flatMap(probesOfContainer);
}

function probesOfContainer({ name, startupProbe, readinessProbe, livenessProbe }: ContainerSpec): readonly PodProbe[] {
  return [
    ...(startupProbe ? [{ container: name, kind: "startup" as const, spec: startupProbe }] : []),
    ...(readinessProbe ? [{ container: name, kind: "readiness" as const, spec: readinessProbe }] : []),
    ...(livenessProbe ? [{ container: name, kind: "liveness" as const, spec: livenessProbe }] : []),
  ];
}

/** Source: pkg/apis/core/v1/defaults.go SetDefaults_Probe. */
const PERIOD_SECONDS = 10;

/**
 * The first slot after `dueMs` that is not missed yet: slots lie whole periods apart, and those that passed while the probe ran
 * are skipped, never caught up.
 *
 *     due 0, period 10 s:   now 2 s → 10 s      now 10 s → 10 s      now 31 s → 40 s
 *
 * A run out of turn (§11: a container that just started) goes by the time at which it ran: pass that as `dueMs`.
 *
 * Source: pkg/kubelet/prober/worker.go run, by Go's Ticker.
 * Differs from upstream: a slot missed during a long run is skipped, where a Ticker keeps one of them and fires it at once.
 */
export function nextDueMs(dueMs: number, periodSeconds: number | undefined, nowMs: number): number {
  const periodMs = periodMsOf(periodSeconds);
  return dueMs + Math.max(1, Math.ceil((nowMs - dueMs) / periodMs)) * periodMs;
}

export interface FirstDue {
  readonly agentStartedAtMs: number;
  readonly periodSeconds: number | undefined;
  readonly nowMs: number;
  /** From [0, 1). */
  readonly random: number;
}

/**
 * At once; but within one period after the agent's start, a random part of a period later, or all probes of a node would
 * run in step for ever. Source: worker.go run.
 */
export function firstDueMs({ agentStartedAtMs, periodSeconds, nowMs, random }: FirstDue): number {
  const periodMs = periodMsOf(periodSeconds);
  return nowMs - agentStartedAtMs < periodMs ? nowMs + Math.floor(random * periodMs) : nowMs;
}

/** Zero is what a spec that was never defaulted says for "not set". */
function periodMsOf(periodSeconds: number | undefined): number {
  return (periodSeconds || PERIOD_SECONDS) * 1000;
}
