import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import type { EventNote } from "../controller/writes.ts";
import { outdatedSizeAnnotations } from "./annotations.ts";
import { replicasOf } from "./replica-sets.ts";
import { type PatchReplicaSet, patchReplicaSet, type Step } from "./writes.ts";

/**
 * Gives a ReplicaSet a size and writes down for which Deployment size that was (deployment §10.2). Lazily, nothing happens
 * while the size fits; forced, outdated annotations alone are reason enough. Only a change of size is told as an Event and
 * counts as "scaled".
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
): Step<PatchReplicaSet> | undefined {
  const sizeChanges = replicasOf(rs) !== replicas;
  if (!sizeChanges && mode === "lazy") return undefined;
  const annotations = outdatedSizeAnnotations(d, rs);
  const annotationsChange = Object.keys(annotations).length > 0;
  if (!sizeChanges && !annotationsChange) return undefined;
  const write = patchReplicaSet(d, rs, { ...(sizeChanges ? { replicas } : {}), ...(annotationsChange ? { annotations } : {}) });
  return sizeChanges ? { write, note: scaledNote(rs.metadata.name, replicasOf(rs), replicas) } : { write };
}

/** `Scaled up replica set web-7f8fb from 0 to 3`. */
export function scaledNote(name: string, from: number, to: number): EventNote {
  const direction = from < to ? "up" : "down";
  return { type: "Normal", reason: "ScalingReplicaSet", message: `Scaled ${direction} replica set ${name} from ${from} to ${to}` };
}
