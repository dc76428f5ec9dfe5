/** When to requeue because a ready pod becomes available with time (replicaset §11). */
import type { CachedPod, CachedReplicaSet, ReplicaSetStatus } from "@deltaloop/kube/objects";
import { isAvailable, isReady, parseTime } from "@deltaloop/kube/objects";
import type { Behaviour } from "@deltaloop/kube/releases";
import type { Succeeded } from "../kit/run.ts";
import type { ReplicaReason } from "./reasons.ts";

export interface NextLook {
  readonly next: Succeeded;
  readonly why: readonly ReplicaReason[];
}

/**
 * Done, or done with a requeue when the first ready pod has been ready for `minReadySeconds`:
 *
 *     minReadySeconds 5, pods ready for 2 s and for 4.3 s → requeue after 700 ms
 *
 * A ready pod whose condition has no time counts as just ready. Before 1.34 (`all ready`) upstream requeues only once every replica is
 * ready, and then after all of `minReadySeconds`.
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
    availabilityCheck = "next pod",
  }: {
    readonly claimed: readonly CachedPod[];
    /** The time at which the status was computed. */
    readonly statusNowMs: number;
    readonly nowMs: number;
    readonly availabilityCheck?: Behaviour["availabilityCheck"];
  },
): NextLook {
  const minReadySeconds = rs.spec.minReadySeconds ?? 0;
  const { readyReplicas: ready = 0, availableReplicas: available = 0 } = status;
  if (minReadySeconds <= 0 || ready === available) return { next: { kind: "done" }, why: [] };
  const isAllReady = availabilityCheck === "all ready";
  if (isAllReady && ready !== (rs.spec.replicas ?? 1)) return { next: { kind: "done" }, why: [] };
  const dueMs = (isAllReady ? [] : claimed)
    .filter((pod) => isReady(pod) && !isAvailable(pod, minReadySeconds, statusNowMs))
    .map((pod) => parseTime(pod.ready?.since))
    .filter((sinceMs) => sinceMs !== undefined)
    .map((sinceMs) => sinceMs + minReadySeconds * 1000);
  const afterMs = dueMs.length > 0 ? Math.max(0, Math.min(...dueMs) - nowMs) : minReadySeconds * 1000;
  const facts = { afterMs, ready, available, minReadySeconds };
  return { next: { kind: "again", afterMs }, why: [{ rule: "becomes available", facts }] };
}
