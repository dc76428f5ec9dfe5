/** A paused Deployment scales, and does not roll out. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { timeOf } from "./view.ts";
import type { View } from "./view.ts";

const RANK = 62;

function find({ owner }: View): readonly Finding[] {
  if (owner?.resource !== "deployments" || !owner.paused) return [];
  const progressing = owner.conditions.find(({ reason }) => reason === "DeploymentPaused");
  return [
    {
      ...{ kind: "paused", level: "cause", rank: RANK, confidence: "certain", since: timeOf(progressing?.lastUpdateTime) },
      ...{ objects: [objectOf(owner)], evidence: ["spec.paused is true"], facts: {} },
    },
  ];
}

export const paused: Rule = {
  find,
  words: {
    paused: (_, { namespace, object }) => ({
      cause: "the Deployment is paused: a change of its template is not rolled out",
      help: [`kubectl -n ${namespace} rollout resume ${object}`],
    }),
  },
};
