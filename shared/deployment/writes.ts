/** The writes of this controller, made from cached objects. */
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus } from "../api/cached.ts";
import type { Labels } from "../api/wire.ts";
import type { EventNote, Owner, TemplateRef, Write } from "../controller/writes.ts";

export type PatchReplicaSet = Extract<Write, { kind: "PatchReplicaSet" }>;
export type CreateReplicaSet = Extract<Write, { kind: "CreateReplicaSet" }>;
export type DeleteReplicaSet = Extract<Write, { kind: "DeleteReplicaSet" }>;
export type UpdateStatus = Extract<Write, { kind: "UpdateStatus" }>;

/** A write and the Event that tells of it once it has succeeded. */
export interface Step<W extends Write = Write> {
  readonly write: W;
  readonly note?: EventNote;
}

export function ownerOf(d: CachedDeployment): Owner {
  return { resource: "deployments", namespace: d.metadata.namespace, name: d.metadata.name, uid: d.metadata.uid };
}

export function templateOf(d: CachedDeployment): TemplateRef {
  return { generation: d.metadata.generation ?? 0, digest: d.spec.template.digest };
}

/** A patch of the keys that change; with none of them it must not be sent. */
export function patchReplicaSet(
  d: CachedDeployment,
  rs: CachedReplicaSet,
  changes: Pick<PatchReplicaSet, "replicas" | "minReadySeconds" | "annotations" | "copied">,
): PatchReplicaSet {
  const { name, uid, resourceVersion } = rs.metadata;
  return { kind: "PatchReplicaSet", owner: ownerOf(d), name, uid, resourceVersion, ...changes };
}

/**
 * A write of the whole status, every counter explicit. The resourceVersion is the one `d` was read at (or last answered
 * with), so a status decided on anything older than what is stored is refused.
 */
export function updateStatus(d: CachedDeployment, status: DeploymentStatus, annotations?: Labels): UpdateStatus {
  const absent = POINTER_COUNTERS.filter((counter) => status[counter] === undefined);
  const write: UpdateStatus = {
    kind: "UpdateStatus",
    owner: ownerOf(d),
    resourceVersion: d.metadata.resourceVersion,
    status: explicit(status),
    absent,
  };
  return annotations === undefined ? write : { ...write, annotations };
}

/** Counters for which absent and 0 differ; absent ones are sent as `null`, or a merge patch would leave what is stored. */
const POINTER_COUNTERS = ["terminatingReplicas", "collisionCount"] as const;

/**
 * The counters that the API server leaves out when they are 0, written out. A pointer field stays absent if it is. What a newer
 * API server has in a status beside these is not ours to write, and a merge patch leaves it as it is.
 */
export function explicit(status: DeploymentStatus): DeploymentStatus {
  const { terminatingReplicas, collisionCount } = status;
  return {
    observedGeneration: status.observedGeneration ?? 0,
    replicas: status.replicas ?? 0,
    updatedReplicas: status.updatedReplicas ?? 0,
    readyReplicas: status.readyReplicas ?? 0,
    availableReplicas: status.availableReplicas ?? 0,
    unavailableReplicas: status.unavailableReplicas ?? 0,
    ...(terminatingReplicas !== undefined && { terminatingReplicas }),
    ...(collisionCount !== undefined && { collisionCount }),
    conditions: status.conditions ?? [],
  };
}
