/** What a pod's phase, deletion and Ready condition mean to its controller (replicaset §2.1). */
import type { CachedPod } from "./cached.ts";
import { parseTime } from "./time.ts";

/** Counts as one of its owner's replicas. Source: pkg/controller/controller_utils.go IsPodActive. */
export function isActive(pod: CachedPod): boolean {
  return !isTerminal(pod) && pod.deletionTimestamp === undefined;
}

/** Has ended and will not run again. Source: controller_utils.go IsPodTerminal. */
export function isTerminal(pod: CachedPod): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** Is being deleted and has not ended yet. Source: controller_utils.go IsPodTerminating. */
export function isTerminating(pod: CachedPod): boolean {
  return !isTerminal(pod) && pod.deletionTimestamp !== undefined;
}

/** The phase is not consulted. Source: pkg/api/v1/pod/util.go IsPodReady. */
export function isReady(pod: CachedPod): boolean {
  return pod.ready?.status === "True";
}

/**
 * Ready for `minReadySeconds` at `nowMs`; exactly that long is long enough. With 0 the time of the transition does not
 * matter; else a pod whose Ready condition has no time is never available.
 *
 *     ready since 10:00:02, minReadySeconds 5 → not at 10:00:06.999, available at 10:00:07.000
 *
 * Source: pkg/api/v1/pod/util.go IsPodAvailable.
 */
export function isAvailable(pod: CachedPod, minReadySeconds: number, nowMs: number): boolean {
  if (!isReady(pod)) return false;
  if (minReadySeconds === 0) return true;
  const sinceMs = parseTime(pod.ready?.since);
  return sinceMs !== undefined && sinceMs + minReadySeconds * 1000 <= nowMs;
}
