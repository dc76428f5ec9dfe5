/** A Deployment's conditions (deployment §13.6); when they are rewritten is `setDeploymentCondition` of shared/api. */
import { formatTime } from "../api/time.ts";
import type { Condition } from "../api/wire.ts";

export type DeploymentConditionType = "Progressing" | "Available" | "ReplicaFailure";

export type DeploymentConditionReason =
  | "NewReplicaSetCreated"
  | "FoundNewReplicaSet"
  | "ReplicaSetUpdated"
  | "NewReplicaSetAvailable"
  | "ReplicaSetCreateError"
  | "ProgressDeadlineExceeded"
  | "DeploymentPaused"
  | "DeploymentResumed"
  | "MinimumReplicasAvailable"
  | "MinimumReplicasUnavailable";

/** A condition of one of our types; others on the object are carried along untouched. */
export type DeploymentCondition = Condition & { readonly type: DeploymentConditionType };

/** Source: deployment/util NewDeploymentCondition. */
export function newCondition(
  type: DeploymentConditionType,
  status: Condition["status"],
  reason: DeploymentConditionReason,
  message: string,
  nowMs: number,
): DeploymentCondition {
  const now = formatTime(nowMs);
  return { type, status, lastUpdateTime: now, lastTransitionTime: now, reason, message };
}
