/** Template hashes that collide: the controller then chooses another name for the new ReplicaSet. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "../incident/view.ts";

const RANK = 66;

function find({ owner, current }: View): readonly Finding[] {
  if (owner?.resource !== "deployments" || owner.status.collisions === 0 || current !== undefined) return [];
  return [
    {
      ...{ kind: "hash collision", level: "cause", rank: RANK, confidence: "likely", objects: [objectOf(owner)] },
      evidence: [`collisionCount ${owner.status.collisions}`],
      facts: { count: String(owner.status.collisions) },
    },
  ];
}

export const collision: Rule = {
  find,
  words: {
    "hash collision": ({ count }, { namespace, object }) => ({
      cause: `the name of the new ReplicaSet was taken ${count} times`,
      help: [`kubectl -n ${namespace} get replicasets`, `kubectl -n ${namespace} describe ${object}`],
    }),
  },
};
