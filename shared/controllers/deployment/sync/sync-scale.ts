/** Sync while paused or just resized: adjusts sizes without a rollout step (deployment §4.1, §10). */
import type { SyncResult } from "../../kit/run.ts";
import { rollbackTo } from "../annotations.ts";
import { scale } from "../scale.ts";
import { syncRevision } from "./sync-revision.ts";
import { syncStatusOnly } from "./sync-status.ts";
import { because, cleanup, type Known, resize, type DeploymentSync } from "./step.ts";

/** Source: sync.go sync. */
export async function syncScale(sync: DeploymentSync, from: Known): Promise<SyncResult> {
  const revised = await syncRevision(sync, from);
  if (revised.kind === "ended") return revised.result;
  const { split } = revised;
  const { decided: steps, why } = scale(revised.known.d, split);
  because(sync, ...why);
  const scaled = await resize(sync, revised.known, steps);
  if (scaled.kind === "ended") return scaled.result;
  const {
    known,
    known: { d },
  } = scaled;
  const cleaned = d.spec.paused === true && rollbackTo(d) === undefined ? await cleanup(sync, known, split.oldRSs.toReversed()) : undefined;
  return cleaned?.kind === "ended" ? cleaned.result : syncStatusOnly(sync, known, split);
}
