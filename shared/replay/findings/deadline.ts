/** The progress deadline: an effect, never a cause. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 90;

function find({ owner }: View): readonly Finding[] {
  if (owner?.resource !== "deployments") return [];
  const progressing = owner.conditions.find(({ type }) => type === "Progressing");
  if (progressing?.reason !== "ProgressDeadlineExceeded") return [];
  return [
    {
      ...{ kind: "deadline exceeded", level: "effect", rank: RANK, confidence: "certain", since: timeOf(progressing.lastTransitionTime) },
      ...{ objects: [objectOf(owner)], evidence: ["Progressing False: ProgressDeadlineExceeded"] },
      facts: { seconds: String(owner.progressDeadlineSeconds) },
    },
  ];
}

export const deadline: Rule = {
  find,
  words: {
    "deadline exceeded": ({ seconds }, { namespace, object, canUndo }) => ({
      cause: `no progress for longer than progressDeadlineSeconds ${seconds}; the controller keeps trying`,
      help: [`kubectl -n ${namespace} ${canUndo ? "rollout undo" : "describe"} ${object}`],
    }),
  },
};
