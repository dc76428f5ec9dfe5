/** State, results, and common reads and writes of the steps of a Deployment sync. */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { controllerRef } from "@deltaloop/kube/objects";
import type { Selector } from "@deltaloop/kube/selectors";
import { strip } from "@deltaloop/kube/strip";
import type { WriteResult } from "../../kit/performed.ts";
import type { Succeeded, SyncResult } from "../../kit/run.ts";
import type { SyncSession } from "../../kit/sync/session.ts";
import type { EventNote } from "../../kit/writes.ts";
import { claimReplicaSets } from "../claim-replica-sets.ts";
import { cleanupDeployment } from "../history.ts";
import { withCopiedAnnotations } from "../new-replica-set.ts";
import type { DeploymentReason } from "../reasons.ts";
import { ownerOf, type PatchReplicaSet, type NotedWrite } from "../writes.ts";

/** Constant during a sync. */
export interface DeploymentSync {
  readonly session: SyncSession;
  readonly selector: Selector;
  /** Sends an Event in the background; it is awaited before the sync ends. */
  tell(note: EventNote | undefined): void;
}

/** State of the sync, which every response to a write replaces. */
export interface Known {
  readonly d: CachedDeployment;
  /** Claimed ReplicaSets. */
  readonly rss: readonly CachedReplicaSet[];
  /** Whether `rss` is from a live list, updated only with the responses to this sync's own writes. */
  readonly listed: boolean;
}

export interface Ended {
  readonly kind: "ended";
  readonly result: SyncResult;
}

/** Either the sync ends, or it continues with the new state and the values of the step. */
export type StepResult<T extends object = object> = Ended | ({ readonly kind: "goOn"; readonly known: Known } & T);

export const DONE: Succeeded = { kind: "done" };

export function ended(result: SyncResult): Ended {
  return { kind: "ended", result };
}

/** Records reasons of this controller. */
export function because({ session }: DeploymentSync, ...reasons: readonly DeploymentReason[]): void {
  session.because(...reasons);
}

/** @throws {Error} if the ReplicaSet was not written */
export async function patch(
  { session }: DeploymentSync,
  known: Known,
  write: PatchReplicaSet,
): Promise<StepResult<{ readonly rs: CachedReplicaSet }>> {
  const { end, results, error } = await session.perform([withCopiedAnnotations(known.d, known.rss, write)]);
  if (end !== undefined) return ended(end);
  const rs = storedReplicaSet(results[0]);
  if (rs === undefined) throw error ?? new Error(`ReplicaSet ${write.name} was not written`);
  return { kind: "goOn", known: withReplicaSet(known, rs), rs };
}

/** Writes sizes in order, up to the first error. */
export async function resize(sync: DeploymentSync, from: Known, steps: readonly NotedWrite<PatchReplicaSet>[]): Promise<StepResult> {
  let known = from;
  for (const { write, note } of steps) {
    const patched = await patch(sync, known, write);
    if (patched.kind === "ended") return patched;
    sync.tell(note);
    ({ known } = patched);
  }
  return { kind: "goOn", known };
}

/** A step whose error, from 1.38 on, ends the sync only after the status was written (upstream: syncRolloutStatusAfter). */
export async function beforeStatus(
  { session }: DeploymentSync,
  known: Known,
  step: Promise<StepResult>,
): Promise<StepResult<{ readonly failure?: Error }>> {
  try {
    return await step;
  } catch (error) {
    if (!session.release.behaviour.writesStatusAfterFailure || !(error instanceof Error)) throw error;
    return { kind: "goOn", known, failure: error };
  }
}

/** Deletes old ReplicaSets beyond the history limit. A ReplicaSet that has changed or no longer exists is handled by its own event. */
export async function cleanup(sync: DeploymentSync, known: Known, oldRSs: readonly CachedReplicaSet[]): Promise<StepResult> {
  const { decided: writes, why } = cleanupDeployment(
    known.d,
    oldRSs.map((rs) => newestOf(known, rs)),
  );
  because(sync, ...why);
  const { end, error } = await sync.session.perform(writes);
  if (error !== undefined && end === undefined) throw error;
  return end ? ended(end) : { kind: "goOn", known };
}

/** Sends adoptions and releases for `rss`, and returns the Deployment's own. @throws {Error} if a write failed */
export async function claim(
  sync: DeploymentSync,
  d: CachedDeployment,
  rss: readonly CachedReplicaSet[],
  listed: boolean,
): Promise<StepResult> {
  const { session, selector } = sync;
  const { owned, writes, why } = claimReplicaSets(d, selector, rss);
  because(sync, ...why);
  const { end, results, error } = await session.perform(writes);
  if (end !== undefined) return ended(end);
  if (error !== undefined) throw error;
  const adopted = writes.flatMap((write, index) => (write.kind === "Adopt" ? (storedReplicaSet(results[index]) ?? []) : []));
  return { kind: "goOn", known: { d, rss: [...owned, ...adopted], listed } };
}

/**
 * Lists the Deployment's ReplicaSets live and writes differences from the cache through. Adopts a ReplicaSet that has lost its owner
 * reference without a change in the cache. Otherwise a create would find the name taken and count a hash collision. `create`: also reads
 * the Deployment.
 */
export async function listReplicaSets(sync: DeploymentSync, { d, rss }: Known, purpose?: "create"): Promise<StepResult> {
  const { session, selector } = sync;
  const live = await session.list("replicasets", d.metadata.namespace, {
    selector,
    ...(purpose === "create" && { foresee: ownerOf(d) }),
  });
  const news = live.filter(
    ({ metadata }) =>
      (controllerRef(metadata)?.uid ?? d.metadata.uid) === d.metadata.uid &&
      !rss.some((rs) => rs.metadata.uid === metadata.uid && rs.metadata.resourceVersion === metadata.resourceVersion),
  );
  if (session.mode === "act") await session.save({ resource: "replicasets", objects: news });
  const listed = live.map((rs) => strip("replicasets", rs, session.digester));
  return await claim(sync, d, listed, true);
}

export function storedReplicaSet(result: WriteResult | undefined): CachedReplicaSet | undefined {
  return result?.kind === "stored" && result.resource === "replicasets" ? result.object : undefined;
}

export function withReplicaSet(known: Known, rs: CachedReplicaSet): Known {
  return { ...known, rss: known.rss.map((each) => (each.metadata.uid === rs.metadata.uid ? rs : each)) };
}

export function newestOf({ rss }: Known, rs: CachedReplicaSet): CachedReplicaSet {
  return rss.find(({ metadata }) => metadata.uid === rs.metadata.uid) ?? rs;
}
