/** A Deployment's conditions (deployment §13.6); `setDeploymentCondition` of shared/kube decides when to rewrite them. */
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

/** A condition of one of these types; other conditions on the object stay unchanged. */
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
