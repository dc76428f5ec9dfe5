/** How many pods to create, or which to delete (replicaset §7). */
import type { CachedPod, CachedReplicaSet } from "../api/cached.ts";
import type { Write } from "../controller/writes.ts";
import type { Observed } from "./observe.ts";
import { getPodsToDelete } from "./pods-to-delete.ts";

/** Creates, or deletes, of one sync. Source: pkg/controller/replicaset/replica_set.go BurstReplicas. */
const BURST_REPLICAS = 500;

/** The API's default is 1; an object that was never defaulted is read the same way. */
export function wantedReplicas(rs: CachedReplicaSet): number {
  return rs.spec.replicas ?? 1;
}

/**
 * The writes that bring the claimed pods to `spec.replicas`, at most 500 a sync:
 *
 *     wants 3, has 1   → create 2
 *     wants 1000, has 0 → create 500; the answers queue the key for the rest
 *     wants 1, has 3   → delete 2, the ones that serve least first
 *
 * Nothing while an earlier call may still be in flight, and nothing for an owner that is being deleted.
 *
 * Source: replica_set.go manageReplicas.
 */
export function manageReplicas(
  { rs, owner, isWaiting }: Pick<Observed, "rs" | "owner" | "isWaiting">,
  claimed: readonly CachedPod[],
  {
    related,
    nowMs,
    burstReplicas = BURST_REPLICAS,
  }: { readonly related: readonly CachedPod[]; readonly nowMs: number; readonly burstReplicas?: number },
): readonly Write[] {
  if (isWaiting || rs.metadata.deletionTimestamp !== undefined) return [];
  const surplus = claimed.length - wantedReplicas(rs);
  const generation = rs.metadata.generation ?? 0;
  if (surplus < 0) {
    const template = { generation, digest: rs.spec.template?.digest ?? "" };
    return [{ kind: "CreatePods", owner, count: Math.min(-surplus, burstReplicas), template }];
  }
  const victims = getPodsToDelete(claimed, related, { count: Math.min(surplus, burstReplicas), nowMs });
  const size = { generation, replicas: wantedReplicas(rs) };
  return victims.map(({ name, uid, resourceVersion }) => ({ kind: "DeletePod", owner, name, uid, resourceVersion, size }));
}

/** Whether victims are chosen by rank, for which the siblings' pods must be read; if all must go there is no choice. */
export function choosesVictims({ rs, isWaiting }: Pick<Observed, "rs" | "isWaiting">, claimed: readonly CachedPod[]): boolean {
  if (isWaiting || rs.metadata.deletionTimestamp !== undefined) return false;
  return claimed.length > wantedReplicas(rs) && Math.min(claimed.length - wantedReplicas(rs), BURST_REPLICAS) < claimed.length;
}
