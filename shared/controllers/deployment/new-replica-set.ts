/** Creates the new ReplicaSet, and gives the Deployment the same revision (deployment §8). */
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus } from "@deltaloop/kube/objects";
import { getCondition, setDeploymentCondition } from "@deltaloop/kube/objects";
import { podTemplateHash } from "@deltaloop/kube/pod-template";
import { OWN_RELEASE } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";
import type { Decision } from "../kit/reason.ts";
import type { EventNote } from "../kit/writes.ts";
import { createdReplicaSetAnnotations, existingReplicaSetAnnotations } from "./annotations.ts";
import { type DeploymentCondition, newCondition } from "./conditions.ts";
import { hasProgressDeadline } from "./progress.ts";
import type { DeploymentReason } from "./reasons.ts";
import { newRSNewReplicas, saidOf } from "./rolling.ts";
import { splitReplicaSets } from "./replica-sets.ts";
import { LEAST_REVISION, nextRevision, parseRevision, REVISION } from "./revision.ts";
import type { CreateReplicaSet, PatchReplicaSet, NotedWrite, UpdateStatus } from "./writes.ts";
import { ownerOf, patchReplicaSet, scaledNote, templateOf, updateStatus } from "./writes.ts";

/** Names of objects are DNS subdomains. Source: sync.go generateReplicaSetName. */
const NAME_LENGTH_MAX = 253;

/**
 * The next write for an existing new ReplicaSet, at most one: its annotations and minReadySeconds, or, if they are up to date, the
 * Deployment's revision and, if it has none, its first Progressing condition.
 * Source: sync.go getNewReplicaSet.
 */
export function syncExistingReplicaSet(
  d: CachedDeployment,
  newRS: CachedReplicaSet,
  oldRSs: readonly CachedReplicaSet[],
  nowMs: number,
): Decision<PatchReplicaSet | UpdateStatus | undefined, DeploymentReason> {
  const newest = nextRevision(oldRSs);
  const { set, copied, changed } = existingReplicaSetAnnotations(d, newRS, newest);
  const about = newRS.metadata.name;
  const revision = newRS.metadata.annotations?.[REVISION];
  const minReadySeconds = d.spec.minReadySeconds ?? 0;
  const minReadyDiffers = (newRS.spec.minReadySeconds ?? 0) !== minReadySeconds;
  if (changed || minReadyDiffers) {
    const write = patchReplicaSet(d, newRS, {
      ...(minReadyDiffers ? { minReadySeconds } : {}),
      ...(Object.keys(set).length > 0 ? { annotations: set } : {}),
      ...(copied === undefined ? {} : { copied }),
    });
    const facts = { revision, newest: String(newest), minReadySeconds, its: newRS.spec.minReadySeconds ?? 0 };
    return { decided: write, why: [{ rule: "ReplicaSet behind", about, facts }] };
  }
  const firstSeen = hasProgressDeadline(d) && getCondition(d.status.conditions, "Progressing") === undefined;
  const condition = firstSeen
    ? newCondition("Progressing", "True", "FoundNewReplicaSet", `Found new replica set "${newRS.metadata.name}"`, nowMs)
    : undefined;
  const decided = revisionStatus(d, revision ?? "", condition);
  const facts = { revision: revision ?? "", its: d.metadata.annotations?.[REVISION] };
  return { decided, why: decided === undefined ? [] : [{ rule: "revision noted", about, facts }] };
}

/**
 * Adds the Deployment's annotations to another write to the new ReplicaSet. Needed only while its revision annotation cannot be parsed:
 * missing annotations then do not cause a write by themselves.
 */
export function withCopiedAnnotations(d: CachedDeployment, rss: readonly CachedReplicaSet[], write: PatchReplicaSet): PatchReplicaSet {
  const rs = rss.find(({ metadata }) => metadata.uid === write.uid);
  if (rs === undefined || !hasUnreadableRevision(rs) || splitReplicaSets(d, rss).newRS !== rs) return write;
  const { set, copied } = existingReplicaSetAnnotations(d, rs, 0n);
  const annotations = { ...set, ...write.annotations };
  return { ...write, ...(Object.keys(annotations).length > 0 && { annotations }), ...(copied && { copied }) };
}

/** An empty annotation counts as absent. */
function hasUnreadableRevision({ metadata: { annotations = {} } }: CachedReplicaSet): boolean {
  return parseRevision(annotations[REVISION] || "0") === undefined;
}

/** The Deployment's revision annotation, and a condition if needed; undefined if both are set. */
function revisionStatus(d: CachedDeployment, revision: string, condition: DeploymentCondition | undefined): UpdateStatus | undefined {
  const annotations = d.metadata.annotations?.[REVISION] === revision ? undefined : { [REVISION]: revision };
  if (condition === undefined) return annotations && updateStatus(d, d.status, annotations);
  const status = withCondition(d, condition);
  return annotations === undefined && status.conditions === d.status.conditions ? undefined : updateStatus(d, status, annotations);
}

/**
 * The ReplicaSet to create: named after the hash, with as many replicas as the surge allows in addition to the old ReplicaSets.
 *
 *     web, hash 7f8fbb96d, R 3, surge 1, old 3 → web-7f8fbb96d with min(4 − 3, 3) = 1 replica, revision max(old) + 1
 *
 * @throws {Error} if the size cannot be computed (§11.2), or the cached Deployment has no hash state of the cluster's release, which is a bug.
 * Source: sync.go getNewReplicaSet.
 */
export function newReplicaSet(
  d: CachedDeployment,
  oldRSs: readonly CachedReplicaSet[],
  release: Release = OWN_RELEASE,
): Decision<CreateReplicaSet, DeploymentReason> {
  const hashState = d.spec.template.hashStates?.[release.name];
  if (hashState === undefined)
    throw new Error(`deployment ${d.metadata.namespace}/${d.metadata.name} is cached without its hash state of Kubernetes ${release.name}`);
  const hash = podTemplateHash(hashState, d.status.collisionCount);
  const { set, copied } = createdReplicaSetAnnotations(d, nextRevision(oldRSs));
  const { decided: replicas, why } = newRSNewReplicas(d, 0, oldRSs);
  const name = replicaSetName(d.metadata.name, hash, release.behaviour.cutsReplicaSetNames);
  const write: CreateReplicaSet = {
    kind: "CreateReplicaSet",
    owner: ownerOf(d),
    name,
    hash,
    template: templateOf(d),
    replicas,
    annotations: set,
    ...(copied === undefined ? {} : { copied }),
  };
  return { decided: write, why: saidOf(name, why) };
}

/**
 * `<deployment>-<hash>`. `isCut` to 253 characters: the Deployment's part is truncated, unless nothing of it would remain.
 *
 *     250 × "b", hash of 10: 253 − 1 − 10 = 242 characters of the name remain
 *
 * Source: sync.go generateReplicaSetName.
 */
export function replicaSetName(deployment: string, hash: string, isCut = true): string {
  const lengthMax = NAME_LENGTH_MAX - 1 - hash.length;
  return `${isCut && lengthMax > 0 ? deployment.slice(0, lengthMax) : deployment}-${hash}`;
}

/** The Event of a created ReplicaSet; undefined if it has no replicas. */
export function createdNote({ name, replicas }: CreateReplicaSet): EventNote | undefined {
  return replicas > 0 ? scaledNote(name, 0, replicas) : undefined;
}

/** Status after the create: the Deployment takes the revision, and progress tracking starts. */
export function createdStatus(d: CachedDeployment, write: CreateReplicaSet, nowMs: number): UpdateStatus | undefined {
  const condition = hasProgressDeadline(d)
    ? newCondition("Progressing", "True", "NewReplicaSetCreated", `Created new replica set "${write.name}"`, nowMs)
    : undefined;
  return revisionStatus(d, revisionGiven(write), condition);
}

/** The status if an earlier create already created this ReplicaSet: only the revision is set. */
export function foundStatus(d: CachedDeployment, write: CreateReplicaSet): UpdateStatus | undefined {
  return revisionStatus(d, revisionGiven(write), undefined);
}

/** The revision with which the ReplicaSet is created; the ReplicaSet gets the annotation only for a revision above 0. */
function revisionGiven({ annotations }: CreateReplicaSet): string {
  return annotations[REVISION] ?? String(LEAST_REVISION);
}

/** Status after a name collision: the next attempt hashes with this count, which never decreases. */
export function collisionStatus(d: CachedDeployment): UpdateStatus {
  return updateStatus(d, { ...d.status, collisionCount: (d.status.collisionCount ?? 0) + 1 });
}

/**
 * The Event of a failed create and, if there is a progress deadline, the Progressing condition. Further failures with the same reason
 * do not rewrite the condition.
 */
export function createFailed(
  d: CachedDeployment,
  { name }: CreateReplicaSet,
  error: string,
  nowMs: number,
): Partial<NotedWrite<UpdateStatus>> & { readonly note: EventNote } {
  const message = `Failed to create new replica set "${name}": ${error}`;
  const note: EventNote = { type: "Warning", reason: "ReplicaSetCreateError", message };
  if (!hasProgressDeadline(d)) return { note };
  const status = withCondition(d, newCondition("Progressing", "False", "ReplicaSetCreateError", message, nowMs));
  return status.conditions === d.status.conditions ? { note } : { note, write: updateStatus(d, status) };
}

/** `d.status` with the condition set; with the same `conditions` array if `setDeploymentCondition` changes nothing. */
function withCondition(d: CachedDeployment, condition: DeploymentCondition): DeploymentStatus {
  return { ...d.status, conditions: setDeploymentCondition(d.status.conditions, condition) };
}
