/**
 * The probe logic as step functions over the probe record (node-agent §11). `beforeProbe` decides whether to run the probe, the caller
 * runs it, and `afterProbe` evaluates the outcome.
 *
 * PB1 an outcome counts for the container id in the record; a new id starts with the initial result.
 * PB2 a probe that cannot run changes nothing.
 * PB3 a failed liveness or startup probe is on hold until a new container exists, so that it kills only once.
 * PB4 as in upstream, `run` is reset when a probe is put on hold, but not for a new container.
 */
import type { ProbeKind, ProbeRecord, ProbeResult } from "../../ports/node-store.ts";
import { initContainersOf, isSidecar, type ContainerSpec, type NodePod, type ProbeSpec } from "../types/pod.ts";

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
  /** Whether there is a cached status. */
  readonly hasStatus: boolean;
  readonly phaseIsTerminal: boolean;
  readonly podIsDeleting: boolean;
  /** Whether the container has ended and will not be restarted. */
  readonly isLast: boolean;
}

export interface ProbedContainer {
  readonly id: string;
  readonly running: boolean;
  readonly startedAtMs?: number;
  /** The `started` field of the container status. */
  readonly started: boolean;
}

/**
 * With `run`, the caller executes the probe and calls `afterProbe`; otherwise it stores `record`, or deletes the record if undefined. A
 * `stopped` record is kept for the status. `published` is as in AfterProbe.
 */
export type ProbeStep =
  | { readonly run: true; readonly record: ProbeRecord; readonly published?: ProbeResult }
  | { readonly run: false; readonly record: ProbeRecord | undefined; readonly published?: ProbeResult };

export interface AfterProbe {
  readonly record: ProbeRecord;
  /** A changed result that requires a sync (§3); never set for a liveness Success. */
  readonly published?: ProbeResult;
}

/** The assumed result before the first probe. Source: pkg/kubelet/prober/worker.go newWorker. */
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
 * Decides whether the probe runs now. Example: with initialDelaySeconds 5, it waits if the container started 4 s ago, and runs if it
 * started 5.2 s ago. Source: worker.go doProbe. Differs from upstream: a finished probe keeps its last result in a `stopped` record.
 * Upstream drops it and treats containers without a worker as started.
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
    return wait({ ...known, result: "Failure", ...(input.isLast && { stopped: true }) });
  }
  // A terminating container must not be killed by a probe or reported as not started.
  if (input.podIsDeleting && kind !== "readiness") return wait({ ...known, result: "Success", stopped: true });
  if (isBeforeDelay(input.spec, container, input.nowMs)) return wait(known);
  if (container.started === (kind === "startup")) return wait(known);
  return { run: true, record: known, ...publication(kind, record, known) };
}

/**
 * Applies an outcome to the record of `beforeProbe`.
 *
 *     failureThreshold 3, result Success:   F F S F F  → stays      F F S F F F → Failure at the sixth, and on hold
 *
 * Source: worker.go doProbe.
 */
export function afterProbe(kind: ProbeKind, spec: ProbeSpec, record: ProbeRecord, outcome: "Success" | "Failure" | "error"): AfterProbe {
  if (outcome === "error") return { record };
  const run = record.lastOutcome === outcome ? record.run + 1 : 1;
  const counted: ProbeRecord = { ...record, lastOutcome: outcome, run };
  // Zero means unset, in a spec without API defaults.
  const threshold = outcome === "Failure" ? spec.failureThreshold || FAILURE_THRESHOLD : spec.successThreshold || SUCCESS_THRESHOLD;
  if (run < threshold) return { record: counted };
  const holds = kind !== "readiness" && outcome === "Failure";
  const next: ProbeRecord = { ...counted, result: outcome, ...(holds && { run: 0, onHold: true }) };
  return { record: next, ...publication(kind, record, next) };
}

/** Returns the record for this container. A new container id clears result and hold, but keeps the counters (PB4). */
function recordOf(kind: ProbeKind, record: ProbeRecord, containerId: string): ProbeRecord {
  if (record.containerId === containerId) return record;
  const { result: _result, onHold: _onHold, stopped: _stopped, ...counters } = record;
  return { ...counters, containerId, result: initialResult(kind) };
}

/** Source: pkg/kubelet/prober/results/results_manager.go Set; kubelet.go syncLoopIteration. */
function publication(kind: ProbeKind, before: ProbeRecord, after: ProbeRecord): { readonly published?: ProbeResult } {
  const isKnown = before.containerId === after.containerId && before.result === after.result;
  if (isKnown || after.result === undefined || (kind === "liveness" && after.result !== "Failure")) return {};
  return { published: after.result };
}

/** Compares whole seconds, as upstream does. */
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

/** `<uid>/<container>/<kind>`. UIDs and container names contain no slash. */
export function probeKey(uid: string, container: string, kind: ProbeKind): string {
  return `${uid}/${container}/${kind}`;
}

export function splitProbeKey(key: string): ProbeId {
  const [uid = "", container = "", kind] = key.split("/");
  return { uid, container, kind: kind as ProbeKind }; // only probeKey creates such keys
}

/** Returns the probes of regular containers and sidecars; other containers have none. Source: prober_manager.go AddPod. */
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
 * Returns the next time slot after `dueMs`; skips slots that were missed while the probe ran. For a run outside the slots (§11), `dueMs`
 * is the time of that run.
 *
 *     due 0, period 10 s:   now 2 s → 10 s      now 10 s → 10 s      now 31 s → 40 s
 *
 * Source: pkg/kubelet/prober/worker.go run. Differs from upstream: skips a slot missed during a long run; a Ticker keeps one and fires it
 * at once.
 */
export function nextDueMs(dueMs: number, periodSeconds: number | undefined, nowMs: number): number {
  const periodMs = periodMsOf(periodSeconds);
  return dueMs + Math.max(1, Math.ceil((nowMs - dueMs) / periodMs)) * periodMs;
}

export interface FirstDue {
  readonly agentStartedAtMs: number;
  readonly periodSeconds: number | undefined;
  readonly nowMs: number;
  /** A random number in [0, 1). */
  readonly random: number;
}

/**
 * Returns the current time. In the first period after the agent's start, adds a random fraction of a period, which spreads the probes of
 * the node. Source: worker.go run.
 */
export function firstDueMs({ agentStartedAtMs, periodSeconds, nowMs, random }: FirstDue): number {
  const periodMs = periodMsOf(periodSeconds);
  return nowMs - agentStartedAtMs < periodMs ? nowMs + Math.floor(random * periodMs) : nowMs;
}

/** Zero means unset, in a spec without API defaults. */
function periodMsOf(periodSeconds: number | undefined): number {
  return (periodSeconds || PERIOD_SECONDS) * 1000;
}
