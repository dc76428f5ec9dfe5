/** Grace periods for a node shutdown, by pod priority (node-agent §14.8). Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go. */
import { SYSTEM_CRITICAL_PRIORITY } from "../types/critical-pod.ts";
import { goDuration } from "../types/go-duration.ts";
import type { NodePod } from "../types/pod.ts";
import type { ShutdownGracePeriod } from "../types/node-options.ts";

/**
 * Configured grace periods. They are either a total and a part for critical pods, in milliseconds (whole seconds), or a list by priority.
 */
export interface ShutdownSettings {
  readonly totalMs: number;
  readonly criticalMs: number;
  readonly byPriority: readonly ShutdownGracePeriod[];
}

/**
 * Validates the settings with upstream's messages. The command line already rejects values below a second. Source:
 * pkg/kubelet/apis/config/validation/validation.go ValidateKubeletConfiguration.
 */
export function shutdownMistakes({ totalMs, criticalMs, byPriority }: ShutdownSettings): readonly string[] {
  const [total, critical] = [goDuration(totalMs), goDuration(criticalMs)];
  return [
    ...(criticalMs > totalMs ? [`shutdownGracePeriodCriticalPods ${critical} must be <= shutdownGracePeriod ${total}`] : []),
    ...(byPriority.length > 0 && (totalMs > 0 || criticalMs > 0)
      ? ["Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"]
      : []),
    ...(isTooShort(totalMs) ? [`shutdownGracePeriod ${total} must be either zero or otherwise >= 1 sec`] : []),
    ...(isTooShort(criticalMs) ? [`shutdownGracePeriodCriticalPods ${critical} must be either zero or otherwise >= 1 sec`] : []),
  ].map((mistake) => `invalid configuration: ${mistake}`);
}

function isTooShort(ms: number): boolean {
  return ms > 0 && ms < 1_000;
}

/**
 * Returns the periods, lowest priority first; empty if graceful shutdown is disabled.
 *
 *     30 s, of them 10 s critical  →  20 s from priority 0, then 10 s from priority 2 000 000 000
 *
 * Source: nodeshutdown_manager.go newPodManager, migrateConfig.
 */
export function shutdownGracePeriods({ totalMs, criticalMs, byPriority }: ShutdownSettings): readonly ShutdownGracePeriod[] {
  if (byPriority.length > 0) return byPriority.toSorted((a, b) => a.priority - b.priority);
  if (totalMs === 0) return [];
  return [
    { priority: 0, seconds: Math.trunc((totalMs - criticalMs) / 1_000) },
    { priority: SYSTEM_CRITICAL_PRIORITY, seconds: Math.trunc(criticalMs / 1_000) },
  ];
}

/** Total time by which the shutdown must be delayed. */
export function periodRequestedMs(periods: readonly ShutdownGracePeriod[]): number {
  return periods.reduce((sum, { seconds }) => sum + seconds, 0) * 1_000;
}

export interface ShutdownGroup extends ShutdownGracePeriod {
  readonly pods: readonly NodePod[];
}

/**
 * Assigns each pod to the period with the highest priority that the pod's priority reaches. Pods below all periods get the lowest period.
 *
 *     periods 0, 100, 1000     priority −5 → 0     99 → 0     100 → 100     1001 → 1000
 *
 * Source: nodeshutdown_manager.go groupByPriority.
 */
export function groupByPriority(periods: readonly ShutdownGracePeriod[], pods: readonly NodePod[]): readonly ShutdownGroup[] {
  const groupOf = ({ spec: { priority = 0 } }: NodePod): ShutdownGracePeriod | undefined =>
    periods.findLast((period) => period.priority <= priority) ?? periods[0];
  const grouped = Map.groupBy(pods, groupOf);
  return periods.map((period) => ({ ...period, pods: grouped.get(period) ?? [] }));
}

/**
 * Returns the pod's own grace period if it is shorter than the group's period, otherwise the group's. Source: nodeshutdown_manager.go
 * killPods.
 */
export function shutdownGraceSeconds({ spec: { terminationGracePeriodSeconds } }: NodePod, { seconds }: ShutdownGracePeriod): number {
  return Math.min(terminationGracePeriodSeconds ?? seconds, seconds);
}
