/** Steps that find or create the new ReplicaSet, and keep its revision and the Deployment's equal (deployment §8). */
import type { CachedReplicaSet } from "@deltaloop/kube/objects";
import { isControlledBy } from "@deltaloop/kube/objects";
import type { WriteResult } from "../../kit/performed.ts";
import { isNamespaceTerminating } from "@deltaloop/kube/client";
import {
  collisionStatus,
  createdNote,
  createdStatus,
  createFailed,
  foundStatus,
  newReplicaSet,
  syncExistingReplicaSet,
} from "../new-replica-set.ts";
import { replicaSetBody } from "../replica-set-body.ts";
import { type ReplicaSetSplit, sameTemplate, splitReplicaSets } from "../replica-sets.ts";
import type { CreateReplicaSet } from "../writes.ts";
import { tryStatus, writeStatus } from "./sync-status.ts";
import {
  because,
  DONE,
  ended,
  type Known,
  listReplicaSets,
  patch,
  storedReplicaSet,
  type DeploymentSync,
  type StepResult,
} from "./step.ts";

/** First step of a branch: splits the claimed ReplicaSets and updates the annotations of the new ReplicaSet. */
export async function syncRevision(sync: DeploymentSync, known: Known): Promise<StepResult<{ readonly split: ReplicaSetSplit }>> {
  const split = splitReplicaSets(known.d, known.rss);
  const facts = { among: known.rss.length };
  if (split.newRS === undefined) {
    because(sync, { rule: "template has no ReplicaSet", facts });
    return { kind: "goOn", known, split };
  }
  const { decided: write, why } = syncExistingReplicaSet(known.d, split.newRS, split.oldRSs, sync.session.clock.now());
  because(sync, { rule: "template has a ReplicaSet", about: split.newRS.metadata.name, facts }, ...why);
  if (write?.kind === "PatchReplicaSet") {
    const patched = await patch(sync, known, write);
    return patched.kind === "ended" ? patched : { kind: "goOn", known: patched.known, split: { ...split, newRS: patched.rs } };
  }
  const written = await writeStatus(sync, known, write);
  return written.kind === "ended" ? written : { ...written, split };
}

export interface WithNewReplicaSet extends ReplicaSetSplit {
  readonly newRS: CachedReplicaSet;
}

/** Same as syncRevision, but creates a missing new ReplicaSet, based on a live list (I2). */
export async function syncRevisionOrCreate(sync: DeploymentSync, from: Known): Promise<StepResult<{ readonly split: WithNewReplicaSet }>> {
  const isMissing = splitReplicaSets(from.d, from.rss).newRS === undefined;
  const start: StepResult = isMissing && !from.listed ? await listReplicaSets(sync, from, "create") : { kind: "goOn", known: from };
  if (start.kind === "ended") return start;
  const revised = await syncRevision(sync, start.known);
  if (revised.kind === "ended") return revised;
  const { newRS, oldRSs } = revised.split;
  if (newRS !== undefined) return { ...revised, split: { newRS, oldRSs } };
  const created = await create(sync, revised.known, oldRSs);
  return created.kind === "ended" ? created : { kind: "goOn", known: created.known, split: { newRS: created.rs, oldRSs } };
}

type WithReplicaSet = StepResult<{ readonly rs: CachedReplicaSet }>;

async function create(sync: DeploymentSync, known: Known, oldRSs: readonly CachedReplicaSet[]): Promise<WithReplicaSet> {
  const { session } = sync;
  const { decided: write, why } = newReplicaSet(known.d, oldRSs, sync.session.release);
  because(sync, ...why);
  const { end, results, error } = await session.createReplicaSet(write, replicaSetBody);
  if (end !== undefined) return ended(end);
  const [result] = results;
  const rs = storedReplicaSet(result);
  if (rs !== undefined) {
    sync.tell(createdNote(write));
    const status = createdStatus(known.d, write, session.clock.now());
    return withNew(rs, await writeStatus(sync, { ...known, rss: [...known.rss, rs] }, status));
  }
  if (result?.kind === "alreadyExists") return taken(sync, known, write, result);
  if (result?.kind === "failed") {
    if (!isNamespaceTerminating(result.error)) {
      const failure = createFailed(known.d, write, result.error.message, session.clock.now());
      await tryStatus(sync, known, failure.write);
      sync.tell(failure.note);
    }
    throw result.error;
  }
  // If there is no error, the create was not tried because the live Deployment is being deleted. The Deployment's event then enqueues the
  // key.
  if (error !== undefined) throw error;
  return ended(DONE);
}

/**
 * Handles a taken name: a ReplicaSet of this Deployment with the same template, created by a crashed run, is the new one; any other object
 * is a hash collision.
 */
async function taken(
  sync: DeploymentSync,
  known: Known,
  write: CreateReplicaSet,
  { live, error }: Extract<WriteResult, { kind: "alreadyExists" }>,
): Promise<WithReplicaSet> {
  const { d, rss } = known;
  // The object no longer exists, so there is no collision and a retry may use the name.
  if (live === undefined) throw error;
  if (isControlledBy(live.metadata, d.metadata.uid) && sameTemplate(d.spec.template, live.spec.template))
    return withNew(live, await writeStatus(sync, { ...known, rss: [...rss, live] }, foundStatus(d, write)));
  await tryStatus(sync, known, collisionStatus(d));
  throw error;
}

function withNew(rs: CachedReplicaSet, written: StepResult): WithReplicaSet {
  return written.kind === "ended" ? written : { ...written, rs };
}
