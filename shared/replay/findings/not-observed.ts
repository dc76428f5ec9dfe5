/** A controller that does not act, because it has not observed the last change of the spec. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "../incident/view.ts";

const RANK = 8;
const PATIENCE_MS = 30_000;

function find(view: View): readonly Finding[] {
  return [view.owner, view.current].flatMap((owner, index, all): readonly Finding[] => {
    if (owner === undefined || all.indexOf(owner) !== index) return [];
    const { generation, status } = owner;
    const { observedGeneration } = status;
    if (generation === undefined || observedGeneration === undefined || observedGeneration >= generation) return [];
    const changedMs = view.state.changesOf(owner.uid).at(-1)?.atMs ?? newestWriteOf(owner) ?? owner.createdMs;
    if (changedMs === undefined || view.nowMs - changedMs < PATIENCE_MS) return [];
    return [
      {
        ...{ kind: "controller does not act", level: "cause", rank: RANK, confidence: "certain", since: changedMs },
        ...{ objects: [objectOf(owner)], evidence: [`generation ${generation}, observedGeneration ${observedGeneration}`] },
        facts: { object: objectOf(owner) },
      },
    ];
  });
}

function newestWriteOf({ managers }: NonNullable<View["owner"]>): number | undefined {
  const times = managers.flatMap(({ time, subresource }) => (subresource === "status" || time === undefined ? [] : [Date.parse(time)]));
  return times.length > 0 ? Math.max(...times) : undefined;
}

export const notObserved: Rule = {
  find,
  words: {
    "controller does not act": ({ object }) => ({
      cause: `the controller has not observed the last change of ${object}`,
      help: ["kubectl -n kube-system get lease kube-controller-manager", "check the logs of the controller manager"],
    }),
  },
};
