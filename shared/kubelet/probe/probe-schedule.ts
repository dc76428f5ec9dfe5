/** When a probe runs (node-agent §11 kick-off, §18.6). Times are milliseconds since the epoch. */

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
