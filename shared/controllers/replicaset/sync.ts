/** The sync of a ReplicaSet, and of a ReplicationController in ReplicaSet form (replicaset §5). */
import type { CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { ownerId, primaryAsOwner, controllerRef } from "@deltaloop/kube/objects";
import type { Performed } from "../kit/performed.ts";
import type { SyncResult } from "../kit/run.ts";
import type { KeySync } from "../kit/sync/key-sync.ts";
import { inSession } from "../kit/sync/in-session.ts";
import type { SyncSession } from "../kit/sync/session.ts";
import type { Row, SliceRef } from "@deltaloop/store/ports";
import { nextAvailabilityCheck } from "./availability.ts";
import type { NextLook } from "./availability.ts";
import { calculateStatus, statusWrite, whyStatus } from "./calculate-status.ts";
import { adoptedPods, claimPods, terminatingPods } from "./claim-pods.ts";
import { REPLICA_SET } from "./kind.ts";
import { liveBasis } from "./live-basis.ts";
import type { ReplicaKind } from "./kind.ts";
import { choosesVictims, manageReplicas } from "./manage-replicas.ts";
import { observe, podsOf, whyNothing } from "./observe.ts";
import type { Observed } from "./observe.ts";
import { deletionAgeRatios, relatedPods } from "./pods-to-delete.ts";
import type { ReplicaReason } from "./reasons.ts";

export const REPLICASET_KEYS: KeySync = inSession(syncReplicaSet);

export function syncReplicaSet(session: SyncSession): Promise<SyncResult> {
  return syncReplicas(session, REPLICA_SET);
}

/**
 * Claims pods, then creates or deletes pods, then writes the status. A failed claim ends the sync. A failed create or delete is first
 * reported in the status, and does not delay the availability check, for which upstream has a separate timer.
 *
 * Source: pkg/controller/replicaset/replica_set.go syncReplicaSet, updatePod.
 */
export async function syncReplicas(session: SyncSession, kind: ReplicaKind): Promise<SyncResult> {
  const cached = observe(session.snapshot, kind);
  if (cached.kind === "InvalidSelector") session.log.warn("invalid selector", { key: session.key, error: cached.message });
  if (cached.kind !== "Observed") {
    because(session, whyNothing(cached));
    return { kind: "done" };
  }
  const { observed, waitMs } = await liveBasis(session, cached, kind);

  const { claimed: owned, writes, why } = claimPods(observed);
  because(session, ...why);
  const claims = await session.perform(writes);
  if (claims.end) return claims.end;
  if (claims.error) throw claims.error;
  const claimed = [...owned, ...adoptedPods(writes, claims.results)];

  const managed: Performed = waitMs === undefined ? await manage(session, { observed, claimed, kind }) : { results: [] };
  if (managed.end) return managed.end;
  if (waitMs !== undefined && claimed.length < (observed.rs.status.replicas ?? 0)) return { kind: "again", afterMs: waitMs };

  const statusNowMs = session.clock.now();
  const input = {
    claimed,
    ...(kind.countsTerminating && session.release.behaviour.countsTerminating && { terminating: terminatingPods(observed) }),
    ...(managed.error && { manageError: managed.error }),
    isWaiting: waitMs !== undefined,
    nowMs: statusNowMs,
  };
  const write = (rs: CachedReplicaSet): ReturnType<typeof statusWrite> => statusWrite(rs, observed.owner, calculateStatus(rs, input));
  const first = write(observed.rs);
  const status = calculateStatus(observed.rs, input);
  because(session, ...whyStatus(observed.rs, status, first !== undefined));
  const nextLook = (): NextLook => {
    const times = { statusNowMs, nowMs: session.clock.now() };
    const look = nextAvailabilityCheck(observed.rs, status, { claimed, ...times, ...session.release.behaviour });
    if (waitMs === undefined) return look;
    return { ...look, next: { kind: "again", afterMs: look.next.kind === "again" ? Math.min(look.next.afterMs, waitMs) : waitMs } };
  };
  const written =
    first &&
    (await session.updateStatus(first, {
      recompute: (live) => write(kind.toReplicaSet(live)),
      ...(managed.error === undefined && { finalResult: () => nextLook().next }),
    }));
  if (written?.end) return written.end;
  const { next, why: whyAgain } = nextLook();
  because(session, ...whyAgain);
  const error = written?.error ?? managed.error;
  if (error === undefined) return next;
  if (next.kind === "again") return { kind: "failed", error, afterMs: next.afterMs };
  throw error;
}

/** Accepts only reasons of this controller. */
function because(session: SyncSession, ...reasons: readonly ReplicaReason[]): void {
  session.because(...reasons);
}

interface ToManage {
  readonly observed: Observed;
  readonly claimed: readonly CachedPod[];
  readonly kind: ReplicaKind;
}

async function manage(session: SyncSession, { observed, claimed, kind }: ToManage): Promise<Performed> {
  const chooses = choosesVictims(observed, claimed);
  const related = kind.ranksRelatedPods && chooses ? await readRelatedPods(session, observed) : [];
  const nowMs = session.clock.now();
  const { writes, why } = manageReplicas(observed, claimed, { related, nowMs });
  because(session, ...why);
  const victims = new Set(writes.flatMap((write) => (write.kind === "DeletePod" ? [write.uid] : [])));
  for (const ratio of chooses ? deletionAgeRatios(claimed, victims, nowMs) : [])
    session.metrics?.observe("replicaset_controller_sorting_deletion_age_ratio", {}, ratio);
  return session.perform(writes);
}

/** Two reads: the siblings, then their pods. Own pods and orphans are in the snapshot. */
async function readRelatedPods({ store }: SyncSession, { rs, pods, orphans }: Observed): Promise<readonly CachedPod[]> {
  const owner = controllerRef(rs.metadata);
  if (owner === undefined) return [];
  const [rows = []] = await store.readSlices([{ resource: "replicasets", owner: ownerId(rs.metadata.namespace, owner.uid) }]);
  const siblings = rows.filter((row) => !row.gone && row.uid !== rs.metadata.uid);
  const slices = siblings.length > 0 ? await store.readSlices(siblings.map(podsOfReplicaSet)) : [];
  const siblingSets = siblings.map(({ object }) => REPLICA_SET.toReplicaSet(object));
  return relatedPods([rs, ...siblingSets], [...pods, ...orphans, ...podsOf(slices.flat())]);
}

function podsOfReplicaSet({ key, uid }: Row): SliceRef {
  return { resource: "pods", owner: primaryAsOwner("replicaset", key, uid) };
}
