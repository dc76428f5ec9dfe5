/**
 * The sync of a Deployment (deployment §4): delete > pause > rollback > scale > rollout, one branch per sync. This file chooses the
 * branch; the steps are in the same folder, and the decisions in the parent folder.
 *
 * DS1 within a sync every write is based on the response to the previous one (quirk Q11): `Known` holds the responses so far. The status is
 *     computed from the sizes at the start of the branch, which its `split` keeps (Q8).
 * DS2 nothing is created before the Deployment's ReplicaSets were listed live and the decision was made on that list (S2–S4).
 * DS3 available old pods are removed only after such a list (S6). With strategy Recreate nothing new starts before a live list of
 *    pods shows no old one (S14).
 * DS4 after a run of the key that failed or crashed, sizes are decided on a live list, because writes of that run may have been executed
 *     without a response (S27).
 * DS5 if another client wrote an object first, perform() writes the live object through, which enqueues this key.
 */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { compileSelector, selectsEverything } from "@deltaloop/kube/selectors";
import type { SyncResult } from "../../kit/run.ts";
import type { KeySync } from "../../kit/sync/key-sync.ts";
import { inSession } from "../../kit/sync/in-session.ts";
import type { SyncSession } from "../../kit/sync/session.ts";
import type { EventNote } from "../../kit/writes.ts";
import { isNamespaceTerminating } from "@deltaloop/kube/client";
import { rollbackTo } from "../annotations.ts";
import type { DeploymentReason } from "../reasons.ts";
import { allReplicaSets } from "../replica-sets.ts";
import { scalingEvent } from "../scale.ts";
import { rolloutRecreate } from "./rollout-recreate.ts";
import { syncRevision } from "./sync-revision.ts";
import { rollback } from "./perform-rollback.ts";
import { rolloutRolling } from "./rollout-rolling.ts";
import { syncScale } from "./sync-scale.ts";
import { noteThePause, syncStatusOnly, tryStatus } from "./sync-status.ts";
import { because, claim, DONE, type Known, listReplicaSets, type DeploymentSync, type StepResult } from "./step.ts";
import { ownerOf, updateStatus } from "../writes.ts";

/** A key that failed this often in a row is parked until its next event. Source: pkg/controller/deployment maxRetries. */
export const DEPLOYMENT_KEYS: KeySync = { ...inSession(syncDeployment), maxRetries: 15 };

/**
 * @throws {Error} for a retry with back-off: at most 15 times, then the key waits for its next event.
 * Source: deployment_controller.go syncDeployment.
 */
export async function syncDeployment(session: SyncSession): Promise<SyncResult> {
  const { primary } = session.snapshot;
  if (primary === undefined || primary.gone) {
    session.because({ rule: "gone", facts: {} } satisfies DeploymentReason);
    return DONE;
  }
  const d = primary.object as CachedDeployment; // the primary of this controller is a Deployment
  const selector = compileSelector(d.spec.selector);
  if (selector.kind === "Invalid") throw new Error(`deployment ${session.key} has invalid label selector: ${selector.message}`);
  const tell = (note: EventNote | undefined): void => {
    if (note !== undefined) session.emit(ownerOf(d), [note]);
  };
  try {
    return await route({ session, selector, tell }, { d, rss: [], listed: false });
  } catch (error) {
    // Nothing can be created there any more, so a retry cannot help: upstream forgets the key.
    if (isNamespaceTerminating(error)) return DONE;
    throw error;
  }
}

async function route(sync: DeploymentSync, start: Known): Promise<SyncResult> {
  const { session, selector } = sync;
  if (selectsEverything(selector)) return selectingAll(sync, start);
  const { dependents, orphans } = session.snapshot;
  const cached = [...dependents, ...orphans].filter((row) => !row.gone).map((row) => row.object as CachedReplicaSet); // the dependents' resource
  const claimed = await withOutcomes(sync, await claim(sync, start.d, cached, false));
  if (claimed.kind === "ended") return claimed.result;
  if (start.d.metadata.deletionTimestamp !== undefined) {
    because(sync, { rule: "deployment ends", facts: {} });
    return syncDeleted(sync, claimed.known);
  }
  const noted = await noteThePause(sync, claimed.known);
  if (noted.kind === "ended") return noted.result;
  const { spec } = noted.known.d;
  if (spec.paused === true) {
    because(sync, { rule: "paused", facts: {} });
    return syncScale(sync, noted.known);
  }
  const requested = rollbackTo(noted.known.d);
  if (requested !== undefined) {
    because(sync, { rule: "asked to roll back", facts: { revision: String(requested) } });
    return rollback(sync, noted.known, requested);
  }
  const revised = await syncRevision(sync, noted.known);
  if (revised.kind === "ended") return revised.result;
  const { known, split } = revised;
  const resized = scalingEvent(known.d, allReplicaSets(split));
  because(sync, ...resized.why);
  if (resized.decided) return syncScale(sync, known);
  const type = known.d.spec.strategy?.type;
  if (type === "Recreate") return rolloutRecreate(sync, known);
  if (type === "RollingUpdate") return rolloutRolling(sync, known);
  throw new Error(`unexpected deployment strategy type: ${type ?? ""}`);
}

/**
 * DS4: the effect of a call that got a 5xx or no response is not in the cache until its event arrives. Upstream decides on its cache here,
 * which lags by milliseconds only.
 */
async function withOutcomes(sync: DeploymentSync, claimed: StepResult): Promise<StepResult> {
  const { mode, snapshot } = sync.session;
  const isUnsure = snapshot.failures > 0 || snapshot.unended !== undefined;
  if (claimed.kind === "ended" || !isUnsure || mode === "shadow") return claimed;
  return await listReplicaSets(sync, claimed.known);
}

/** Warns about an empty selector, which would match every ReplicaSet of the namespace. */
async function selectingAll(sync: DeploymentSync, known: Known): Promise<SyncResult> {
  const { metadata, status } = known.d;
  because(sync, { rule: "selects everything", facts: {} });
  sync.tell({
    type: "Warning",
    reason: "SelectingAll",
    message: "This deployment is selecting all pods. A non-empty selector is required.",
  });
  const generation = metadata.generation ?? 0;
  if ((status.observedGeneration ?? 0) < generation)
    await tryStatus(sync, known, updateStatus(known.d, { ...status, observedGeneration: generation }));
  return DONE;
}

/** The Deployment is being deleted: the garbage collector deletes its ReplicaSets, and the sync only counts them. */
async function syncDeleted(sync: DeploymentSync, known: Known): Promise<SyncResult> {
  const revised = await syncRevision(sync, known);
  return revised.kind === "ended" ? revised.result : syncStatusOnly(sync, revised.known, revised.split);
}
