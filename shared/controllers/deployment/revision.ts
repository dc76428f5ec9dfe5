/** Revisions are int64 in upstream; conformance uses some beyond 2^53, so they are BigInt here and text elsewhere. */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { atoi } from "./atoi.ts";

/** Annotation of Deployments and ReplicaSets; its value is an int64 in base 10. */
export const REVISION = "deployment.kubernetes.io/revision";

/** An int64 in base 10, or undefined. Source: strconv.ParseInt. */
export function parseRevision(text: string): bigint | undefined {
  const value = atoi(text);
  return typeof value === "bigint" ? value : undefined;
}

/** The object's revision: 0 without the annotation, undefined if it cannot be read. Source: deployment/util Revision. */
export function revisionOf(object: CachedDeployment | CachedReplicaSet): bigint | undefined {
  const text = object.metadata.annotations?.[REVISION];
  return text === undefined ? 0n : parseRevision(text);
}

/**
 * Returns the second highest revision, or 0. Skips unreadable revisions. A highest revision that occurs twice is also the second highest.
 *
 *     1, 3, 2 → 2      1, 2, 2 → 2      1 → 0
 *
 * Source: deployment/util LastRevision.
 */
export function lastRevision(rss: readonly CachedReplicaSet[]): bigint {
  let [max, second] = [0n, 0n];
  for (const rs of rss) {
    const revision = revisionOf(rs);
    if (revision === undefined) continue;
    if (revision >= max) [max, second] = [revision, max];
    else if (revision > second) second = revision;
  }
  return second;
}

/**
 * Returns the revision of a new ReplicaSet, given `oldRSs`. It is an int64, so it overflows to the least value. Source: sync.go
 * getNewReplicaSet.
 */
export function nextRevision(oldRSs: readonly CachedReplicaSet[]): bigint {
  return BigInt.asIntN(64, maxRevision(oldRSs) + 1n);
}

/** The only revision below 0 that `nextRevision` returns. */
export const LEAST_REVISION: bigint = -(2n ** 63n);

/** Returns the highest revision, or 0. Skips unreadable revisions. Source: deployment/util MaxRevision. */
export function maxRevision(rss: readonly CachedReplicaSet[]): bigint {
  return rss.reduce((max, rs) => {
    const revision = revisionOf(rs);
    return revision !== undefined && revision > max ? revision : max;
  }, 0n);
}
