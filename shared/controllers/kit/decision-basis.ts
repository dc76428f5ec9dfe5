/**
 * The basis for a sync's creates and deletes: the cache, or a live list of the owner's pods (replicaset §18). Pure decisions;
 * perform/list-pods.ts reads the list.
 */
import { compareResourceVersions } from "@deltaloop/kube/objects";
import type { DecisionMark, PodCache, Row, Snapshot } from "@deltaloop/store/ports";

/** An owner's pods are listed at most once within this time. */
export const LIST_INTERVAL_MS = 5_000;
/** After this many lists within DISPUTE_MS that contradict the cache, the pod cache is marked SUSPECT (listed again). */
const DISPUTES_MAX = 3;
export const DISPUTE_MS = 60_000;

/** Why the cache alone is not enough. */
export type ListReason =
  | "first under this fence"
  | "first after SUSPECT"
  | "cache behind the last list"
  | "last list contradicted the cache"
  | "earlier owner of that name"
  | "pods to adopt"
  | "losses show nowhere"
  | "status above the pods"
  | "status below the pods";

export type Basis =
  | { readonly kind: "cache" }
  | { readonly kind: "list"; readonly why: ListReason }
  /** Prohibits creates and deletes, because the pods were listed less than LIST_INTERVAL_MS ago. */
  | { readonly kind: "wait"; readonly why: ListReason; readonly afterMs: number };

type Known = Pick<Snapshot, "pods" | "mark" | "predecessorGone">;

export interface Intended {
  readonly verb: "create" | "delete";
  /** Whether the cache has pods without controller that the selector matches. */
  readonly adopts: boolean;
  /** The Store may have lost pod events undetected (informer §11.11). */
  readonly losesUnseen?: boolean;
}

/**
 * Why the cache is not enough for the owner's creates or deletes; undefined if it is. The mark records the last live list of the owner's
 * pods, or this controller's create of the owner:
 *
 *     mark listed at 90 under this fence, every pod lane at 95  → cache
 *     mark listed at 90, a lane at 80, deletes                  → list: pods that were gone at 90 may still enter the cache
 *     mark listed at 90, a lane at 80, creates                  → cache: such pods can only make it create too few
 *     mark of the fence before                                  → list
 *     the first case, deletes, losses may be undetected → list
 *     mark of its own create at 90, a lane at 80                → cache, unless pods of an earlier owner of that name may exist
 */
export function basisByMark(snapshot: Known, { verb, adopts, losesUnseen = false }: Intended): ListReason | undefined {
  const { pods, mark, predecessorGone } = snapshot;
  if (pods === undefined) return undefined; // the Store keeps no marks
  if (mark?.fence !== pods.fence) return "first under this fence";
  if (mark.suspects !== pods.suspects) return "first after SUSPECT";
  if (mark.kind === "disputed") return "last list contradicted the cache";
  if (losesUnseen && verb === "delete") return "losses show nowhere";
  if (compareResourceVersions(pods.watermark, mark.version) >= 0) return undefined;
  if (mark.kind === "listed") return verb === "delete" ? "cache behind the last list" : undefined;
  if (predecessorGone !== undefined) return "earlier owner of that name";
  return adopts ? "pods to adopt" : undefined;
}

/** Allows at most one list per owner in LIST_INTERVAL_MS. Ignores a mark with a future time: the Store's clock was set back. */
export function bounded(why: ListReason | undefined, mark: DecisionMark | undefined, nowMs: number): Basis {
  if (why === undefined) return { kind: "cache" };
  const sinceMs = mark === undefined || mark.kind === "created" ? Infinity : nowMs - mark.atMs;
  if (sinceMs < 0 || sinceMs >= LIST_INTERVAL_MS) return { kind: "list", why };
  return { kind: "wait", why, afterMs: LIST_INTERVAL_MS - sinceMs };
}

/** Whether a list contradicts a cache that should have every event up to its watermark. Events still in flight do not count. */
export function contradicts(
  cache: PodCache,
  { listRV, listed, cached }: { readonly listRV: string; readonly listed: readonly PodVersion[]; readonly cached: readonly Row[] },
): boolean {
  const rows = new Map(cached.map((row) => [row.uid, row]));
  const uids = new Set(listed.map(({ uid }) => uid));
  const isCovered = (rv: string): boolean => compareResourceVersions(rv, cache.watermark) <= 0;
  const isMissing = ({ uid, rv }: PodVersion): boolean => {
    const row = rows.get(uid);
    return isCovered(rv) && (row === undefined || compareResourceVersions(row.rv, rv) < 0);
  };
  return listed.some(isMissing) || (isCovered(listRV) && cached.some(({ uid, gone }) => !gone && !uids.has(uid)));
}

interface PodVersion {
  readonly uid: string;
  readonly rv: string;
}

/**
 * The mark to store after a list. A list that contradicted the cache cannot be the basis of decisions; the mark then only records the time
 * of the list.
 */
export function markOf(
  cache: PodCache,
  before: DecisionMark | undefined,
  { listRV, nowMs, isDisputed }: { readonly listRV: string; readonly nowMs: number; readonly isDisputed: boolean },
): { readonly mark: DecisionMark; readonly isSuspect: boolean } {
  const recent = (before?.disputedMs ?? []).filter((ms) => ms <= nowMs && nowMs - ms < DISPUTE_MS);
  const disputedMs = isDisputed ? [...recent, nowMs] : recent;
  return {
    mark: {
      kind: isDisputed ? "disputed" : "listed",
      fence: cache.fence,
      suspects: cache.suspects,
      version: listRV,
      atMs: nowMs,
      ...(disputedMs.length > 0 && { disputedMs: disputedMs.slice(1 - DISPUTES_MAX) }),
    },
    isSuspect: disputedMs.length >= DISPUTES_MAX,
  };
}
