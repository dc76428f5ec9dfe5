import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import { cleanupDeployment } from "./history.ts";
import { deploymentComplete, progressRecheckMs } from "./progress.ts";

/**
 * What a status write leaves to do, in milliseconds from now; undefined = nothing. Upstream's own status write comes back as
 * an update and starts another sync: there, a rollout that has just become complete is cleaned up (quirk Q12) and the
 * deadline is scheduled. Our own status writes wake nobody (informer §13 layer 2), so the sync asks for what is left itself.
 * `d` is the Deployment as that write was answered.
 */
export function followUpMs(d: CachedDeployment, oldRSs: readonly CachedReplicaSet[], nowMs: number): number | undefined {
  if (deploymentComplete(d, d.status) && cleanupDeployment(d, oldRSs).length > 0) return 0;
  return progressRecheckMs(d, d.status, nowMs);
}
