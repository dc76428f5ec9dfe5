/** The progress deadline, near or exceeded: an effect, never a cause. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { arePodsComplete, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 90;
/** The deadline is near when this part of it is left. */
const NEAR = 0.2;

/** When the Deployment reports ProgressDeadlineExceeded without further progress; undefined while no deadline runs. */
export function deadlineMsOf(view: View): number | undefined {
  if (view.owner === undefined || arePodsComplete(view)) return undefined;
  const { resource, conditions, paused, progressDeadlineSeconds } = view.owner;
  const progressing = conditions.find(({ type }) => type === "Progressing");
  const updatedMs = timeOf(progressing?.lastUpdateTime);
  const isCounting = progressing?.status === "True" && progressing.reason !== "NewReplicaSetAvailable" && !paused;
  return resource === "deployments" && isCounting && updatedMs !== undefined ? updatedMs + progressDeadlineSeconds * 1_000 : undefined;
}

function find(view: View): readonly Finding[] {
  const { owner, nowMs } = view;
  if (owner?.resource !== "deployments" || arePodsComplete(view)) return [];
  const deadlineMs = deadlineMsOf(view);
  const seconds = String(owner.progressDeadlineSeconds);
  if (deadlineMs !== undefined && deadlineMs - nowMs <= NEAR * owner.progressDeadlineSeconds * 1_000) {
    const left = Math.max(0, Math.round((deadlineMs - nowMs) / 1_000));
    return [
      {
        ...{ kind: "deadline near", level: "effect", rank: RANK, confidence: "certain", objects: [objectOf(owner)] },
        ...{ evidence: [`Progressing True, ${left} of ${seconds} s left`], facts: { seconds, left: String(left) } },
      },
    ];
  }
  const progressing = owner.conditions.find(({ type }) => type === "Progressing");
  if (progressing?.reason !== "ProgressDeadlineExceeded") return [];
  return [
    {
      ...{ kind: "deadline exceeded", level: "effect", rank: RANK, confidence: "certain", since: timeOf(progressing.lastTransitionTime) },
      ...{ objects: [objectOf(owner)], evidence: ["Progressing False: ProgressDeadlineExceeded"] },
      facts: { seconds },
    },
  ];
}

export const deadline: Rule = {
  find,
  words: {
    "deadline near": ({ seconds, left }) => ({
      cause: `${left} of ${seconds} s are left until ProgressDeadlineExceeded, unless the rollout progresses`,
    }),
    "deadline exceeded": ({ seconds }, { namespace, object, canUndo }) => ({
      cause: `no progress for longer than progressDeadlineSeconds ${seconds}; the controller keeps trying`,
      help: [`kubectl -n ${namespace} ${canUndo ? "rollout undo" : "describe"} ${object}`],
    }),
  },
};
