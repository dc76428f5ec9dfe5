/** Strategy Recreate: no new pod starts before all old pods are removed (deployment §12). */
import type { CachedPod } from "@deltaloop/kube/objects";
import { podOwnerId } from "@deltaloop/kube/objects";
import { matches } from "@deltaloop/kube/selectors";
import { strip } from "@deltaloop/kube/strip";
import type { SyncResult } from "../../kit/run.ts";
import { oldPods, oldPodsRunning, scaleDownOldReplicaSetsForRecreate } from "../recreate.ts";
import type { DeploymentReason } from "../reasons.ts";
import { activeReplicaSets, type ReplicaSetSplit, replicasOf, splitReplicaSets } from "../replica-sets.ts";
import { scaleReplicaSet } from "../writes.ts";
import { syncRevision, syncRevisionOrCreate } from "./sync-revision.ts";
import { finishRollout, syncRolloutStatus } from "./sync-status.ts";
import { because, beforeStatus, type Known, listReplicaSets, resize, type DeploymentSync } from "./step.ts";

/** Row limit of one write-through. One cached old pod is enough, because the end of this pod enqueues the key. */
const PODS_WRITTEN_THROUGH_MAX = 500;

/** Source: recreate.go rolloutRecreate. */
export async function rolloutRecreate(sync: DeploymentSync, known: Known): Promise<SyncResult> {
  const revised = await syncRevision(sync, known);
  if (revised.kind === "ended") return revised.result;
  const { split } = revised;
  const { decided: steps, why } = scaleDownOldReplicaSetsForRecreate(revised.known.d, split.oldRSs);
  because(sync, ...why);
  const scaled = await beforeStatus(sync, revised.known, resize(sync, revised.known, steps));
  if (scaled.kind === "ended") return scaled.result;
  if (steps.length > 0) return syncRolloutStatus(sync, scaled.known, split, scaled.failure);
  const cachedOne = oldPodsRunning(split, await cachedPods(sync, split));
  if (cachedOne !== undefined) return waitForOld(sync, scaled.known, split, cachedOne);
  const isGrown = split.newRS !== undefined && replicasOf(split.newRS) >= replicasOf(scaled.known.d);
  return isGrown ? growNewReplicaSet(sync, scaled.known, split) : startNewReplicaSet(sync, scaled.known);
}

/** Creates nothing until live lists show no old pods (I3). */
async function startNewReplicaSet(sync: DeploymentSync, known: Known): Promise<SyncResult> {
  const list = await listReplicaSets(sync, known);
  if (list.kind === "ended") return list.result;
  const listed = list.known;
  const split = splitReplicaSets(listed.d, listed.rss);
  if (activeReplicaSets(split.oldRSs).length > 0) return syncRolloutStatus(sync, listed, split);
  const liveOne = oldPodsRunning(split, await livePods(sync, listed, split));
  if (liveOne !== undefined) return waitForOld(sync, listed, split, liveOne);
  const revised = await syncRevisionOrCreate(sync, listed);
  return revised.kind === "ended" ? revised.result : growNewReplicaSet(sync, revised.known, revised.split);
}

function waitForOld(sync: DeploymentSync, known: Known, split: ReplicaSetSplit, lives: DeploymentReason): Promise<SyncResult> {
  because(sync, lives);
  return syncRolloutStatus(sync, known, split);
}

async function growNewReplicaSet(sync: DeploymentSync, known: Known, split: ReplicaSetSplit): Promise<SyncResult> {
  const { newRS } = split;
  const grow = newRS && scaleReplicaSet(known.d, newRS, replicasOf(known.d));
  if (newRS && grow)
    because(sync, { rule: "takes all", about: newRS.metadata.name, facts: { size: replicasOf(newRS), replicas: replicasOf(known.d) } });
  const grown = await beforeStatus(sync, known, resize(sync, known, grow ? [grow] : []));
  if (grown.kind === "ended") return grown.result;
  return grown.failure === undefined ? finishRollout(sync, grown.known, split) : syncRolloutStatus(sync, known, split, grown.failure);
}

async function cachedPods({ session, selector }: DeploymentSync, { oldRSs }: ReplicaSetSplit): Promise<readonly CachedPod[]> {
  if (oldRSs.length === 0) return [];
  const slices = await session.store.readSlices(
    oldRSs.map((rs) => ({ resource: "pods", owner: podOwnerId(rs.metadata.namespace, { kind: "ReplicaSet", ...rs.metadata }) })),
  );
  const pods = slices.flat().flatMap((row) => (row.gone ? [] : [row.object as CachedPod])); // pod slices hold only pods
  return session.release.behaviour.recreateAsksSelector ? pods.filter(({ labels }) => matches(selector, labels)) : pods;
}

/** Returns the old pods of a live list. Running pods are written through, so that the end of each enqueues the key (S14). */
async function livePods({ session, selector }: DeploymentSync, { d }: Known, split: ReplicaSetSplit): Promise<readonly CachedPod[]> {
  const live = await session.list("pods", d.metadata.namespace, { selector });
  const pods = oldPods(
    split,
    live.map((pod) => strip("pods", pod, session.digester)),
  );
  const uids = new Set(pods.slice(0, PODS_WRITTEN_THROUGH_MAX).map(({ uid }) => uid));
  if (session.mode === "act") await session.save({ resource: "pods", objects: live.filter(({ metadata }) => uids.has(metadata.uid)) });
  return pods;
}
