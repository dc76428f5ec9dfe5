/** Whether a sync must list the owner's pods live before it creates, deletes or lowers the status (replicaset §18). */
import { MAY_LAND_MS, REQUEST_TIMEOUT_MS } from "@deltaloop/base";
import type { CachedPod } from "@deltaloop/kube/objects";
import { compareResourceVersions, isActive } from "@deltaloop/kube/objects";
import { basisByMark, bounded } from "../kit/decision-basis.ts";
import type { ListReason } from "../kit/decision-basis.ts";
import type { SyncSession } from "../kit/sync/session.ts";
import type { PodCache, Snapshot } from "@deltaloop/store/ports";
import { claimPods } from "./claim-pods.ts";
import type { ReplicaKind } from "./kind.ts";
import { wantedReplicas } from "./manage-replicas.ts";
import { observe } from "./observe.ts";
import type { Observed } from "./observe.ts";
import type { ReplicaReason } from "./reasons.ts";

/** Delay after the pod cache was marked SUSPECT: no key is handed out until all pods were listed again. */
const SUSPECT_MS = 1_000;

export interface LiveBasis {
  readonly observed: Observed;
  /** The pods were listed recently: create nothing, delete nothing and do not lower the status before this time has passed. */
  readonly waitMs?: number;
}

/** @throws {Error} when the owner or its pods cannot be read; nothing is written then. */
export async function liveBasis(session: SyncSession, observed: Observed, kind: ReplicaKind): Promise<LiveBasis> {
  const { snapshot } = session;
  const { pods } = snapshot;
  const { rs, owner } = observed;
  if (session.mode === "shadow" || pods === undefined || rs.metadata.deletionTimestamp !== undefined) return { observed };
  const pending = claimPods(observed);
  const adopted = pending.writes.filter((write) => write.kind === "Adopt").map(({ uid }) => uid);
  const claimed = [...pending.claimed, ...observed.orphans.filter(({ uid }) => adopted.includes(uid))];
  const surplus = claimed.length - wantedReplicas(rs);
  const verb = surplus < 0 ? "create" : "delete";
  const acts = observed.pending === 0 && surplus !== 0;
  if (!acts && (rs.status.replicas ?? 0) <= claimed.length) return { observed };

  const landMs = acts && verb === "create" ? lateCreatesMs(rs, pods) : 0;
  if (landMs > 0) {
    session.because({ rule: "calls may be late", facts: { afterMs: landMs } } satisfies ReplicaReason);
    return { observed, waitMs: landMs };
  }
  let why = acts ? basisByMark(snapshot, { verb, adopts: adopted.length > 0, losesUnseen: session.losesUnseen }) : undefined;
  if (why === undefined) {
    // Without a create or delete, the status write alone depends on the cached status: it fails if its resourceVersion is not current.
    const status = acts ? await session.liveStatus(owner, verb) : statusOf(rs);
    if (status) why = statusContradicts(snapshot, status, { observed, claimed, deletes: acts && surplus > 0 });
  }
  const basis = bounded(why, snapshot.mark, pods.atMs);
  if (basis.kind === "cache") return { observed };
  const reason: ReplicaReason = { rule: basis.kind === "list" ? "lists first" : "listed just now", facts: { why: basis.why } };
  session.because(reason);
  if (basis.kind === "wait") return { observed, waitMs: basis.afterMs };
  const listed = await session.listPods(owner, observed.selector);
  if (listed === "suspect") return { observed, waitMs: SUSPECT_MS };
  const now = observe(listed, kind);
  return { observed: now.kind === "Observed" ? now : observed };
}

/**
 * How long a create of an owner whose creates were rejected may still be executed that a Store that was set back does not know, in ms; 0 if
 * no such create is possible. Such a Store draws the same names again, so that other late creates find their pod (IT5), but it does not
 * know which names were given up because a rejection quoted them.
 */
function lateCreatesMs({ status }: Pick<Observed["rs"], "status">, { atMs, relistedMs }: PodCache): number {
  if (relistedMs === undefined || !status.conditions?.some(({ type, reason }) => type === "ReplicaFailure" && reason === "FailedCreate"))
    return 0;
  const sinceMs = atMs - relistedMs;
  return sinceMs < 0 ? 0 : Math.max(0, REQUEST_TIMEOUT_MS + MAY_LAND_MS - sinceMs); // before 0: the Store's clock was set back
}

export interface StatusSeen {
  /** The owner's version. */
  readonly resourceVersion: string;
  readonly replicas: number;
}

function statusOf({ metadata, status }: Observed["rs"]): StatusSeen {
  return { resourceVersion: metadata.resourceVersion, replicas: status.replicas ?? 0 };
}

/**
 * Why the cached pods cannot be complete, according to the number of replicas in the owner's status; undefined if there is no such
 * evidence. Pods that terminate, ended or were deleted since the status was written explain a smaller number. Before deletes, a larger
 * number is explained by pods newer than the status, or by a cache that has every event up to the status' version.
 *
 *     status 3, one pod, one terminating           → above by one: a pod is missing in the cache
 *     status 0, 3 pods, all newer than the status  → explained
 *     status 1, 3 pods, all older, one to delete → below by two: the cache may hold pods that were already gone
 */
export function statusContradicts(
  { pods: cache, mark, left = 0, dependents }: Pick<Snapshot, "pods" | "mark" | "left" | "dependents">,
  { resourceVersion, replicas }: StatusSeen,
  {
    observed,
    claimed,
    deletes,
  }: {
    readonly observed: Pick<Observed, "pods" | "orphans">;
    readonly claimed: readonly CachedPod[];
    readonly deletes: boolean;
  },
): ListReason | undefined {
  const isNewer = (pod: CachedPod): boolean => compareResourceVersions(pod.resourceVersion, resourceVersion) > 0;
  const uids = new Set(claimed.map(({ uid }) => uid));
  const isLeft = ({ uid }: CachedPod): boolean => !uids.has(uid);
  const gone = dependents.filter((row) => row.gone).length;
  // Pods that ended since the status was written are in `left`, but the Store counts them only with a mark.
  const notCounted = observed.pods.filter((pod) => isLeft(pod) && (mark === undefined || isActive(pod))).length + gone + left;
  const released = observed.orphans.filter((pod) => isLeft(pod) && isNewer(pod)).length;
  if (replicas > claimed.length + notCounted + released) return "status above the pods";
  const isBehind = cache !== undefined && compareResourceVersions(cache.watermark, resourceVersion) < 0;
  return deletes && isBehind && replicas < claimed.length - claimed.filter(isNewer).length ? "status below the pods" : undefined;
}
