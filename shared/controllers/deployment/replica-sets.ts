/** Properties of a Deployment's ReplicaSets: sizes, orders, and which of them is the new ReplicaSet. */
import { compareText } from "@deltaloop/base";
import type { CachedDeployment, CachedReplicaSet, CachedTemplate } from "@deltaloop/kube/objects";

/** The claimed ReplicaSets of a Deployment, split by template. `oldRSs` are in creation order. */
export interface ReplicaSetSplit {
  readonly newRS: CachedReplicaSet | undefined;
  readonly oldRSs: readonly CachedReplicaSet[];
}

/**
 * The new ReplicaSet is the oldest ReplicaSet with the Deployment's template; younger ReplicaSets with the same template count as old.
 * Source: deployment/util FindNewReplicaSet, FindOldReplicaSets.
 */
export function splitReplicaSets(d: CachedDeployment, rss: readonly CachedReplicaSet[]): ReplicaSetSplit {
  const sorted = rss.toSorted(byCreation);
  const newRS = sorted.find((rs) => sameTemplate(d.spec.template, rs.spec.template));
  return { newRS, oldRSs: sorted.filter((rs) => rs.metadata.uid !== newRS?.metadata.uid) };
}

/** Returns the old ReplicaSets, then the new ReplicaSet, which is the order in which upstream sums and searches. */
export function allReplicaSets({ newRS, oldRSs }: ReplicaSetSplit): readonly CachedReplicaSet[] {
  return newRS === undefined ? oldRSs : [...oldRSs, newRS];
}

/**
 * Whether both digests are of equal templates.
 * @throws {Error} if the digests have different keys or formats. An epoch has one kind of digest (design decision 5), so this is a bug or a
 * mixed deployment. Returning false would start a rollout of every Deployment.
 */
export function sameTemplate(a: CachedTemplate, b: CachedTemplate | undefined): boolean {
  if (b === undefined) return false;
  if (digestPrefix(a.digest) !== digestPrefix(b.digest)) {
    throw new Error(
      `template digests ${digestPrefix(a.digest)} and ${digestPrefix(b.digest)} cannot be compared: deploy one version with one digest key`,
    );
  }
  return a.digest === b.digest;
}

function digestPrefix(digest: string): string {
  return digest.slice(0, digest.lastIndexOf("."));
}

/** `spec.replicas`, which the API server always sets (default 1). */
export function replicasOf(object: CachedDeployment | CachedReplicaSet): number {
  return object.spec.replicas ?? 1;
}

export function availableOf(rs: CachedReplicaSet): number {
  return rs.status.availableReplicas ?? 0;
}

/** Source: deployment/util GetReplicaCountForReplicaSets. */
export function totalReplicas(rss: readonly CachedReplicaSet[]): number {
  return sum(rss, replicasOf);
}

/** Source: deployment/util GetAvailableReplicaCountForReplicaSets. */
export function totalAvailable(rss: readonly CachedReplicaSet[]): number {
  return sum(rss, availableOf);
}

export function sum<T>(items: readonly T[], valueOf: (item: T) => number): number {
  return items.reduce((total, item) => total + valueOf(item), 0);
}

/** ReplicaSets with `spec.replicas` above 0. Source: pkg/controller FilterActiveReplicaSets. */
export function activeReplicaSets(rss: readonly CachedReplicaSet[]): readonly CachedReplicaSet[] {
  return rss.filter((rs) => replicasOf(rs) > 0);
}

/** Oldest first, ties by name. Source: pkg/controller ReplicaSetsByCreationTimestamp. */
export function byCreation(a: CachedReplicaSet, b: CachedReplicaSet): number {
  // Stored times are UTC in whole seconds, so their text order is their time order. An absent time is Go's zero time.
  return (
    compareText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") || compareText(a.metadata.name, b.metadata.name)
  );
}
