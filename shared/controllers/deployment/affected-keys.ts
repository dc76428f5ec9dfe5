/**
 * The Deployments that a change affects (deployment §2).
 *
 * | what changed | enqueued | urgency |
 * |---|---|---|
 * | a Deployment | itself, always | act if it is added or deleted, or if its generation, selector, labels, owner or deletionTimestamp changes; else status |
 * | a ReplicaSet with a controller | that Deployment; if the controller changes, the former one too | act if it is added or deleted, or if its labels, controller or deletionTimestamp changes; else status |
 * | a ReplicaSet without a controller | each Deployment that selects it, if it is added, loses its controller or changes labels | act |
 * | a pod leaves a ReplicaSet of a Recreate Deployment | that Deployment, even if other pods remain | status |
 * | a controller reference that names no valid object | nothing, and nothing is looked up | none |
 *
 * Source: deployment_controller.go addReplicaSet, updateReplicaSet, deleteReplicaSet, deletePod.
 */
import { semanticEqual } from "@deltaloop/base";
import type { CachedDeployment, CachedPod, CachedReplicaSet, Labels, ObjectMeta, OwnerReference } from "@deltaloop/kube/objects";
import { sameOwner, controllerRef, referencedKey, sameControllerRef, objectKey } from "@deltaloop/kube/objects";
import { matches, selectorOf, selectsEverything } from "@deltaloop/kube/selectors";
import type { AffectedKeys, Lookups } from "../cache/affected-keys.ts";
import type { Effect } from "@deltaloop/store/ports";

type Urgency = Effect["urgency"];

/** The Deployment controller's entry in the registry. */
export const deploymentAffectedKeys: AffectedKeys = (delta, lookups) => {
  switch (delta.resource) {
    case "deployments":
      return deploymentEffects(delta.old, delta.new);
    case "replicasets":
      return replicaSetEffects(delta.old, delta.new, lookups);
    case "pods":
      return delta.old === undefined ? [] : podEffects(delta.old, delta.new, lookups);
    default: // replicationcontrollers and views of other controllers affect no Deployment
      return [];
  }
};

/** Events of own status writes have urgency `status`, so they wait for the end of the run. */
function deploymentEffects(before: CachedDeployment | undefined, after: CachedDeployment | undefined): readonly Effect[] {
  const d = after ?? before;
  if (d === undefined) return [];
  const same = before !== undefined && after !== undefined && sameIdentity(before.metadata, after.metadata) && sameSelector(before, after);
  return [{ ...effect(d, same ? "status" : "act"), self: true }];
}

function sameIdentity(a: ObjectMeta, b: ObjectMeta): boolean {
  return (
    a.generation === b.generation &&
    a.deletionTimestamp === b.deletionTimestamp &&
    semanticEqual(a.labels, b.labels) &&
    sameControllerRef(controllerRef(a), controllerRef(b))
  );
}

function sameSelector(a: CachedDeployment, b: CachedDeployment): boolean {
  return JSON.stringify(a.spec.selector) === JSON.stringify(b.spec.selector);
}

function replicaSetEffects(before: CachedReplicaSet | undefined, after: CachedReplicaSet | undefined, lookups: Lookups): readonly Effect[] {
  if (after === undefined) return before === undefined ? [] : ownerEffects(before.metadata, "act");
  // An object that is first seen while it is being deleted counts as deleted, so that an orphan enqueues no Deployment that could adopt it.
  if (before === undefined && after.metadata.deletionTimestamp !== undefined) return ownerEffects(after.metadata, "act");
  if (before?.metadata.resourceVersion === after.metadata.resourceVersion) return [];

  const ref = controllerRef(after.metadata);
  const moved = before !== undefined && !sameControllerRef(controllerRef(before.metadata), ref);
  const relabelled = before !== undefined && !semanticEqual(before.metadata.labels, after.metadata.labels);
  const former = moved ? ownerEffects(before.metadata, "act") : [];
  if (ref === undefined) return before === undefined || moved || relabelled ? [...former, ...selectorEffects(after, lookups)] : [];

  const act = before === undefined || moved || relabelled || before.metadata.deletionTimestamp !== after.metadata.deletionTimestamp;
  return distinct([...former, ...ownerEffects(after.metadata, act ? "act" : "status")]);
}

/** The controller, if it is a Deployment; the Store checks its uid when it enqueues the key. */
function ownerEffects(metadata: ObjectMeta, urgency: Urgency): readonly Effect[] {
  const ref: OwnerReference | undefined = controllerRef(metadata);
  if (ref?.kind !== "Deployment") return [];
  const key = referencedKey(metadata.namespace ?? "", ref);
  return key === undefined ? [] : [{ controller: "deployment", key, uid: ref.uid, urgency }];
}

/**
 * Returns every Deployment that could adopt the ReplicaSet; only the first adoption succeeds. Source: deployment/util
 * GetDeploymentsForReplicaSet.
 */
function selectorEffects(rs: CachedReplicaSet, lookups: Lookups): readonly Effect[] {
  const labels = rs.metadata.labels;
  if (labels === undefined || Object.keys(labels).length === 0) return [];
  return lookups
    .primaries("deployments", rs.metadata.namespace)
    .filter((d) => selects(d, labels))
    .map((d) => effect(d, "act"));
}

/** Whether the Deployment selects these labels. An invalid or empty selector selects nothing here. */
function selects(d: CachedDeployment, labels: Labels): boolean {
  const selector = selectorOf(d, () => d.spec.selector);
  return selector.kind !== "Invalid" && !selectsEverything(selector) && matches(selector, labels);
}

/**
 * A Recreate Deployment waits for its old pods. Upstream enqueues it with each pod from 1.37 on, and in earlier releases with the last pod.
 * Here it is enqueued with each pod in every release, since a sync while others remain changes nothing. With urgency `status`, pods deleted
 * together cause one sync.
 */
function podEffects(before: CachedPod, after: CachedPod | undefined, lookups: Lookups): readonly Effect[] {
  const { owner, namespace } = before;
  if (owner?.kind !== "ReplicaSet" || (after?.owner && sameOwner(after.owner, owner))) return [];
  const key = referencedKey(namespace, owner);
  const rs = key === undefined ? undefined : lookups.get("replicasets", key);
  if (rs === undefined || rs.metadata.uid !== owner.uid) return [];
  const ref = controllerRef(rs.metadata);
  if (ref?.kind !== "Deployment") return [];
  const deployment = referencedKey(namespace, ref);
  const d = deployment === undefined ? undefined : lookups.get("deployments", deployment);
  if (d === undefined || d.metadata.uid !== ref.uid || d.spec.strategy?.type !== "Recreate") return [];
  return [effect(d, "status")];
}

function effect({ metadata }: CachedDeployment, urgency: Urgency): Effect {
  return { controller: "deployment", key: objectKey(metadata.namespace, metadata.name), uid: metadata.uid, urgency };
}

/** Removes duplicates: a reference that changed in a field other than its uid names one Deployment twice. */
function distinct(effects: readonly Effect[]): readonly Effect[] {
  return effects.filter(({ key, uid }, index) => effects.findIndex((other) => other.key === key && other.uid === uid) === index);
}
