/** The writes of this controller, made from cached objects. */
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus, Labels } from "@deltaloop/kube/objects";
import type { EventNote, Owner, TemplateRef, Write } from "../kit/writes.ts";
import { outdatedSizeAnnotations } from "./annotations.ts";
import { replicasOf } from "./replica-sets.ts";

export type PatchReplicaSet = Extract<Write, { kind: "PatchReplicaSet" }>;
export type CreateReplicaSet = Extract<Write, { kind: "CreateReplicaSet" }>;
export type DeleteReplicaSet = Extract<Write, { kind: "DeleteReplicaSet" }>;
export type RollBack = Extract<Write, { kind: "RollBack" }>;
export type UpdateStatus = Extract<Write, { kind: "UpdateStatus" }>;

/** A write, and the Event to emit after the write has succeeded. */
export interface NotedWrite<W extends Write = Write> {
  readonly write: W;
  readonly note?: EventNote;
}

export function ownerOf(d: CachedDeployment): Owner {
  return { resource: "deployments", namespace: d.metadata.namespace, name: d.metadata.name, uid: d.metadata.uid };
}

export function templateOf(d: CachedDeployment): TemplateRef {
  return { generation: d.metadata.generation ?? 0, digest: d.spec.template.digest };
}

/** A patch of the changed keys. The caller must not send an empty patch. */
export function patchReplicaSet(
  d: CachedDeployment,
  rs: CachedReplicaSet,
  changes: Pick<PatchReplicaSet, "replicas" | "minReadySeconds" | "annotations" | "copied">,
): PatchReplicaSet {
  const { name, uid, resourceVersion } = rs.metadata;
  return { kind: "PatchReplicaSet", owner: ownerOf(d), name, uid, resourceVersion, ...changes };
}

/**
 * Sets the size of a ReplicaSet and records the Deployment size it is for (deployment §10.2). Lazy mode writes only if the size is wrong;
 * forced mode also if annotations are outdated. Only a change of size emits an Event and counts as "scaled".
 *
 *     size 3 → 4, R 10, surge 2: replicas 4, desired-replicas "10", max-replicas "12" (those that differ)
 *
 * Source: sync.go scaleReplicaSet.
 */
export function scaleReplicaSet(
  d: CachedDeployment,
  rs: CachedReplicaSet,
  replicas: number,
  mode: "lazy" | "forced" = "lazy",
): NotedWrite<PatchReplicaSet> | undefined {
  const sizeChanges = replicasOf(rs) !== replicas;
  if (!sizeChanges && mode === "lazy") return undefined;
  const annotations = outdatedSizeAnnotations(d, rs);
  const annotationsChange = Object.keys(annotations).length > 0;
  if (!sizeChanges && !annotationsChange) return undefined;
  const write = patchReplicaSet(d, rs, { ...(sizeChanges ? { replicas } : {}), ...(annotationsChange ? { annotations } : {}) });
  return sizeChanges ? { write, note: scaledNote(rs.metadata.name, replicasOf(rs), replicas) } : { write };
}

/** The Event of a size change: `Scaled up replica set web-7f8fb from 0 to 3`. */
export function scaledNote(name: string, from: number, to: number): EventNote {
  const direction = from < to ? "up" : "down";
  return { type: "Normal", reason: "ScalingReplicaSet", message: `Scaled ${direction} replica set ${name} from ${from} to ${to}` };
}

/**
 * Writes the whole status, every counter explicit, at the resourceVersion of `d`. The API server rejects a status computed from an older
 * version.
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

/** Counters that the API server omits if they are 0. */
const PLAIN_COUNTERS = [
  "observedGeneration",
  "replicas",
  "updatedReplicas",
  "readyReplicas",
  "availableReplicas",
  "unavailableReplicas",
] as const;
/**
 * Counters for which 0 and absent differ. An absent counter is sent as `null`, because a merge patch would otherwise keep the stored value.
 */
const POINTER_COUNTERS = ["terminatingReplicas", "collisionCount"] as const;
export const COUNTERS = [...PLAIN_COUNTERS, ...POINTER_COUNTERS] as const;

/** Sets missing plain counters to 0. Other status fields belong to a newer API server; a merge patch keeps them. */
export function explicit(status: DeploymentStatus): DeploymentStatus {
  const pointers = POINTER_COUNTERS.filter((counter) => status[counter] !== undefined);
  const counters = [...PLAIN_COUNTERS, ...pointers].map((counter) => [counter, status[counter] ?? 0] as const);
  return { ...Object.fromEntries(counters), conditions: status.conditions ?? [] };
}
