/**
 * Evaluates thresholds and pressure conditions, as a step function over the previous round (node-agent §14.5).
 *
 * EP1 a met threshold stays met until its minimum reclaim is also available.
 * EP2 conditions stay for the transition period; evictions use thresholds only, after their grace period.
 * EP3 a signal without an observation meets no threshold.
 * EP4 each observation triggers at most one action: it may predate the last reclaim.
 */
import { amountOf, conditionOfSignal, isHard, resourceOf } from "../types/eviction-thresholds.ts";
import type {
  EvictionPolicy,
  PressureCondition,
  Signal,
  StarvedResource,
  Threshold,
  ThresholdValue,
  Observation,
} from "../types/eviction-thresholds.ts";
export type Observations = ReadonlyMap<Signal, Observation>;

export interface Pressure {
  /** Thresholds that have been met for their whole grace period and are not resolved. */
  readonly met: readonly Threshold[];
  /** Thresholds whose observations are newer than those of the last round. */
  readonly toActOn: readonly Threshold[];
  readonly takenMs: ReadonlyMap<Signal, number>;
  /** Keyed by thresholdKey. */
  readonly firstObservedMs: ReadonlyMap<string, number>;
  readonly conditionLastObservedMs: ReadonlyMap<PressureCondition, number>;
}

export const NO_PRESSURE: Pressure = {
  met: [],
  toActOn: [],
  takenMs: new Map(),
  firstObservedMs: new Map(),
  conditionLastObservedMs: new Map(),
};

/**
 * Source: pkg/kubelet/eviction/eviction_manager.go synchronize; helpers.go thresholdsUpdatedStats. Differs from upstream: without a
 * transition period, a condition is reported while it is observed; upstream never reports it.
 */
export function observePressure(
  before: Pressure,
  observations: Observations,
  { thresholds, pressureTransitionMs }: Pick<EvictionPolicy, "thresholds" | "pressureTransitionMs">,
  nowMs: number,
): { readonly pressure: Pressure; readonly conditions: readonly PressureCondition[] } {
  const now = thresholdsMet(thresholds, observations, { withReclaim: false });
  const unresolved = thresholdsMet(before.met, observations, { withReclaim: true });
  const known = new Set(now.map(thresholdKey));
  const met = [...now, ...unresolved.filter((one) => !known.has(thresholdKey(one)))];
  const firstObservedMs = new Map(met.map((one) => [thresholdKey(one), before.firstObservedMs.get(thresholdKey(one)) ?? nowMs]));
  const conditionLastObservedMs = new Map([
    ...before.conditionLastObservedMs,
    ...met.map(({ signal }) => [conditionOfSignal(signal), nowMs] as const),
  ]);
  const afterGrace = met.filter((one) => nowMs - (firstObservedMs.get(thresholdKey(one)) ?? nowMs) >= one.gracePeriodMs);
  return {
    pressure: {
      met: afterGrace,
      toActOn: afterGrace.filter(
        ({ signal }) => (observations.get(signal)?.takenMs ?? Infinity) > (before.takenMs.get(signal) ?? -Infinity),
      ),
      takenMs: new Map([...observations].flatMap(([signal, { takenMs }]) => (takenMs === undefined ? [] : [[signal, takenMs] as const]))),
      firstObservedMs,
      conditionLastObservedMs,
    },
    conditions: CONDITIONS.filter((condition) => {
      const lastMs = conditionLastObservedMs.get(condition);
      return lastMs !== undefined && (lastMs === nowMs || nowMs - lastMs < pressureTransitionMs);
    }),
  };
}

const CONDITIONS: readonly PressureCondition[] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

/**
 * With `withReclaim`, a threshold is met until its minimum reclaim is available in addition to its value. Source: helpers.go thresholdsMet.
 */
export function thresholdsMet(
  thresholds: readonly Threshold[],
  observations: Observations,
  { withReclaim }: { readonly withReclaim: boolean },
): readonly Threshold[] {
  return thresholds.filter(({ signal, value, minReclaim }) => {
    const seen = observations.get(signal);
    if (seen === undefined) return false;
    const reclaim = withReclaim && minReclaim !== undefined ? amountOf(minReclaim, seen.capacity) : 0;
    return seen.available < amountOf(value, seen.capacity) + reclaim;
  });
}

/** Returns a key that is equal for thresholds that upstream treats as the same. Source: helpers.go hasThreshold. */
function thresholdKey({ signal, value, gracePeriodMs }: Threshold): string {
  return `${signal}<${valueKey(value)} for ${gracePeriodMs}`;
}

function valueKey(value: ThresholdValue): string {
  return "amount" in value ? `${value.amount}` : `${value.share} of it`;
}

/**
 * Returns the memory threshold if it is met, otherwise the first threshold. Source: helpers.go byEvictionPriority, getReclaimableThreshold.
 */
export function thresholdToReclaim(
  met: readonly Threshold[],
): { readonly threshold: Threshold; readonly resource: StarvedResource } | undefined {
  const threshold = met.find(({ signal }) => resourceOf(signal) === "memory") ?? met[0];
  return threshold && { threshold, resource: resourceOf(threshold.signal) };
}

/** The grace period of an eviction. Source: eviction_manager.go synchronize; immediateEvictionGracePeriodSeconds. */
export function evictionGraceSeconds(threshold: Threshold, maxPodGracePeriodSeconds: number, ofSpec: number | undefined): number {
  if (isHard(threshold)) return IMMEDIATE_GRACE_SECONDS;
  return ofSpec === undefined ? maxPodGracePeriodSeconds : Math.min(maxPodGracePeriodSeconds, ofSpec);
}

export const IMMEDIATE_GRACE_SECONDS = 1;
