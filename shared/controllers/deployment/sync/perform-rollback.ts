/** A rollback that an annotation asks for (deployment §15.1). */
import type { SyncResult } from "../../kit/run.ts";
import { rollbackBody, rollbackStep } from "../rollback.ts";
import { syncRevisionOrCreate } from "./sync-revision.ts";
import { because, DONE, type Known, type DeploymentSync } from "./step.ts";

/**
 * The present template gets its ReplicaSet and revision first, so that it can be gone back to in turn. The write's answer queues the
 * key, and the next sync rolls out.
 * @throws {Error} when the Deployment was not written.
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
