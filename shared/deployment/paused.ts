import type { CachedDeployment, DeploymentStatus } from "../api/cached.ts";
import { getCondition, setDeploymentCondition } from "../api/conditions.ts";
import { newCondition } from "./conditions.ts";
import { hasProgressDeadline } from "./progress.ts";

/**
 * The status with the pause or its end written down, or undefined if it is already (deployment §13.5). After a resume the
 * deadline counts from this condition. A rollout that has timed out keeps saying so.
 * Source: sync.go checkPausedConditions.
 */
export function pausedStatus(d: CachedDeployment, nowMs: number): DeploymentStatus | undefined {
  if (!hasProgressDeadline(d)) return undefined;
  const reason = getCondition(d.status.conditions, "Progressing")?.reason;
  if (reason === "ProgressDeadlineExceeded") return undefined;
  const paused = d.spec.paused === true;
  if (paused === (reason === "DeploymentPaused")) return undefined;
  const condition = paused
    ? newCondition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", nowMs)
    : newCondition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", nowMs);
  return { ...d.status, conditions: setDeploymentCondition(d.status.conditions, condition) };
}
