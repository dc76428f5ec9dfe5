/** A Deployment's conditions (deployment §13.6); when they are rewritten is `setDeploymentCondition` of shared/kube. */
import { formatTime } from "@deltaloop/kube/objects";
import type { Condition } from "@deltaloop/kube/objects";

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
