import type { CachedDeployment, CachedReplicaSet } from "../api/cached.ts";
import { annotatedReplicas, DESIRED_REPLICAS } from "./annotations.ts";
import { activeReplicaSets, replicasOf } from "./replica-sets.ts";

/**
 * Whether the Deployment was resized since its ReplicaSets were: one that has replicas remembers another size than
 * `spec.replicas` (deployment §4.2). Those at 0 and those whose annotation is missing or unreadable say nothing.
 * Source: sync.go isScalingEvent.
 */
export function isScalingEvent(d: CachedDeployment, rss: readonly CachedReplicaSet[]): boolean {
  return activeReplicaSets(rss).some((rs) => {
    const desired = annotatedReplicas(rs, DESIRED_REPLICAS);
    return desired.kind === "replicas" && desired.replicas !== replicasOf(d);
  });
}
