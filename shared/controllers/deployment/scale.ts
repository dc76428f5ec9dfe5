/** Applies `spec.replicas` outside a rollout step: while paused, or just after a change (deployment §10). */
import type { CachedDeployment, CachedReplicaSet } from "@deltaloop/kube/objects";
import { atoi } from "./atoi.ts";
import { annotatedReplicas, DESIRED_REPLICAS } from "./annotations.ts";
import type { Decision } from "../kit/reason.ts";
import { isRollingUpdate, surgeOf } from "./max-surge-max-unavailable.ts";
import { proportionalScaling } from "./proportional-scaling.ts";
import type { DeploymentReason } from "./reasons.ts";
import { activeReplicaSets, allReplicaSets, availableOf, type ReplicaSetSplit, replicasOf, totalReplicas } from "./replica-sets.ts";
import { type PatchReplicaSet, scaleReplicaSet, type NotedWrite } from "./writes.ts";

/**
 * Evidence that the Deployment was resized: a ReplicaSet with replicas records a desired size other than `spec.replicas`
 * (deployment §4.2). ReplicaSets at 0, or with a missing or unreadable annotation, are ignored.
 * Source: sync.go isScalingEvent.
 */
export function scalingEvent(d: CachedDeployment, rss: readonly CachedReplicaSet[]): Decision<boolean, DeploymentReason> {
  let remembered: number | undefined;
  for (const rs of activeReplicaSets(rss)) {
    const desired = annotatedReplicas(rs, DESIRED_REPLICAS);
    if (desired.kind !== "replicas") continue;
    remembered = desired.replicas;
    const facts = { replicas: replicasOf(d), remembered };
    if (desired.replicas !== replicasOf(d)) return { decided: true, why: [{ rule: "resized", about: rs.metadata.name, facts }] };
  }
  const why: readonly DeploymentReason[] =
    remembered === undefined ? [] : [{ rule: "not resized", facts: { replicas: replicasOf(d), remembered } }];
  return { decided: false, why };
}

/**
 * The size writes of the scale path, in order.
 *
 * 1. At most one ReplicaSet has replicas: it (or the new one, or the newest old one) gets them all. If its size is right,
 *    nothing is written, not even outdated annotations.
 * 2. The new one is saturated: the others are scaled to 0, youngest first. This happens if the new ReplicaSet was adopted with all its
 *    pods.
 * 3. RollingUpdate: proportionally, in forced mode, so that a retry after a partial failure recognises finished ReplicaSets by
 *    their refreshed annotations. If nothing is added: old ones first, youngest first. Recreate: nothing.
 *
 * Source: sync.go scale.
 */
export function scale(d: CachedDeployment, split: ReplicaSetSplit): Decision<readonly NotedWrite<PatchReplicaSet>[], DeploymentReason> {
  const youngestFirst = { ...split, oldRSs: split.oldRSs.toReversed() };
  const active = activeReplicaSets(allReplicaSets(youngestFirst));
  if (active.length <= 1) {
    const target = active[0] ?? split.newRS ?? split.oldRSs.at(-1);
    if (target === undefined) return { decided: [], why: [] };
    const facts = { size: replicasOf(target), replicas: replicasOf(d) };
    return {
      decided: steps([scaleReplicaSet(d, target, facts.replicas)]),
      why: [{ rule: "takes all", about: target.metadata.name, facts }],
    };
  }
  if (split.newRS !== undefined && isSaturated(d, split.newRS)) {
    const old = activeReplicaSets(youngestFirst.oldRSs);
    const facts = { replicas: replicasOf(d), available: availableOf(split.newRS) };
    return {
      decided: steps(old.map((rs) => scaleReplicaSet(d, rs, 0))),
      why: [
        { rule: "saturated", about: split.newRS.metadata.name, facts },
        ...old.map((rs): DeploymentReason => ({ rule: "goes to 0", about: rs.metadata.name, facts: { size: replicasOf(rs) } })),
      ],
    };
  }
  if (!isRollingUpdate(d)) return { decided: [], why: [{ rule: "sizes stay", facts: {} }] };
  const { decided: maxSurge, why } = surgeOf(d);
  const seen = { replicas: replicasOf(d), maxSurge, total: totalReplicas(active) };
  const { toAdd, proportions } = proportionalScaling(d, active);
  return {
    decided: steps(proportions.map(({ rs, replicas }) => scaleReplicaSet(d, rs, replicas, "forced"))),
    why: [
      ...why,
      ...proportions.map(({ rs, replicas }): DeploymentReason => ({
        rule: "its share",
        about: rs.metadata.name,
        facts: { ...seen, toAdd, size: replicasOf(rs), to: replicas },
      })),
    ],
  };
}

/**
 * Whether this ReplicaSet has all wanted pods, records that size, and all are available. Its annotation is parsed differently here, as
 * upstream's conversion does: a sign is accepted, and a 64-bit value is truncated to its lower 32 bits.
 *
 *     R 2: "2", "+2" and "4294967298" are 2
 *
 * Source: deployment/util IsSaturated.
 */
export function isSaturated(d: CachedDeployment, rs: CachedReplicaSet): boolean {
  const desired = atoi(rs.metadata.annotations?.[DESIRED_REPLICAS] ?? "");
  const wanted = replicasOf(d);
  return (
    typeof desired === "bigint" && Number(BigInt.asIntN(32, desired)) === wanted && replicasOf(rs) === wanted && availableOf(rs) === wanted
  );
}

function steps(candidates: readonly (NotedWrite<PatchReplicaSet> | undefined)[]): readonly NotedWrite<PatchReplicaSet>[] {
  return candidates.filter((step) => step !== undefined);
}
