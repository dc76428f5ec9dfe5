/** Steps that write the Deployment's status (deployment §13). */
import type { CachedDeployment } from "@deltaloop/kube/objects";
import type { Succeeded, SyncResult } from "../../kit/run.ts";
import { deploymentComplete, followUpMs, pausedStatus, progressRecheckMs, rolloutStatus } from "../progress.ts";
import type { ReplicaSetSplit } from "../replica-sets.ts";
import { calculateStatus, sameStatus } from "../status.ts";
import { type UpdateStatus, updateStatus } from "../writes.ts";
import { because, beforeStatus, cleanup, DONE, ended, type Known, type DeploymentSync, type StepResult } from "./step.ts";

/** Writes the status if it changed. @throws {Error} if the status was not written */
export async function writeStatus(
  { session }: DeploymentSync,
  known: Known,
  write: UpdateStatus | undefined,
  /** The sync's result, if this is its last write. */
  finalResult?: (d: CachedDeployment) => Succeeded,
): Promise<StepResult> {
  if (write === undefined) return { kind: "goOn", known };
  const { end, results, error } = await session.updateStatus(
    write,
    finalResult && { finalResult: (stored) => finalResult(stored as CachedDeployment) },
  ); // a status write returns exactly one object
  if (end !== undefined) return ended(end);
  const [result] = results;
  if (result?.kind !== "stored" || result.resource !== "deployments") throw error ?? new Error("the status was not written");
  return { kind: "goOn", known: { ...known, d: result.object } };
}

/** Writes a status that reports a failure. Only logs a failure of this write. */
export async function tryStatus(sync: DeploymentSync, known: Known, write: UpdateStatus | undefined): Promise<void> {
  const { log, key } = sync.session;
  try {
    await writeStatus(sync, known, write);
  } catch (error) {
    log.warn("status not written", { key, error: error instanceof Error ? error.name : String(error) });
  }
}

export function noteThePause(sync: DeploymentSync, known: Known): Promise<StepResult> {
  const { decided: status, why } = pausedStatus(known.d, sync.session.clock.now());
  because(sync, ...why);
  return writeStatus(sync, known, status && updateStatus(known.d, status));
}

/** Writes the computed status (counters, observedGeneration, Available); leaves Progressing and ReplicaFailure unchanged (§13.2). */
export async function syncStatusOnly(sync: DeploymentSync, known: Known, split: ReplicaSetSplit): Promise<SyncResult> {
  const { decided: status, why } = calculateStatus(known.d, split, sync.session.clock.now(), sync.session.release);
  because(sync, ...why);
  if (sameStatus(known.d.status, status)) return DONE;
  const written = await writeStatus(sync, known, updateStatus(known.d, status), () => DONE);
  return written.kind === "ended" ? written.result : DONE;
}

/** Ends a rollout that needs no size change; cleans up if it is complete. */
export async function finishRollout(sync: DeploymentSync, known: Known, split: ReplicaSetSplit, failure?: Error): Promise<SyncResult> {
  if (!deploymentComplete(known.d, known.d.status)) return syncRolloutStatus(sync, known, split, failure);
  const cleaning = cleanup(sync, known, split.oldRSs);
  const isRolling = known.d.spec.strategy?.type === "RollingUpdate";
  const cleaned: StepResult<{ readonly failure?: Error }> = await (isRolling ? beforeStatus(sync, known, cleaning) : cleaning);
  if (cleaned.kind === "ended") return cleaned.result;
  return syncRolloutStatus(sync, known, split, failure ?? cleaned.failure);
}

/** Ends a rollout step. `failure`: an error that must not delay the status. */
export async function syncRolloutStatus(
  sync: DeploymentSync,
  { d, ...rest }: Known,
  split: ReplicaSetSplit,
  failure?: Error,
): Promise<SyncResult> {
  const nowMs = sync.session.clock.now();
  const { decided: status, why } = rolloutStatus(d, split, nowMs, sync.session.release);
  because(sync, ...why);
  const isStored = sameStatus(d.status, status);
  const followUp = (stored: CachedDeployment): ReturnType<typeof followUpMs> => followUpMs(stored, split.oldRSs, nowMs);
  const finalResult = failure === undefined ? (stored: CachedDeployment): Succeeded => againAfter(followUp(stored).decided) : undefined;
  const written = await writeStatus(sync, { d, ...rest }, isStored ? undefined : updateStatus(d, status), finalResult);
  if (written.kind === "ended") return written.result;
  if (failure !== undefined) throw failure;
  const { decided: afterMs, why: whyAgain } = isStored ? progressRecheckMs(d, status, nowMs) : followUp(written.known.d);
  because(sync, ...whyAgain);
  return againAfter(afterMs);
}

function againAfter(afterMs: number | undefined): Succeeded {
  return afterMs === undefined ? DONE : { kind: "again", afterMs };
}
