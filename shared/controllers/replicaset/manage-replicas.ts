/** The number of pods to create, or the pods to delete (replicaset §7). */
import type { CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { mayLand } from "../kit/expectations.ts";
import type { ListedWrite } from "../kit/performed.ts";
import type { Observed } from "./observe.ts";
import { getPodsToDelete } from "./pods-to-delete.ts";
import { getCondition } from "@deltaloop/kube/objects";
import type { ReplicaReason } from "./reasons.ts";

/** Creates or deletes per sync. Source: pkg/controller/replicaset/replica_set.go BurstReplicas. */
const BURST_REPLICAS = 500;

/** Returns `spec.replicas`; the API's default is 1. */
export function wantedReplicas(rs: CachedReplicaSet): number {
  return rs.spec.replicas ?? 1;
}

export interface Managing {
  readonly writes: readonly ListedWrite[];
  readonly why: readonly ReplicaReason[];
}

/**
 * The writes that bring the claimed pods to `spec.replicas`, at most 500 a sync:
 *
 *     wants 3, has 1   → create 2
 *     wants 1000, has 0 → create 500; the responses queue the key for the rest
 *     wants 1, has 3 → delete 2 (pods-to-delete.ts)
 *
 * No writes while an earlier call may be in flight, or for an owner that is being deleted.
 *
 * Source: replica_set.go manageReplicas.
 */
export function manageReplicas(
  { rs, owner, pending, unanswered }: Pick<Observed, "rs" | "owner" | "pending" | "unanswered">,
  claimed: readonly CachedPod[],
  {
    related,
    nowMs,
    burstReplicas = BURST_REPLICAS,
  }: { readonly related: readonly CachedPod[]; readonly nowMs: number; readonly burstReplicas?: number },
): Managing {
  if (pending > 0) return { writes: [], why: [{ rule: "waits for calls", facts: { pending } }] };
  if (rs.metadata.deletionTimestamp !== undefined) return { writes: [], why: [{ rule: "owner ends", facts: {} }] };
  const seen = { replicas: wantedReplicas(rs), pods: claimed.length };
  const surplus = seen.pods - seen.replicas;
  if (surplus === 0) return { writes: [], why: [{ rule: "as many as wanted", facts: seen }] };
  const burst = burstReplicas;
  const generation = rs.metadata.generation ?? 0;
  if (surplus < 0) {
    const create = Math.min(-surplus, burst);
    const template = { generation, digest: rs.spec.template?.digest ?? "" };
    return {
      writes: [{ kind: "CreatePods", owner, count: create, template }],
      why: [{ rule: "too few", facts: { ...seen, burst, create } }, ...whyAgain(rs)],
    };
  }
  const remove = Math.min(surplus, burst);
  const unsettled = new Set(unanswered.filter((call) => mayLand(call, nowMs)).map(({ uid }) => uid));
  const again = claimed.filter(({ uid }) => unsettled.has(uid)).slice(0, remove);
  const others = claimed.filter((pod) => !again.includes(pod));
  const { victims, why } = getPodsToDelete(others, related, { count: remove - again.length, nowMs });
  const size = { generation, replicas: seen.replicas };
  return {
    writes: [...again, ...victims].map(({ name, uid, resourceVersion }) => ({
      kind: "DeletePod",
      owner,
      name,
      uid,
      resourceVersion,
      size,
    })),
    why: [
      { rule: "too many", facts: { ...seen, burst, remove } },
      ...again.map(({ name }): ReplicaReason => ({ rule: "deletes again", about: name, facts: {} })),
      ...why,
      ...whyAgain(rs),
    ],
  };
}

/** Reasons of a sync that follows a failed sync, whose ReplicaFailure condition remains until a sync succeeds. */
function whyAgain({ status: { conditions = [] } }: CachedReplicaSet): readonly ReplicaReason[] {
  const failure = getCondition(conditions, "ReplicaFailure");
  if (failure === undefined) return [];
  return [{ rule: "failed before", facts: { reason: failure.reason, since: failure.lastTransitionTime } }];
}

/** Whether the pods to delete are chosen by rank, which needs the siblings' pods. False if all pods are deleted. */
export function choosesVictims({ rs, pending }: Pick<Observed, "rs" | "pending">, claimed: readonly CachedPod[]): boolean {
  if (pending > 0 || rs.metadata.deletionTimestamp !== undefined) return false;
  return claimed.length > wantedReplicas(rs) && Math.min(claimed.length - wantedReplicas(rs), BURST_REPLICAS) < claimed.length;
}
