/** Requests that replace no pod: a rollback without a target, and changes outside the pod template. */
import type { View } from "../incident/view.ts";
import { eventsOf, isChanged, timeOf } from "../incident/view.ts";
import type { Finding, Hit, Rule } from "./finding.ts";
import { merged } from "./finding.ts";
import { objectOf } from "./quota.ts";

const RANK = 85;
const OUTSIDE_TEMPLATE = /^(?:minReadySeconds|progressDeadlineSeconds|strategy\..*)$/;
/** Kinds of findings by the reason of the Event. Source: pkg/controller/deployment/rollback.go. */
const ROLLBACKS = {
  DeploymentRollbackRevisionNotFound: "rollback target gone",
  DeploymentRollbackTemplateUnchanged: "rollback without effect",
} as const;

/** Rollbacks without effect within the last hour, if no rollout has begun since. */
function rollbacks(view: View, object: string): readonly Hit[] {
  const { owner, current } = view;
  return Object.entries(ROLLBACKS).flatMap(([reason, kind]) => {
    const events = eventsOf(view, owner?.uid ?? "", reason);
    const since = timeOf(events[0]?.lastTimestamp);
    const isAnswered = since === undefined || since < (current?.createdMs ?? 0);
    return events.length === 0 || isAnswered ? [] : [{ kind, facts: {}, object, since, evidence: [], events }];
  });
}

function find(view: View): readonly Finding[] {
  const { state, owner, current } = view;
  if (owner?.resource !== "deployments") return [];
  const object = objectOf(owner);
  const changes = state.changesOf(owner.uid);
  const since = Math.max(...changes.map(({ atMs = 0 }) => atMs));
  const fields = changes.filter(({ atMs = 0 }) => atMs === since).map(({ field }) => field);
  const isObserved = (owner.status.observedGeneration ?? 0) >= (owner.generation ?? 0) && since >= (current?.createdMs ?? 0);
  const isOutside = fields.length > 0 && fields.every((field) => OUTSIDE_TEMPLATE.test(field));
  const change = {
    ...{ kind: "change without effect", object, since, facts: { fields: fields.join(", ") } },
    evidence: ["the pod template is that of the current ReplicaSet"],
  };
  const hasNoEffect = isObserved && isOutside && !isChanged(view);
  return merged([...rollbacks(view, object), ...(hasNoEffect ? [change] : [])], "effect", RANK);
}

export const noRollout: Rule = {
  find,
  needsHistory: ["change without effect"],
  words: {
    "change without effect": ({ fields }) => ({
      cause: `the change of ${fields} starts no rollout: only a change of the pod template replaces pods`,
    }),
    "rollback target gone": (_, { namespace, object }) => ({
      cause: "a rollback was requested to a revision whose ReplicaSet no longer exists",
      help: [`kubectl -n ${namespace} rollout history ${object}`],
    }),
    "rollback without effect": () => ({ cause: "a rollback was requested to a revision with the same pod template" }),
  },
};
