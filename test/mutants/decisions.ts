/** Plausible mistakes in the controllers' decisions: one list for all checks that must detect them. */
export interface Mutant {
  readonly what: string;
  /** Path below shared/. */
  readonly file: string;
  /** Text that occurs once in the file. */
  readonly from: string;
  readonly to: string;
}

export interface DecisionMutant extends Mutant {
  /** The section of docs/internals/spec that the mistake violates, which `explain` should cite. */
  readonly rule: string;
}

const ROLLING = "controllers/deployment/rolling.ts";
const STATUS = "controllers/deployment/status.ts";
const PROGRESS = "controllers/deployment/progress.ts";
const RS_STATUS = "controllers/replicaset/calculate-status.ts";
const VICTIMS = "controllers/replicaset/pods-to-delete.ts";

export const MUTANTS: readonly DecisionMutant[] = [
  { what: "maxSurge is one larger", rule: "deployment §11.2", file: ROLLING, from: "replicas + surge;", to: "replicas + surge + 1;" },
  { what: "maxSurge is ignored", rule: "deployment §11.2", file: ROLLING, from: "replicas + surge;", to: "replicas;" },
  {
    what: "the new ReplicaSet is scaled up beyond spec.replicas",
    rule: "deployment §11.2",
    file: ROLLING,
    from: "Math.min(cap - total, replicas - current)",
    to: "(cap - total)",
  },
  {
    what: "unavailable new replicas do not reduce the scale-down budget",
    rule: "deployment §11.3",
    file: ROLLING,
    from: "minAvailable - newUnavailable",
    to: "minAvailable",
  },
  {
    what: "old ReplicaSets are scaled down by one replica too many",
    rule: "deployment §11.3",
    file: ROLLING,
    from: "(seen.replicas - seen.maxUnavailable);",
    to: "(seen.replicas - seen.maxUnavailable - 1);",
  },
  {
    what: "unhealthy old replicas are not scaled down first",
    rule: "deployment §11.3",
    file: ROLLING,
    from: "if (removed >= budget) break;",
    to: "if (removed >= 0) break;",
  },
  {
    what: "a percentage for maxSurge is rounded down",
    rule: "deployment §9",
    file: "controllers/deployment/max-surge-max-unavailable.ts",
    from: "scaledValue(maxSurge ?? 0, replicas, Math.ceil)",
    to: "scaledValue(maxSurge ?? 0, replicas, Math.floor)",
  },
  {
    what: "a percentage for maxUnavailable is rounded up",
    rule: "deployment §9",
    file: "controllers/deployment/max-surge-max-unavailable.ts",
    from: "replicas, Math.floor)",
    to: "replicas, Math.ceil)",
  },
  {
    what: "maxSurge and maxUnavailable may both be 0",
    rule: "deployment §9",
    file: "controllers/deployment/max-surge-max-unavailable.ts",
    from: "{ surge: 0, unavailable: 1 }",
    to: "{ surge, unavailable }",
  },
  {
    what: "proportional shares are rounded down",
    rule: "deployment §10.1",
    file: "controllers/deployment/proportional-scaling.ts",
    from: "Number((2n * a + b) / (2n * b))",
    to: "Number(a / b)",
  },
  {
    what: "the rounding remainder is not distributed",
    rule: "deployment §10.1",
    file: "controllers/deployment/proportional-scaling.ts",
    from: "replicas + leftover)",
    to: "replicas)",
  },
  {
    what: "a scaling event is not detected",
    rule: "deployment §4.2",
    file: "controllers/deployment/scale.ts",
    from: "desired.replicas !== replicasOf(d)",
    to: "desired.replicas < 0",
  },
  {
    what: "Recreate keeps one old replica",
    rule: "deployment §12",
    file: "controllers/deployment/recreate.ts",
    from: "scaleReplicaSet(d, rs, 0)",
    to: "scaleReplicaSet(d, rs, 1)",
  },
  {
    what: "Recreate does not wait for terminating pods",
    rule: "deployment §12",
    file: "controllers/deployment/recreate.ts",
    from: "oldPods(split, pods).find(",
    to: "oldPods(split, []).find(",
  },
  {
    what: "an existing ReplicaSet gets a revision that is one too low",
    rule: "deployment §8.1",
    file: "controllers/deployment/new-replica-set.ts",
    from: "const newest = nextRevision(oldRSs)",
    to: "const newest = nextRevision(oldRSs) - 1n",
  },
  {
    what: "a created ReplicaSet gets a revision that is one too low",
    rule: "deployment §8.1",
    file: "controllers/deployment/new-replica-set.ts",
    from: "createdReplicaSetAnnotations(d, nextRevision(oldRSs))",
    to: "createdReplicaSetAnnotations(d, nextRevision(oldRSs) - 1n)",
  },
  {
    what: "the revision-history annotation is not written",
    rule: "deployment §8.1",
    file: "controllers/deployment/annotations.ts",
    from: "if (history !== undefined) set[REVISION_HISTORY] = history;",
    to: "",
  },
  {
    what: "the max-replicas annotation does not include maxSurge",
    rule: "deployment §8.1",
    file: "controllers/deployment/annotations.ts",
    from: "String(replicasOf(d) + maxSurge(d))",
    to: "String(replicasOf(d))",
  },
  {
    what: "one ReplicaSet more than revisionHistoryLimit is kept",
    rule: "deployment §14",
    file: "controllers/deployment/history.ts",
    from: "candidates.length - limit)",
    to: "candidates.length - limit - 1)",
  },
  {
    what: "updatedReplicas counts the replicas of all ReplicaSets",
    rule: "deployment §13.1",
    file: STATUS,
    from: "updatedReplicas: split.newRS?.status.replicas ?? 0",
    to: "updatedReplicas: sum(all, (rs) => rs.status.replicas ?? 0)",
  },
  {
    what: "unavailableReplicas is computed from status.replicas instead of spec.replicas",
    rule: "deployment §13.1",
    file: STATUS,
    from: "Math.max(0, totalReplicas(all) - available)",
    to: "Math.max(0, sum(all, (rs) => rs.status.replicas ?? 0) - available)",
  },
  {
    what: "the Available condition ignores maxUnavailable",
    rule: "deployment §13.1",
    file: STATUS,
    from: "available >= seen.replicas - seen.maxUnavailable",
    to: "available >= seen.replicas",
  },
  {
    what: "terminatingReplicas is not reported",
    rule: "deployment §13.1",
    file: STATUS,
    from: "(terminating === undefined ? {} :",
    to: "(true ? {} :",
  },
  {
    what: "a Deployment is complete while old replicas exist",
    rule: "deployment §13.3",
    file: PROGRESS,
    from: "(status.replicas ?? 0) === wanted &&",
    to: "true &&",
  },
  {
    what: "the Progressing condition has the reason ReplicaSetCreated instead of ReplicaSetUpdated",
    rule: "deployment §13.3",
    file: PROGRESS,
    from: '"ReplicaSetUpdated", `',
    to: '"ReplicaSetCreated", `',
  },
  {
    what: "progress does not update lastUpdateTime of the Progressing condition",
    rule: "deployment §13.3",
    file: PROGRESS,
    from: "if (settled) return",
    to: "if (settled || nowMs > 0) return",
  },
  {
    what: "the Progressing condition does not report the pause",
    rule: "deployment §13.5",
    file: PROGRESS,
    from: "if (paused === (reason",
    to: "if (paused || !(reason",
  },
  {
    what: "the ReplicaFailure condition is not copied to the Deployment",
    rule: "deployment §13.3",
    file: PROGRESS,
    from: "if (failure === undefined) continue;",
    to: "if (failure !== null) continue;",
  },
  {
    what: "fullyLabeledReplicas exceeds the number of pods",
    rule: "replicaset §10.1",
    file: RS_STATUS,
    from: "claimed.filter((pod) => hasLabels(pod, templateLabels)).length",
    to: "claimed.length + 1",
  },
  {
    what: "readyReplicas counts running pods",
    rule: "replicaset §10.1",
    file: RS_STATUS,
    from: "claimed.filter(isReady).length",
    to: 'claimed.filter(({ phase }) => phase === "Running").length',
  },
  {
    what: "minReadySeconds is ignored",
    rule: "replicaset §10.1",
    file: RS_STATUS,
    from: "rs.spec.minReadySeconds ?? 0, nowMs",
    to: "0, nowMs",
  },
  {
    what: "observedGeneration is not updated",
    rule: "replicaset §10.1",
    file: RS_STATUS,
    from: "observedGeneration: rs.metadata.generation ?? 0",
    to: "observedGeneration: rs.status.observedGeneration ?? 0",
  },
  { what: "the ReplicaFailure condition has no reason", rule: "replicaset §10.2", file: RS_STATUS, from: '"FailedCreate" :', to: '"" :' },
  {
    what: "one pod too few is created",
    rule: "replicaset §7.1",
    file: "controllers/replicaset/manage-replicas.ts",
    from: "Math.min(-surplus, burst)",
    to: "Math.min(-surplus - 1, burst)",
  },
  {
    what: "one pod too many is deleted",
    rule: "replicaset §7.2",
    file: "controllers/replicaset/manage-replicas.ts",
    from: "Math.min(surplus, burst);\n  const unsettled",
    to: "Math.min(surplus + 1, burst);\n  const unsettled",
  },
  {
    what: "ready pods are deleted first",
    rule: "replicaset §8.2",
    file: VICTIMS,
    from: "Number(isReady(a)) - Number(isReady(b))",
    to: "Number(isReady(b)) - Number(isReady(a))",
  },
  {
    what: "the pods that have been ready longest are deleted first",
    rule: "replicaset §8.2",
    file: VICTIMS,
    from: "ageBucket(nowMs - msA) - ageBucket(nowMs - msB)",
    to: "ageBucket(nowMs - msB) - ageBucket(nowMs - msA)",
  },
  {
    what: "pods on the nodes with the fewest related pods are deleted first",
    rule: "replicaset §8.2",
    file: VICTIMS,
    from: "rankB - rankA",
    to: "rankA - rankB",
  },
];
