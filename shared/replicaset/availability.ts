/** When to look again because a ready pod becomes available by time alone (replicaset §11). */
import type { CachedPod, CachedReplicaSet, ReplicaSetStatus } from "../api/cached.ts";
import { isAvailable, isReady } from "../api/pod.ts";
import { parseTime } from "../api/time.ts";
import type { SyncResult } from "../controller/run.ts";

/**
 * Done, or done and look again when the first ready pod has been so for `minReadySeconds`:
 *
 *     minReadySeconds 5, pods ready for 2 s and for 4.3 s → again after 700 ms
 *
 * A ready pod whose condition has no time tells nothing: then after `minReadySeconds`.
 *
 * Source: pkg/controller/replicaset/replica_set.go syncReplicaSet (its last step), controller_utils.go FindMinNextPodAvailabilityCheck.
 */
export function nextAvailabilityCheck(
  rs: CachedReplicaSet,
  status: ReplicaSetStatus,
  {
    claimed,
    statusNowMs,
    nowMs,
  }: { readonly claimed: readonly CachedPod[]; /** The `now` of the status. */ readonly statusNowMs: number; readonly nowMs: number },
): SyncResult {
  const minReadySeconds = rs.spec.minReadySeconds ?? 0;
  if (minReadySeconds <= 0 || status.readyReplicas === status.availableReplicas) return { kind: "done" };
  const dueMs = claimed
    .filter((pod) => isReady(pod) && !isAvailable(pod, minReadySeconds, statusNowMs))
    .map((pod) => parseTime(pod.ready?.since))
    .filter((sinceMs) => sinceMs !== undefined)
    .map((sinceMs) => sinceMs + minReadySeconds * 1000);
  const afterMs = dueMs.length > 0 ? Math.max(0, Math.min(...dueMs) - nowMs) : minReadySeconds * 1000;
  return { kind: "again", afterMs };
}
