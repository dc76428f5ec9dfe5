/** Annotations by which the controller keeps state on Deployments and their ReplicaSets (deployment §8.1). */
import type { CachedDeployment, CachedReplicaSet, Labels } from "@deltaloop/kube/objects";
import type { CopiedAnnotations } from "../kit/writes.ts";
import { maxSurge } from "./max-surge-max-unavailable.ts";
import { replicasOf } from "./replica-sets.ts";
import { parseRevision, REVISION } from "./revision.ts";

export const REVISION_HISTORY = "deployment.kubernetes.io/revision-history";
export const DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas";
export const MAX_REPLICAS = "deployment.kubernetes.io/max-replicas";
export const ROLLBACK_TO = "deprecated.deployment.rollback.to";
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Never copied from a Deployment to its ReplicaSets. Source: deployment/util annotationsToSkip. */
const SKIPPED: ReadonlySet<string> = new Set([LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO]);

/**
 * The requested rollback revision, 0 for the last revision. A value that is not an int64 is not a request (quirk Q6). Source: rollback.go
 * getRollbackTo.
 */
export function rollbackTo(d: CachedDeployment): bigint | undefined {
  return parseRevision(rollbackRequest(d)[ROLLBACK_TO]);
}

/** The annotation that requests a rollback. */
export function rollbackRequest({ metadata: { annotations = {} } }: CachedDeployment): { readonly [ROLLBACK_TO]: string } {
  return { [ROLLBACK_TO]: annotations[ROLLBACK_TO] ?? "" };
}

/**
 * The Deployment's annotations after a rollback, as a merge patch: the ReplicaSet's annotations replace its own, those that are never
 * copied stay, and the request is removed.
 *
 *     D: a "1", b "2", revision "2", the request; the ReplicaSet: a "0", c "3", revision "1" → a "0", b null, c "3", the request null
 *
 * Source: deployment/util SetDeploymentAnnotationsTo.
 */
export function rollbackAnnotations(own: Labels = {}, ofTarget: Labels = {}): Readonly<Record<string, string | null>> {
  const gone = Object.keys(own).filter((key) => !SKIPPED.has(key));
  const set = Object.entries(ofTarget).filter(([key]) => !SKIPPED.has(key));
  return { ...Object.fromEntries(gone.map((key) => [key, null])), ...Object.fromEntries(set), ...REQUEST_ENDED };
}

export const REQUEST_ENDED = { [ROLLBACK_TO]: null };

/** Characters of revision history kept on a ReplicaSet. Source: sync.go maxRevHistoryLengthInChars. */
const REVISION_HISTORY_LENGTH_MAX = 2000;
const INT32_MAX = 2_147_483_647;

/** Changes to the new ReplicaSet's annotations; only missing or different annotations. */
export interface AnnotationChanges {
  /** Annotations whose values are known in clear. */
  readonly set: Labels;
  /** Annotations of which only the digests are known. */
  readonly copied: CopiedAnnotations | undefined;
  /**
   * Whether these changes alone require a write. False if the revision annotation cannot be parsed; `set` and `copied` are then sent only
   * together with another change.
   */
  readonly changed: boolean;
}

/**
 * Updates an existing ReplicaSet's annotations for the Deployment's new ReplicaSet. It copies the Deployment's annotations; annotations
 * that were removed from the Deployment stay on the ReplicaSet. The revision only rises, and the previous revision is added to the history.
 *
 *     revision "1", newRevision 3           → revision "3", history "1"
 *     revision "3", history "1", new 5      → revision "5", history "1,3"
 *
 * Source: deployment/util SetNewReplicaSetAnnotations with exists = true.
 */
export function existingReplicaSetAnnotations(
  d: CachedDeployment,
  rs: CachedReplicaSet,
  newRevision: bigint,
  historyLengthMax: number = REVISION_HISTORY_LENGTH_MAX,
): AnnotationChanges {
  const own = rs.metadata.annotations ?? {};
  const set: Record<string, string> = clearAnnotations(d, own);
  const copied = copiedAnnotations(d, rs.metadata.annotationDigests);
  const text = own[REVISION];
  const revision = parseRevision(text || "0");
  if (revision === undefined) return { set, copied, changed: false };
  if (revision < newRevision) {
    set[REVISION] = String(newRevision);
    const history = text === undefined ? undefined : extendedHistory(own[REVISION_HISTORY] ?? "", text, historyLengthMax);
    if (history !== undefined) set[REVISION_HISTORY] = history;
  }
  return { set, copied, changed: Object.keys(set).length > 0 || copied !== undefined };
}

/** All annotations of a ReplicaSet to create; a revision below 1 is omitted. Source: SetNewReplicaSetAnnotations with exists = false. */
export function createdReplicaSetAnnotations(d: CachedDeployment, newRevision: bigint): Omit<AnnotationChanges, "changed"> {
  const revision = newRevision > 0n ? { [REVISION]: String(newRevision) } : {};
  return { set: { ...clearAnnotations(d, {}), ...revision, ...sizeAnnotations(d) }, copied: copiedAnnotations(d, {}) };
}

/**
 * The history with one more entry. Oldest entries are dropped when it exceeds `lengthMax`; undefined if the entry alone does not fit.
 *
 *     history "11,12", entry "13", at most 5 characters: 5 + 2 + 1 = 8 > 5, drop "11" → 8 − 3 = 5 → "12,13"
 */
function extendedHistory(history: string, entry: string, lengthMax: number): string | undefined {
  if (history === "" || history.startsWith(",")) return entry;
  const entries = history.split(",");
  let length = history.length + entry.length + 1;
  let start = 0;
  while (length > lengthMax && start < entries.length) {
    length -= (entries[start] ?? "").length + 1;
    start += 1;
  }
  return length <= lengthMax ? [...entries.slice(start), entry].join(",") : undefined;
}

function clearAnnotations(d: CachedDeployment, own: Labels): Record<string, string> {
  const missing = Object.entries(d.metadata.annotations ?? {}).filter(([key, value]) => !SKIPPED.has(key) && own[key] !== value);
  return Object.fromEntries(missing);
}

/**
 * Annotations whose digests differ. Annotations that are never copied have no digest: they are stored in clear or not at all. Both objects'
 * digests use the same key: the ReplicaSet was found by its template digest, which depends on that key.
 */
function copiedAnnotations({ metadata: { annotationDigests = {} } }: CachedDeployment, own: Labels = {}): CopiedAnnotations | undefined {
  const keys = Object.keys(annotationDigests).filter((key) => own[key] !== annotationDigests[key]);
  return keys.length > 0 ? { keys, digests: annotationDigests } : undefined;
}

/** The annotations desired-replicas and max-replicas of a ReplicaSet. Source: deployment/util SetReplicasAnnotations. */
function sizeAnnotations(d: CachedDeployment): Labels {
  return { [DESIRED_REPLICAS]: String(replicasOf(d)), [MAX_REPLICAS]: String(replicasOf(d) + maxSurge(d)) };
}

/** The size annotations that the ReplicaSet lacks or has with another value. Source: ReplicasAnnotationsNeedUpdate. */
export function outdatedSizeAnnotations(d: CachedDeployment, rs: CachedReplicaSet): Labels {
  return Object.fromEntries(Object.entries(sizeAnnotations(d)).filter(([key, value]) => rs.metadata.annotations?.[key] !== value));
}

/** A number of replicas in an annotation. */
export type AnnotatedReplicas =
  | { readonly kind: "absent" }
  | { readonly kind: "invalid"; readonly why: "invalid syntax" | "value out of range" }
  | { readonly kind: "replicas"; readonly replicas: number };

/**
 * Unsigned, base 10, at most 2147483647; `-1`, `+1` and the empty text are invalid syntax.
 * Source: deployment/util getNonNegativeInt32FromAnnotation.
 */
export function annotatedReplicas(rs: CachedReplicaSet, key: typeof DESIRED_REPLICAS | typeof MAX_REPLICAS): AnnotatedReplicas {
  const text = rs.metadata.annotations?.[key];
  if (text === undefined) return { kind: "absent" };
  if (!/^\d+$/.test(text)) return { kind: "invalid", why: "invalid syntax" };
  const replicas = Number(text);
  return replicas > INT32_MAX ? { kind: "invalid", why: "value out of range" } : { kind: "replicas", replicas };
}
