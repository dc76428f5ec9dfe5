import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import { scaledValue } from "./fenceposts.ts";
import { replicasOf, totalReplicas } from "./replica-sets.ts";

/**
 * The size the new ReplicaSet should have now (deployment §11.2). `current` is its size today, 0 if it is about to be
 * created; `others` are all other ReplicaSets.
 *
 *     R 10, surge 2, old 5, new 0: cap 12, total 5 → 0 + min(12 − 5, 10 − 0) = 7
 *     R 10, surge 2, old 10, new 2: total 12 ≥ cap 12 → stays 2
 *     R 6, surge 10, old 5, new 2: cap 16, total 7 → 2 + min(9, 4) = 6
 *     Recreate → R, whatever else exists
 *
 * @throws {Error} on another strategy, or a maxSurge that cannot be resolved.
 * Source: deployment/util NewRSNewReplicas.
 */
export function newRSNewReplicas(d: CachedDeployment, current: number, others: readonly CachedReplicaSet[]): number {
  const type = d.spec.strategy?.type;
  if (type === "Recreate") return replicasOf(d);
  if (type !== "RollingUpdate") throw new Error(`deployment type ${type ?? ""} isn't supported`);
  const surge = scaledValue(d.spec.strategy?.rollingUpdate?.maxSurge, replicasOf(d), Math.ceil);
  if (typeof surge === "string") throw new Error(surge);
  const total = totalReplicas(others) + current;
  const cap = replicasOf(d) + surge;
  if (total >= cap) return current;
  return current + Math.min(cap - total, replicasOf(d) - current);
}
