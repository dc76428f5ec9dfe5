/** The usage of a month: measured counts times the rates of the workload. */
import { RESYNC_MS, SECRET_MS_MAX } from "@deltaloop/base";
import { added, NOTHING, rolloutOf, scaled } from "./counts.ts";
import type { Counts, CountsFile } from "./counts.ts";

export const MONTH_HOURS = 730;
const DAYS = MONTH_HOURS / 24;

/** Rates of events; counted events are per day. */
export interface Rates {
  readonly deployments: number;
  /** Pods of each Deployment. */
  readonly pods: number;
  readonly rolloutsPerDay: number;
  readonly newDeploymentsPerDay: number;
  readonly lostPodsPerDay: number;
  readonly podChangesPerDay: number;
  readonly otherPodsPerDay: number;
}

/** Sums of a month. */
export interface Usage {
  /** Clusters that the deployment serves. */
  readonly clusters: number;
  readonly idle: Counts;
  readonly work: Counts;
  /** Starts of sandboxes, or repeated reads of their secrets, caused by work alone. */
  readonly starts: number;
  /** Hours in which there was work. */
  readonly workHours: number;
}

/** Every object is synced this often without a change. A Deployment counts with its default number of old ReplicaSets. */
const RESYNC_HOURS = RESYNC_MS / 3_600_000;
const REPLICA_SETS = 11;
/** A sandbox reads its secrets again when they are older than this. */
export const READS_PER_HOUR = 3_600_000 / SECRET_MS_MAX;

/** The idle use of a month. Each further cluster adds less than the first. */
export function idleMonth({ idleHour, furtherIdleHour }: CountsFile, clusters: number): Counts {
  return added(scaled(idleHour, MONTH_HOURS), scaled(furtherIdleHour, MONTH_HOURS * (clusters - 1)));
}

/** `rates` are of all clusters together. */
export function usageOf(file: CountsFile, rates: Rates, clusters = 1): Usage {
  const looks = (rates.deployments * (1 + REPLICA_SETS) * MONTH_HOURS) / RESYNC_HOURS;
  const work: readonly (readonly [Counts, number])[] = [
    [rolloutOf(rates.pods, file.rollouts), rates.rolloutsPerDay * DAYS],
    [file.created, rates.newDeploymentsPerDay * DAYS],
    [file.lostPod, rates.lostPodsPerDay * DAYS],
    [file.otherPod, rates.otherPodsPerDay * DAYS],
    // A resync costs no message of a change; counting it as one overestimates its cost.
    [file.podChange, rates.podChangesPerDay * DAYS + looks],
  ];
  const events = work.filter(([, times]) => times > 0);
  const idle = idleMonth(file, clusters);
  return {
    clusters,
    idle,
    work: events.reduce((sum, [counts, times]) => added(sum, scaled(counts, times)), NOTHING),
    starts: startsOf(events, idle),
    workHours: Math.min(
      MONTH_HOURS,
      events.reduce((sum, [, times]) => sum + times, 0),
    ),
  };
}

/**
 * Assumes that every event needs sandboxes that are new or have expired secrets, each at most once in five minutes, except sandboxes that
 * idle traffic keeps alive.
 */
function startsOf(events: readonly (readonly [Counts, number])[], idle: Counts): number {
  const names = new Set(events.flatMap(([{ functions }]) => Object.keys(functions)));
  return [...names].reduce((sum, name) => {
    const kept = idle.functions[name]?.atOnce ?? 0;
    const needed = events.map(([{ functions }, times]) => ({ atOnce: Math.max(0, (functions[name]?.atOnce ?? 0) - kept), times }));
    const most = Math.max(...needed.map(({ atOnce }) => atOnce));
    const starts = needed.reduce((all, { atOnce, times }) => all + atOnce * times, 0);
    return sum + Math.min(starts, most * READS_PER_HOUR * MONTH_HOURS);
  }, 0);
}

/** Secret reads of sandboxes and watchers that run all month and refresh their values at this age. */
export function readsOfAMonth(count: number, seconds: number): number {
  return count * (3_600 / seconds) * MONTH_HOURS;
}
