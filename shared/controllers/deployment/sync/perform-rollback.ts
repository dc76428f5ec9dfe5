/** A rollback that an annotation requests (deployment §15.1). */
import type { SyncResult } from "../../kit/run.ts";
import { rollbackBody, rollbackStep } from "../rollback.ts";
import { syncRevisionOrCreate } from "./sync-revision.ts";
import { because, DONE, type Known, type DeploymentSync } from "./step.ts";

/**
 * First creates the ReplicaSet and revision of the present template, so that a later rollback can return to it. The response enqueues the
 * key, and the next sync starts the rollout.
 * @throws {Error} if the Deployment was not written
 * Source: rollback.go rollback.
 */
export async function rollback(sync: DeploymentSync, from: Known, requested: bigint): Promise<SyncResult> {
  const revised = await syncRevisionOrCreate(sync, from);
  if (revised.kind === "ended") return revised.result;
  const { write, warning, note, why } = rollbackStep(revised.known.d, revised.split, requested);
  because(sync, why);
  sync.tell(warning);
  const { end, results, error } = await sync.session.rollBack(write, rollbackBody);
  if (end !== undefined) return end;
  if (error !== undefined) throw error;
  if (results[0]?.kind === "stored") sync.tell(note);
  return DONE;
}
