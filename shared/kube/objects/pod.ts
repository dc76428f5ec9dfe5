/** Predicates on a pod's phase, deletion and Ready condition (replicaset §2.1). */
import type { CachedPod } from "./cached.ts";
import { parseTime } from "./time.ts";

/** Whether the pod counts as a replica of its owner. Source: pkg/controller/controller_utils.go IsPodActive. */
export function isActive(pod: CachedPod): boolean {
  return !isTerminal(pod) && pod.deletionTimestamp === undefined;
}

/** Whether the pod has reached a terminal phase. Source: controller_utils.go IsPodTerminal. */
export function isTerminal(pod: CachedPod): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** Whether the pod is being deleted and has not ended. Source: controller_utils.go IsPodTerminating. */
export function isTerminating(pod: CachedPod): boolean {
  return !isTerminal(pod) && pod.deletionTimestamp !== undefined;
}

/** Whether the Ready condition is true; ignores the phase. Source: pkg/api/v1/pod/util.go IsPodReady. */
export function isReady(pod: CachedPod): boolean {
  return pod.ready?.status === "True";
}

/**
 * Whether the pod has been ready for at least `minReadySeconds` at `nowMs`. With 0 the time of the transition does not
 * matter; otherwise a pod whose Ready condition has no time is never available.
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
