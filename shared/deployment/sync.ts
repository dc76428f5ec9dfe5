/**
 * The sync of a Deployment (deployment §4): delete > pause > scale > rollout, one branch each time. Decisions are made in the
 * files beside this one; here they are read for, done, and brought together.
 *
 * I1 within a sync every write starts from the answer to the one before (quirk Q11): `state.d` and `state.rss` hold the
 *    newest we know, while a split taken at the start of a branch keeps the sizes that the status is computed from (Q8).
 * I2 nothing is created before the Deployment's ReplicaSets were listed live and the decision made on that list (S2–S4).
 * I3 available old pods go only after such a list (S6), and with strategy Recreate nothing new starts before a live list of
 *    pods shows no old one (S14).
 * I4 a write that answers "somebody else was first" has been written through by perform(), which queues this key.
 */
import type { CachedDeployment, CachedPod, CachedReplicaSet } from "../api/cached.ts";
import { podOwnerId } from "../api/owner-id.ts";
import { isControlledBy } from "../api/owner-references.ts";
import { compileSelector, formatSelector, selectsEverything, type Selector } from "../api/selector.ts";
import { strip } from "../api/strip.ts";
import type { PerformOptions, WriteResult } from "../controller/performed.ts";
import type { SyncResult } from "../controller/run.ts";
import type { SyncSession } from "../controller/session.ts";
import type { EventNote, Write } from "../controller/writes.ts";
import { isNamespaceTerminating } from "../ports/errors.ts";
import { ROLLBACK_TO } from "./annotations.ts";
import { claimReplicaSets } from "./claim-replica-sets.ts";
import { cleanupDeployment } from "./history.ts";
import {
  collisionStatus,
  createdNote,
  createdStatus,
  createFailed,
  foundStatus,
  newReplicaSet,
  syncExistingReplicaSet,
} from "./new-replica-set.ts";
import { deploymentComplete, followUpMs, pausedStatus, progressRecheckMs, rolloutStatus } from "./progress.ts";
import { oldPods, oldPodsRunning, scaleDownOldReplicaSetsForRecreate } from "./recreate.ts";
import { activeReplicaSets, allReplicaSets, replicasOf, type ReplicaSetSplit, sameTemplate, splitReplicaSets } from "./replica-sets.ts";
import { replicaSetBody } from "./replica-set-body.ts";
import { parseRevision } from "./revision.ts";
import { cleanupUnhealthyReplicas, reconcileNewReplicaSet, scaleDownOldReplicaSets, shrinkBudget } from "./rolling.ts";
import { isScalingEvent, scale } from "./scale.ts";
import { scaleReplicaSet } from "./scale-replica-set.ts";
import { calculateStatus, sameStatus } from "./status.ts";
import { type CreateReplicaSet, ownerOf, type PatchReplicaSet, type Step, type UpdateStatus, updateStatus } from "./writes.ts";

const DONE: SyncResult = { kind: "done" };
/** The Store takes 500 rows in one write-through; one old pod is enough to wait for. */
const PODS_WRITTEN_THROUGH_MAX = 500;

/** What one sync knows; it changes with every answer. */
interface State {
  readonly session: SyncSession;
  readonly selector: Selector;
  d: CachedDeployment;
  /** Claimed ReplicaSets. */
  rss: readonly CachedReplicaSet[];
  /** `rss` was listed live and only own writes came since. */
  listed: boolean;
  /** Events on their way; awaited before the sync ends. */
  readonly events: Promise<void>[];
  /** An error that must not stop the sync but must bring the key back. */
  failure: Error | undefined;
}

/** Ends the sync from wherever it stands: perform() said that it ends here. Normal; caught in `syncDeployment` alone. */
class SyncEnded extends Error {
  override readonly name = "SyncEnded";
  readonly result: SyncResult;
  constructor(result: SyncResult) {
    super("the sync ended");
    this.result = result;
  }
}

/**
 * @throws {Error} to be retried with back-off: at most 15 times, then the key waits for its next event.
 * Source: deployment_controller.go syncDeployment.
 */
export async function syncDeployment(session: SyncSession): Promise<SyncResult> {
  const { primary } = session.snapshot;
  if (primary === undefined || primary.gone) return DONE;
  const d = primary.object as CachedDeployment; // the primary of this controller is a Deployment
  const selector = compileSelector(d.spec.selector);
  if (selector.kind === "Invalid") throw new Error(`deployment ${session.key} has invalid label selector: ${selector.message}`);
  const state: State = { session, selector, d, rss: [], listed: false, events: [], failure: undefined };
  try {
    const result = await route(state);
    if (state.failure !== undefined) throw state.failure;
    return result;
  } catch (error) {
    if (error instanceof SyncEnded) return error.result;
    // Nothing can be created there any more, so trying again cannot help: upstream forgets the key.
    if (isNamespaceTerminating(error)) return DONE;
    throw error;
  } finally {
    await Promise.all(state.events);
  }
}

async function route(state: State): Promise<SyncResult> {
  if (selectsEverything(state.selector)) return selectingAll(state);
  await claim(state);
  if (state.d.metadata.deletionTimestamp !== undefined) return statusOnly(state, await syncRevision(state));
  await noteThePause(state);
  if (state.d.spec.paused === true) return scalePath(state);
  if (rollbackRequested(state.d)) state.session.log.info("rollback annotation left alone", { key: state.session.key });
  const split = await syncRevision(state);
  if (isScalingEvent(state.d, allReplicaSets(split))) return scalePath(state);
  const type = state.d.spec.strategy?.type;
  if (type === "Recreate") return rolloutRecreate(state);
  if (type === "RollingUpdate") return rolloutRolling(state);
  throw new Error(`unexpected deployment strategy type: ${type ?? ""}`);
}

/** An int64, as upstream reads it; a bad value is no request (quirk Q6). Acting on it is not built yet. */
function rollbackRequested(d: CachedDeployment): boolean {
  return parseRevision(d.metadata.annotations?.[ROLLBACK_TO] ?? "") !== undefined;
}

/** A selector without any condition would take every ReplicaSet of the namespace. */
async function selectingAll(state: State): Promise<SyncResult> {
  tell(state, {
    type: "Warning",
    reason: "SelectingAll",
    message: "This deployment is selecting all pods. A non-empty selector is required.",
  });
  const generation = state.d.metadata.generation ?? 0;
  if ((state.d.status.observedGeneration ?? 0) < generation) {
    await ignoringErrors(state, updateStatus(state.d, { ...state.d.status, observedGeneration: generation }));
  }
  return DONE;
}

// --------------------------------------------------------------------------------------------------------------- claiming

async function claim(state: State): Promise<void> {
  const { dependents, orphans } = state.session.snapshot;
  const rss = [...dependents, ...orphans].filter((row) => !row.gone).map((row) => row.object as CachedReplicaSet); // the dependents' resource
  const { owned, writes } = claimReplicaSets(state.d, state.selector, rss);
  const { results, error } = await send(state, writes);
  state.rss = [...owned, ...writes.flatMap((write, index) => (write.kind === "Adopt" ? storedReplicaSet(results[index]) : []))];
  if (error !== undefined) throw error;
}

// ---------------------------------------------------------------------------------------- revision and the new ReplicaSet

/** Finds the new ReplicaSet and keeps its annotations and the Deployment's revision in step (§8 with create = false). */
async function syncRevision(state: State): Promise<ReplicaSetSplit> {
  const split = splitReplicaSets(state.d, state.rss);
  if (split.newRS === undefined) return split;
  const write = syncExistingReplicaSet(state.d, split.newRS, split.oldRSs, state.session.clock.now());
  if (write === undefined) return split;
  if (write.kind === "UpdateStatus") {
    await writeStatus(state, write);
    return split;
  }
  return { ...split, newRS: await patch(state, write) };
}

interface WithNewReplicaSet extends ReplicaSetSplit {
  readonly newRS: CachedReplicaSet;
}

/** The same, and creates it if there is none (§8 with create = true). */
async function syncRevisionOrCreate(state: State): Promise<WithNewReplicaSet> {
  if (splitReplicaSets(state.d, state.rss).newRS === undefined && !state.listed) await listReplicaSets(state);
  const { newRS, oldRSs } = await syncRevision(state);
  return { newRS: newRS ?? (await create(state, oldRSs)), oldRSs };
}

async function create(state: State, oldRSs: readonly CachedReplicaSet[]): Promise<CachedReplicaSet> {
  const write = newReplicaSet(state.d, oldRSs);
  const { results, error } = await send(state, [write], {
    build: replicaSetBody,
  });
  const [result] = results;
  switch (result?.kind) {
    case "stored": {
      tell(state, createdNote(write));
      const [rs] = storedReplicaSet(result);
      if (rs === undefined) break;
      state.rss = [...state.rss, rs];
      await writeStatus(state, createdStatus(state.d, write, state.session.clock.now()));
      return rs;
    }
    case "alreadyExists":
      return taken(state, write, result);
    case "failed":
      if (!isNamespaceTerminating(result.error)) {
        const failure = createFailed(state.d, write, result.error.message, state.session.clock.now());
        await ignoringErrors(state, failure.write);
        tell(state, failure.note);
      }
      throw result.error;
    default:
      break;
  }
  // Not tried without an error: the Deployment is being deleted, as the live read showed. Its own event follows.
  throw error ?? new SyncEnded(DONE);
}

/** The name is taken. By the very ReplicaSet we want, made by a run that died: it is the new one. By anything else: a collision. */
async function taken(
  state: State,
  write: CreateReplicaSet,
  { live, error }: Extract<WriteResult, { kind: "alreadyExists" }>,
): Promise<CachedReplicaSet> {
  // Gone again by now: no collision. The next attempt may have the name.
  if (live === undefined) throw error;
  if (isControlledBy(live.metadata, state.d.metadata.uid) && sameTemplate(state.d.spec.template, live.spec.template)) {
    state.rss = [...state.rss, live];
    await writeStatus(state, foundStatus(state.d, write));
    return live;
  }
  await ignoringErrors(state, collisionStatus(state.d));
  throw error;
}

// ----------------------------------------------------------------------------------------------------------- the branches

/** Paused, or resized since its ReplicaSets were: sizes follow, no rollout step is taken (§4.1). */
async function scalePath(state: State): Promise<SyncResult> {
  const split = await syncRevision(state);
  for (const step of scale(state.d, split)) await resize(state, step);
  if (state.d.spec.paused === true && !rollbackRequested(state.d)) await cleanup(state, split);
  return statusOnly(state, split);
}

async function rolloutRolling(state: State): Promise<SyncResult> {
  const split = await syncRevisionOrCreate(state);
  const grow = reconcileNewReplicaSet(state.d, split.newRS, split.oldRSs);
  if (grow !== undefined) {
    await resize(state, grow);
    return syncRolloutStatus(state, split);
  }
  if (await reconcileOldReplicaSets(state, split)) return syncRolloutStatus(state, split);
  if (deploymentComplete(state.d, state.d.status)) await cleanup(state, split);
  return syncRolloutStatus(state, split);
}

async function rolloutRecreate(state: State): Promise<SyncResult> {
  let split = await syncRevision(state);
  const steps = scaleDownOldReplicaSetsForRecreate(state.d, split.oldRSs);
  for (const step of steps) await resize(state, step);
  if (steps.length > 0 || oldPodsRunning(split, await cachedPods(state, split))) return syncRolloutStatus(state, split);
  if (split.newRS === undefined || replicasOf(split.newRS) < replicasOf(state.d)) {
    await listReplicaSets(state);
    split = splitReplicaSets(state.d, state.rss);
    if (activeReplicaSets(split.oldRSs).length > 0 || oldPodsRunning(split, await livePods(state, split)))
      return syncRolloutStatus(state, split);
    split = await syncRevisionOrCreate(state);
  }
  const grow = split.newRS && scaleReplicaSet(state.d, split.newRS, replicasOf(state.d));
  if (grow !== undefined) await resize(state, grow);
  if (deploymentComplete(state.d, state.d.status)) await cleanup(state, split);
  return syncRolloutStatus(state, split);
}

/**
 * Shrinks old ReplicaSets: first by what is unavailable, then, judged on a live list, by what is not needed any more.
 * Whether anything was shrunk. Where a count lies or somebody else was first, the answer is no and the next event goes on
 * from there (quirk Q1).
 *
 * Differs from upstream: an error that no event follows (no answer, 5xx) is swallowed here too, but brings the key back.
 * Source: rolling.go reconcileOldReplicaSets.
 */
async function reconcileOldReplicaSets(state: State, split: WithNewReplicaSet): Promise<boolean> {
  const first = await shrinkUnhealthy(state, split);
  if (first === undefined) return false;
  if (scaleDownOldReplicaSets(state.d, first.left).length === 0) return first.shrunk;
  await listReplicaSets(state);
  const live = splitReplicaSets(state.d, state.rss);
  if (live.newRS?.metadata.uid !== split.newRS.metadata.uid) return false;
  const second = await shrinkUnhealthy(state, live);
  if (second === undefined) return false;
  const steps = scaleDownOldReplicaSets(state.d, second.left);
  return (await shrink(state, steps)) && (first.shrunk || second.shrunk || steps.length > 0);
}

/** The ReplicaSets as they are afterwards; undefined = nothing (more) may be shrunk. */
async function shrinkUnhealthy(
  state: State,
  { newRS, oldRSs }: ReplicaSetSplit,
): Promise<{ readonly shrunk: boolean; readonly left: ReplicaSetSplit } | undefined> {
  const active = activeReplicaSets(oldRSs);
  const budget = shrinkBudget(state.d, { newRS, oldRSs: active });
  if (budget <= 0) return undefined;
  const { steps, guard } = cleanupUnhealthyReplicas(state.d, active, budget);
  if (!(await shrink(state, steps)) || guard) return undefined;
  return { shrunk: steps.length > 0, left: { newRS, oldRSs: active.map((rs) => newestOf(state, rs)) } };
}

/** Whether all of it was done. */
async function shrink(state: State, steps: readonly Step<PatchReplicaSet>[]): Promise<boolean> {
  for (const { write, note } of steps) {
    const { results, error } = await send(state, [write]);
    const [rs] = storedReplicaSet(results[0]);
    if (rs === undefined) {
      if (results[0]?.kind === "failed") state.failure = error;
      return false;
    }
    replace(state, rs);
    tell(state, note);
  }
  return true;
}

/** What is changed or gone by now is left to its own event. */
async function cleanup(state: State, { oldRSs }: ReplicaSetSplit): Promise<void> {
  const { error } = await send(
    state,
    cleanupDeployment(
      state.d,
      oldRSs.map((rs) => newestOf(state, rs)),
    ),
  );
  if (error !== undefined) throw error;
}

// ------------------------------------------------------------------------------------------------------------------ status

async function noteThePause(state: State): Promise<void> {
  const status = pausedStatus(state.d, state.session.clock.now());
  if (status !== undefined) await writeStatus(state, updateStatus(state.d, status));
}

/** Counts only: nothing is said about progress (§13.2). */
async function statusOnly(state: State, split: ReplicaSetSplit): Promise<SyncResult> {
  const status = calculateStatus(state.d, split, state.session.clock.now());
  if (!sameStatus(state.d.status, status)) await writeStatus(state, updateStatus(state.d, status));
  return DONE;
}

async function syncRolloutStatus(state: State, split: ReplicaSetSplit): Promise<SyncResult> {
  const nowMs = state.session.clock.now();
  const status = rolloutStatus(state.d, split, nowMs);
  if (sameStatus(state.d.status, status)) return lookAgain(progressRecheckMs(state.d, status, nowMs));
  await writeStatus(state, updateStatus(state.d, status));
  return lookAgain(followUpMs(state.d, split.oldRSs, nowMs));
}

function lookAgain(afterMs: number | undefined): SyncResult {
  return afterMs === undefined ? DONE : { kind: "again", afterMs };
}

// ------------------------------------------------------------------------------------------------------- reads and writes

/** The Deployment's ReplicaSets as they are at this moment; what the cache had otherwise is written through. */
async function listReplicaSets(state: State): Promise<void> {
  const { session, d } = state;
  const list = await session.reader.list("replicasets", d.metadata.namespace, { labelSelector: formatSelector(state.selector) });
  const mine = list.items.filter((rs) => isControlledBy(rs.metadata, d.metadata.uid));
  const news = mine.filter(
    ({ metadata }) => !state.rss.some((rs) => rs.metadata.uid === metadata.uid && rs.metadata.resourceVersion === metadata.resourceVersion),
  );
  if (session.mode === "act") await session.save({ resource: "replicasets", objects: news });
  state.rss = mine.map((rs) => strip("replicasets", rs, session.digester));
  state.listed = true;
}

async function cachedPods(state: State, { oldRSs }: ReplicaSetSplit): Promise<readonly CachedPod[]> {
  if (oldRSs.length === 0) return [];
  const slices = await state.session.store.readSlices(
    oldRSs.map((rs) => ({ resource: "pods", owner: podOwnerId(rs.metadata.namespace, { kind: "ReplicaSet", ...rs.metadata }) })),
  );
  return slices.flat().flatMap((row) => (row.gone ? [] : [row.object as CachedPod])); // rows of pod slices
}

/** Old pods as they are at this moment. Those that live are written through: their end must be noticed (S14). */
async function livePods(state: State, split: ReplicaSetSplit): Promise<readonly CachedPod[]> {
  const { session, d } = state;
  const list = await session.reader.list("pods", d.metadata.namespace, { labelSelector: formatSelector(state.selector) });
  const pods = oldPods(
    split,
    list.items.map((pod) => strip("pods", pod, session.digester)),
  );
  const uids = new Set(pods.slice(0, PODS_WRITTEN_THROUGH_MAX).map(({ uid }) => uid));
  if (session.mode === "act")
    await session.save({ resource: "pods", objects: list.items.filter(({ metadata }) => uids.has(metadata.uid)) });
  return pods;
}

async function resize(state: State, { write, note }: Step<PatchReplicaSet>): Promise<void> {
  await patch(state, write);
  tell(state, note);
}

async function patch(state: State, write: PatchReplicaSet): Promise<CachedReplicaSet> {
  const { results, error } = await send(state, [write]);
  const [rs] = storedReplicaSet(results[0]);
  if (rs === undefined) throw error ?? new Error(`ReplicaSet ${write.name} was not written`);
  replace(state, rs);
  return rs;
}

async function writeStatus(state: State, write: UpdateStatus | undefined): Promise<void> {
  if (write === undefined) return;
  const { results, error } = await send(state, [write]);
  const [result] = results;
  if (result?.kind !== "stored" || result.resource !== "deployments") throw error ?? new Error("the status was not written");
  state.d = result.object;
}

/** For a status that only tells of something worse. */
async function ignoringErrors(state: State, write: UpdateStatus | undefined): Promise<void> {
  try {
    await writeStatus(state, write);
  } catch (error) {
    state.session.log.warn("status not written", { key: state.session.key, error: error instanceof Error ? error.name : String(error) });
  }
}

async function send(
  state: State,
  writes: readonly Write[],
  options?: PerformOptions,
): Promise<{ readonly results: readonly WriteResult[]; readonly error: Error | undefined }> {
  const { end, results, error } = await state.session.perform(writes, options);
  if (end !== undefined) throw new SyncEnded(end);
  return { results, error };
}

function storedReplicaSet(result: WriteResult | undefined): readonly CachedReplicaSet[] {
  return result?.kind === "stored" && result.resource === "replicasets" ? [result.object] : [];
}

function replace(state: State, rs: CachedReplicaSet): void {
  state.rss = state.rss.map((known) => (known.metadata.uid === rs.metadata.uid ? rs : known));
}

function newestOf(state: State, rs: CachedReplicaSet): CachedReplicaSet {
  return state.rss.find(({ metadata }) => metadata.uid === rs.metadata.uid) ?? rs;
}

function tell(state: State, note: EventNote | undefined): void {
  if (note !== undefined) state.events.push(state.session.emit(ownerOf(state.d), [note]));
}
