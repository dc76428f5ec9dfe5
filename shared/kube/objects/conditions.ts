/**
 * Status conditions. A list holds at most one condition of each type; conditions of other controllers are kept, in order. The functions
 * return the given list itself if nothing changes, so a caller may compare by identity.
 */
import type { Condition } from "./wire.ts";

/** Returns the condition of that type. Source: replica_set_utils.go GetCondition, deployment_util.go GetDeploymentCondition. */
export function getCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/**
 * Sets `condition` on a ReplicaSet or ReplicationController. A condition of the same type, status and reason stays, message and time
 * included; otherwise that type is removed and `condition` is appended.
 *
 * Source: pkg/controller/replicaset/replica_set_utils.go SetCondition.
 */
export function setReplicaSetCondition(conditions: readonly Condition[] | undefined, condition: Condition): readonly Condition[] {
  const current = getCondition(conditions, condition.type);
  if (conditions !== undefined && current !== undefined && saysTheSame(current, condition)) return conditions;
  return [...removeCondition(conditions, condition.type), condition];
}

/**
 * Sets `condition` on a Deployment: as `setReplicaSetCondition`, but lastTransitionTime stays while the status is the same.
 *
 * Source: pkg/controller/deployment/util/deployment_util.go SetDeploymentCondition.
 */
export function setDeploymentCondition(conditions: readonly Condition[] | undefined, condition: Condition): readonly Condition[] {
  const current = getCondition(conditions, condition.type);
  if (current?.status !== condition.status || current.lastTransitionTime === undefined)
    return setReplicaSetCondition(conditions, condition);
  return setReplicaSetCondition(conditions, { ...condition, lastTransitionTime: current.lastTransitionTime });
}

/** Returns the list without the condition of that type. Source: replica_set_utils.go RemoveCondition. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): readonly Condition[] {
  if (conditions === undefined) return [];
  const kept = conditions.filter((condition) => condition.type !== type);
  return kept.length === conditions.length ? conditions : kept;
}

/** An absent reason equals an empty one. */
function saysTheSame(a: Condition, b: Condition): boolean {
  return a.status === b.status && (a.reason ?? "") === (b.reason ?? "");
}
