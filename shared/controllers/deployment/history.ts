/** Chooses the old ReplicaSets to delete (deployment §14). */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import type { Decision } from "../kit/reason.ts";
import type { DeploymentReason } from "./reasons.ts";
import { byCreation, replicasOf } from "./replica-sets.ts";
import { REVISION, revisionOf } from "./revision.ts";
import { type DeleteReplicaSet, ownerOf } from "./writes.ts";

/** Means "no limit", like an absent value. Source: deployment/util HasRevisionHistoryLimit. */
const NO_LIMIT = 2_147_483_647;

/**
 * The deletes that bring the old ReplicaSets to `revisionHistoryLimit`, lowest revision first. Only excess ReplicaSets are candidates. A
 * candidate stays if it has or wants pods, or its controller has not observed it; no later ReplicaSet replaces it (quirk Q7). `oldRSs` are
 * in creation order, or youngest first after a change of size.
 *
 *     limit 2; old rs1–rs4 with revisions 3, 1, 4, 2: two too many, so rs2 (1) and rs4 (2)
 *     limit 1; revisions 1 (2 replicas), 2, 3: candidates rs1 and rs2; rs1 has replicas, so only rs2
 *
 * Source: sync.go cleanupDeployment.
 */
export function cleanupDeployment(
  d: CachedDeployment,
  oldRSs: readonly CachedReplicaSet[],
): Decision<readonly DeleteReplicaSet[], DeploymentReason> {
  const limit = d.spec.revisionHistoryLimit ?? NO_LIMIT;
  if (limit === NO_LIMIT) return { decided: [], why: [] };
  const candidates = insertionSorted(
    oldRSs.filter((rs) => rs.metadata.deletionTimestamp === undefined),
    byRevision,
  );
  const excess = Math.max(0, candidates.length - limit);
  const seen: DeploymentReason = { rule: "history limit", facts: { limit, old: candidates.length, excess } };
  if (excess === 0) return { decided: [], why: candidates.length === 0 ? [] : [seen] };
  const surplus = candidates.slice(0, excess).map((rs) => ({ rs, is: keptBy(rs) }));
  return {
    decided: surplus.flatMap(({ rs, is }) => (is === undefined ? [deleteReplicaSet(d, rs)] : [])),
    why: [
      seen,
      ...surplus.map(({ rs, is }): DeploymentReason => {
        const about = rs.metadata.name;
        if (is !== undefined) return { rule: "is kept", about, facts: { is } };
        return { rule: "is history", about, facts: { revision: rs.metadata.annotations?.[REVISION] } };
      }),
    ],
  };
}

/** Why the ReplicaSet stays; undefined if it may be deleted. */
function keptBy(rs: CachedReplicaSet): "populated" | "wanted" | "unseen" | undefined {
  if ((rs.status.replicas ?? 0) !== 0) return "populated";
  if (replicasOf(rs) !== 0) return "wanted";
  return (rs.metadata.generation ?? 0) <= (rs.status.observedGeneration ?? 0) ? undefined : "unseen";
}

/** A delete with the resourceVersion that the decision read as precondition: after a scale-up it fails with a conflict (S16). */
function deleteReplicaSet(d: CachedDeployment, rs: CachedReplicaSet): DeleteReplicaSet {
  const { name, uid, resourceVersion } = rs.metadata;
  return { kind: "DeleteReplicaSet", owner: ownerOf(d), name, uid, resourceVersion };
}

/**
 * Go's sort for up to twelve elements. The algorithm matters only if `byRevision` is cyclic, as for three ReplicaSets with the revisions 3
 * (oldest), unreadable, 1 (youngest). Source: Go sort.Sort, insertionSort.
 */
function insertionSorted<T>(items: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  const sorted: T[] = [];
  for (const item of items) {
    let at = sorted.length;
    for (const before of sorted.toReversed()) {
      if (compare(item, before) >= 0) break;
      at -= 1;
    }
    sorted.splice(at, 0, item);
  }
  return sorted;
}

/** Orders ReplicaSets by revision; those with equal or unreadable revisions by age. Source: deployment/util ReplicaSetsByRevision. */
function byRevision(a: CachedReplicaSet, b: CachedReplicaSet): number {
  const [left, right] = [revisionOf(a), revisionOf(b)];
  if (left === undefined || right === undefined || left === right) return byCreation(a, b);
  return left < right ? -1 : 1;
}
