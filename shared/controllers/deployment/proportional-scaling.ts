/** Distributes a change of `spec.replicas` over the ReplicaSets of an unfinished rollout (deployment §10.1). */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { annotatedReplicas, MAX_REPLICAS } from "./annotations.ts";
import { maxSurge } from "./max-surge-max-unavailable.ts";
import { byCreation, replicasOf, totalReplicas } from "./replica-sets.ts";

/** A ReplicaSet and the size it should have. */
export interface Proportion {
  readonly rs: CachedReplicaSet;
  readonly replicas: number;
}

/**
 * The number of replicas to add (below 0: to remove), and the sizes of the active ReplicaSets, largest first. Each ReplicaSet gets its
 * fraction; the largest also gets the rounding remainder. Of equal sizes the newer grows first and the older shrinks first. If nothing is
 * added they keep the given order.
 *
 *     R 5 → 10, surge 0; new 2, old 3, both with max-replicas 5: to add 10 − 5 = 5
 *       old 3: round(3 × 10 / 5) − 3 = 3 → 6      new 2: min(round(2 × 10 / 5) − 2, 5 − 3) = 2 → 4
 *     R 3 → 4; three of size 1: to add 1; the newest gets round(1 × 4 / 3) − 1 = 0, as do the others; left over 1 → 2, 1, 1
 *
 * Source: sync.go scale.
 */
export function proportionalScaling(
  d: CachedDeployment,
  active: readonly CachedReplicaSet[],
): { readonly toAdd: number; readonly proportions: readonly Proportion[] } {
  const allowed = replicasOf(d) > 0 ? replicasOf(d) + maxSurge(d) : 0;
  const toAdd = allowed - totalReplicas(active);
  const tie = toAdd > 0 ? (a: CachedReplicaSet, b: CachedReplicaSet): number => byCreation(b, a) : byCreation;
  const ordered = toAdd === 0 ? active : active.toSorted((a, b) => replicasOf(b) - replicasOf(a) || tie(a, b));
  let added = 0;
  const sized = ordered.map((rs) => {
    const proportion = replicaSetProportion(rs, d, toAdd, added);
    added += proportion;
    return { rs, replicas: replicasOf(rs) + proportion };
  });
  const leftover = toAdd - added;
  const proportions = sized.map(({ rs, replicas }, index) => ({ rs, replicas: index === 0 ? Math.max(0, replicas + leftover) : replicas }));
  return { toAdd, proportions };
}

/** The replicas to add to one ReplicaSet, at most what is left of `toAdd`. Source: deployment/util GetReplicaSetProportion. */
function replicaSetProportion(rs: CachedReplicaSet, d: CachedDeployment, toAdd: number, added: number): number {
  if (toAdd === 0 || toAdd === added) return 0;
  const fraction = replicaSetFraction(rs, d);
  const left = toAdd - added;
  return toAdd > 0 ? Math.min(fraction, left) : Math.max(fraction, left);
}

/**
 * The change of the ReplicaSet if it keeps its share, from the limit when it was last sized (max-replicas) to the present limit.
 * Without a usable annotation the Deployment's `status.replicas` is used.
 *
 *     size 50, R 120, surge 10, max-replicas 110 → round(50 × 130 / 110) − 50 = round(59.09) − 50 = 9
 *     size 50, R 100, surge 10, max-replicas 130 → round(50 × 110 / 130) − 50 = round(42.3) − 50 = −8
 *     R 0 → −size
 *
 * The product is exact (BigInt). Differs from upstream only where upstream's 32-bit product overflows.
 * Source: deployment/util getReplicaSetFraction.
 */
export function replicaSetFraction(rs: CachedReplicaSet, d: CachedDeployment): number {
  const size = replicasOf(rs);
  if (replicasOf(d) === 0) return -size;
  const annotated = annotatedReplicas(rs, MAX_REPLICAS);
  const base = annotated.kind === "replicas" && annotated.replicas !== 0 ? annotated.replicas : (d.status.replicas ?? 0);
  if (base === 0) return 0;
  return roundedQuotient(BigInt(size) * BigInt(replicasOf(d) + maxSurge(d)), BigInt(base)) - size;
}

/** The quotient of non-negative numbers, rounded half up: 5 / 2 → 3. */
function roundedQuotient(a: bigint, b: bigint): number {
  return Number((2n * a + b) / (2n * b));
}
