/**
 * The history of one object: the changes that could enqueue its controllers, the syncs with
 * their reasons and decisions, and the recorded outcome of each decision.
 */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { ReplayedSync } from "../engine/sync-log.ts";
import type { ObjectChange } from "./changes.ts";
import { Outcomes } from "./outcome.ts";
import type { Recorded } from "./outcome.ts";

export interface Subject {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
}

export type Entry =
  | { readonly kind: "change"; readonly atMs: number; readonly change: ObjectChange }
  | { readonly kind: "sync"; readonly atMs: number; readonly sync: ReplayedSync; readonly recorded: readonly Recorded[] };

/**
 * A Deployment's family is its ReplicaSets and their pods, that of a ReplicaSet or ReplicationController its pods. For a pod, the owner's
 * syncs count if they concern the pod.
 */
export function storyOf(subject: Subject, changes: readonly ObjectChange[], syncs: readonly ReplayedSync[]): readonly Entry[] {
  const family = familyOf(subject, changes);
  const related = changes.filter(({ uid }) => family.has(uid));
  const keys = new Set(related.map(({ resource, namespace, name }) => `${resource} ${namespace}/${name}`));
  const own = syncs.filter((sync) =>
    subject.resource === "pods" ? speaksOf(sync, subject) : keys.has(`${CONTROLLER_INFO[sync.controller].primary} ${sync.key}`),
  );
  const outcomes = new Outcomes(related);
  const entries: Entry[] = [
    ...related.map((change): Entry => ({ kind: "change", atMs: change.atMs, change })),
    ...own.map((sync): Entry => ({ kind: "sync", atMs: sync.atMs, sync, recorded: outcomes.of(sync) })),
  ];
  return entries.toSorted((a, b) => a.atMs - b.atMs);
}

function familyOf({ resource, namespace, name }: Subject, changes: readonly ObjectChange[]): ReadonlySet<string> {
  const family = new Set(
    changes
      .filter((change) => change.resource === resource && change.namespace === namespace && change.name === name)
      .map(({ uid }) => uid),
  );
  // Two rounds suffice to reach the pods of a Deployment.
  for (let round = 0; round < 2; round++)
    for (const { uid, owner } of changes) if (owner !== undefined && family.has(owner)) family.add(uid);
  return family;
}

/** Whether a sync made a decision about the pod, or gives a reason for making none. */
export function speaksOf({ key, lines }: ReplayedSync, { namespace, name }: Subject): boolean {
  return (
    key.startsWith(`${namespace}/`) &&
    lines.some(
      (line) =>
        (line.kind === "reason" && line.reason.about === name) ||
        (line.kind === "decided" && "name" in line.write && line.write.name === name),
    )
  );
}
