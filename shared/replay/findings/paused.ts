/** A paused Deployment: it scales but does not roll out, so the pause is the cause if a rollout is pending. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { isChanged, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 62;

/** Whether a rollout is pending. */
function isPending(view: View): boolean {
  const { owner } = view;
  if (owner === undefined) return false;
  const { generation = 0, replicas, status } = owner;
  const isRolledOut = status.updated >= replicas && status.replicas === status.updated;
  if (!isRolledOut || (status.observedGeneration ?? 0) < generation) return true;
  return isChanged(view);
}

function find(view: View): readonly Finding[] {
  const { owner } = view;
  if (owner?.resource !== "deployments" || !owner.paused) return [];
  const progressing = owner.conditions.find(({ reason }) => reason === "DeploymentPaused");
  return [
    {
      ...{
        kind: "paused",
        level: isPending(view) ? "cause" : "effect",
        rank: RANK,
        confidence: "certain",
        since: timeOf(progressing?.lastUpdateTime),
      },
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
