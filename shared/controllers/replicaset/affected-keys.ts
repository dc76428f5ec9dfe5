/** The ReplicaSets (or ReplicationControllers) that a change affects, and their urgency (replicaset §3, informer §11.2 step 2). */
import { semanticEqual } from "@deltaloop/base";
import type { CachedMeta, CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { sameOwner, referencedKey, isTerminal, RESOURCES, controllerOf, objectKey } from "@deltaloop/kube/objects";
import { matches, selectorOf, selectsEverything } from "@deltaloop/kube/selectors";
import type { AffectedKeys, Lookups } from "../cache/affected-keys.ts";
import type { Effect } from "@deltaloop/store/ports";
import { REPLICA_SET } from "./kind.ts";
import type { ReplicaKind } from "./kind.ts";

export const replicaSetAffectedKeys: AffectedKeys = affectedKeysOf(REPLICA_SET);

/** The table for either kind: both have the same handlers. Source: pkg/controller/replicaset/replica_set.go addPod, updatePod, deletePod, addRS, updateRS, deleteRS. */
export function affectedKeysOf(kind: ReplicaKind): AffectedKeys {
  return (delta, lookups) => {
    if (delta.resource === "pods") return podEffects(kind, lookups, delta.old, delta.new);
    if (delta.resource !== kind.resource) return [];
    const [before, after] = [delta.old && kind.toReplicaSet(delta.old), delta.new && kind.toReplicaSet(delta.new)];
    const current = after ?? before;
    return current === undefined ? [] : [{ ...effectOn(kind, current.metadata, primaryUrgency(before, after)), self: true }];
  };
}

/**
 * Returns the urgency of the primary itself. A primary is always enqueued, and immediately unless only its status or similar fields
 * changed.
 */
function primaryUrgency(before: CachedReplicaSet | undefined, after: CachedReplicaSet | undefined): Effect["urgency"] {
  if (before === undefined || after === undefined) return "act";
  const [a, b] = [before.metadata, after.metadata];
  const isSame =
    a.generation === b.generation &&
    a.deletionTimestamp === b.deletionTimestamp &&
    semanticEqual(a.labels, b.labels) &&
    JSON.stringify(a.ownerReferences) === JSON.stringify(b.ownerReferences) &&
    JSON.stringify(before.spec.selector) === JSON.stringify(after.spec.selector);
  return isSame ? "status" : "act";
}

function podEffects(kind: ReplicaKind, lookups: Lookups, before: CachedPod | undefined, after: CachedPod | undefined): readonly Effect[] {
  if (after === undefined) return before ? owners(kind, [before], "act") : [];
  if (before === undefined) {
    if (after.owner) return owners(kind, [after], "act");
    return after.deletionTimestamp === undefined ? matching(kind, lookups, after) : [];
  }
  const ownerChanged = !sameOwner(before.owner, after.owner);
  const labelsChanged = !semanticEqual(before.labels, after.labels);
  const urgency =
    ownerChanged || labelsChanged || before.deletionTimestamp !== after.deletionTimestamp || isTerminal(before) !== isTerminal(after)
      ? "act"
      : "status";
  // Differs from upstream, which does not enqueue the old owner if the pod is being deleted: the owner's terminating replicas change.
  if (ownerChanged && before.owner) {
    const both = owners(kind, [before, after], "act");
    return after.owner || after.deletionTimestamp !== undefined ? both : distinct([...both, ...matching(kind, lookups, after)]);
  }
  if (after.owner) return owners(kind, [after], urgency);
  return (labelsChanged || ownerChanged) && after.deletionTimestamp === undefined ? matching(kind, lookups, after) : [];
}

/** The owners that the pods name as their controller, if the name is valid. The Store checks the uid when it enqueues the key. Source: resolveControllerRef. */
function owners(kind: ReplicaKind, pods: readonly CachedPod[], urgency: Effect["urgency"]): readonly Effect[] {
  return pods.flatMap(({ namespace, owner }) => {
    if (owner === undefined || owner.kind !== RESOURCES[kind.resource].kind) return [];
    const key = referencedKey(namespace, owner);
    return key === undefined ? [] : [{ controller: controllerOfKind(kind), key, uid: owner.uid, urgency }];
  });
}

/** Every primary whose selector matches an orphan; a pod without labels, and an empty or invalid selector, match nothing. Source: getPodReplicaSets. */
function matching(kind: ReplicaKind, lookups: Lookups, pod: CachedPod): readonly Effect[] {
  if (pod.labels === undefined || Object.keys(pod.labels).length === 0) return [];
  return lookups.primaries(kind.resource, pod.namespace).flatMap((primary) => {
    const selector = selectorOf(primary, () => kind.toReplicaSet(primary).spec.selector);
    if (selector.kind === "Invalid" || selectsEverything(selector) || !matches(selector, pod.labels)) return [];
    return [effectOn(kind, primary.metadata, "act")];
  });
}

function effectOn(
  kind: ReplicaKind,
  { namespace, name, uid }: Pick<CachedMeta, "namespace" | "name" | "uid">,
  urgency: Effect["urgency"],
): Effect {
  return { controller: controllerOfKind(kind), key: objectKey(namespace, name), uid, urgency };
}

function controllerOfKind(kind: ReplicaKind): Effect["controller"] {
  const controller = controllerOf(kind.resource);
  if (controller === undefined) throw new Error(`${kind.resource} has no controller`);
  return controller;
}

/** Keeps one effect per key; all of them have the same urgency. */
function distinct(effects: readonly Effect[]): readonly Effect[] {
  return [...new Map(effects.map((effect) => [effect.key, effect])).values()];
}
