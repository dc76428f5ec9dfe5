/** The history of the Deployment `web` of a namespace: moment by moment, or its current state. */
import type { Observed } from "../simulation/crashes/bounds.ts";
import { Bounds, wrongAtRest } from "../simulation/crashes/bounds.ts";
import type { Operation } from "../simulation/crashes/operations.ts";
import { sizeOf } from "../simulation/crashes/workloads.ts";
import { ROLLBACK_TO } from "../../shared/controllers/deployment/annotations.ts";
import type { Change } from "./history.ts";
import type { LiveObject } from "./scripted-api.ts";

/** An action or observation of the test, such as "settled". `revision` is etcd's revision just before it. */
export interface Mark {
  readonly after: bigint;
  readonly what: Operation | "rest";
}

/** The state of a namespace at one moment; terminating pods are separate. Undefined without a Deployment. */
export interface Standing extends Observed {
  readonly ending: readonly LiveObject[];
}

/** Replays the changes of one namespace. @returns the final state */
export function standingOf(
  changes: readonly Change[],
  see: (at: Standing, change: Change) => void = () => undefined,
): Standing | undefined {
  const objects = {
    Deployment: new Map<string, LiveObject>(),
    ReplicaSet: new Map<string, LiveObject>(),
    Pod: new Map<string, LiveObject>(),
  };
  let standing: Standing | undefined;
  for (const change of changes) {
    const object = change.object as unknown as LiveObject; // as the API server sent it
    if (change.type === "DELETED") objects[change.kind].delete(object.metadata.uid);
    else objects[change.kind].set(object.metadata.uid, object);
    const [deployment] = objects.Deployment.values();
    const [ending, pods] = [[], []] as [LiveObject[], LiveObject[]];
    for (const pod of objects.Pod.values()) (pod.metadata.deletionTimestamp === undefined ? pods : ending).push(pod);
    standing = deployment && { deployment, replicaSets: [...objects.ReplicaSet.values()], pods, ending };
    if (standing) see(standing, change);
  }
  return standing;
}

/** @returns the violations, at each moment */
export function brokenIn(changes: readonly Change[], marks: readonly Mark[]): readonly string[] {
  const broken: string[] = [];
  let [bounds, before, marked]: [Bounds | undefined, Standing | undefined, number] = [undefined, undefined, 0];
  standingOf(changes, (at, { kind, type, revision, object }) => {
    bounds ??= new Bounds(at.deployment);
    for (let mark = marks[marked]; mark !== undefined && mark.after < revision; mark = marks[++marked]) {
      if (mark.what !== "rest") bounds.acted(mark.what);
      else if (before) bounds.rested(before);
    }
    before = at;
    const what = bounds.broken(at);
    if (what !== undefined) broken.push(`${what} (${kind} ${object.metadata.name} ${type} at ${revision})`);
  });
  return broken;
}

/** @returns a description of the pending work, if a controller has not observed the latest state or has not finished */
export function unrestOf({ ending, ...at }: Standing): string | undefined {
  const { deployment, replicaSets, pods } = at;
  if (ending.length > 0) return `${ending.length} pods are ending`;
  for (const { metadata, status } of [deployment, ...replicaSets])
    if (status?.["observedGeneration"] !== metadata.generation)
      return `generation ${metadata.generation} of ${metadata.name} is not observed`;
  for (const rs of replicaSets)
    for (const count of ["replicas", "readyReplicas", "availableReplicas"])
      if (Number(rs.status?.[count] ?? 0) !== sizeOf(rs))
        return `${rs.metadata.name} of ${sizeOf(rs)} reports ${String(rs.status?.[count])} ${count}`;
  if (Number(deployment.status?.["availableReplicas"] ?? 0) !== pods.length) return `not all of ${pods.length} pods are reported`;
  if (deployment.spec?.["paused"] === true) return undefined;
  return deployment.metadata.annotations?.[ROLLBACK_TO] === undefined ? wrongAtRest(at) : "a rollback is asked for";
}
