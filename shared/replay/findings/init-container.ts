/** An init container that runs longer than in earlier pods, which delays the other containers. */
import { merged } from "./finding.ts";
import type { Rule } from "./finding.ts";
import { containersOf, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 45;
const PATIENCE_MS = 5 * 60_000;

function find(view: View): ReturnType<Rule["find"]> {
  const hits = containersOf(view.pods).flatMap(({ pod, kind, spec, status }) => {
    const since = timeOf(status.state.running?.startedAt);
    const slowestMs = Math.max(PATIENCE_MS, ...view.state.startsOf(pod.ownerUid ?? ""));
    if (kind !== "init container" || since === undefined || view.nowMs - since < slowestMs) return [];
    return [
      {
        ...{ kind: "init container runs", facts: { container: spec.name }, object: podName(pod), since },
        evidence: [`init container ${spec.name} is still running`],
      },
    ];
  });
  return merged(hits, "cause", RANK);
}

export const initContainer: Rule = {
  find,
  words: {
    "init container runs": ({ container }, { namespace, first }) => ({
      cause: `init container ${container} does not exit, so the other containers do not start`,
      help: [`kubectl -n ${namespace} logs ${first} -c ${container}`],
    }),
  },
};
