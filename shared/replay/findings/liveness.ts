/** Containers that the kubelet restarts because a liveness or startup probe fails. */
import { backOffOf, merged, nextRestart } from "./finding.ts";
import type { Rule } from "./finding.ts";
import { containersOf, eventsOf, listed, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 38;
/** Age limit of restarts, shorter than the lifetime of Events (an hour). */
const RECENT_MS = 15 * 60_000;

function find(view: View): ReturnType<Rule["find"]> {
  const hits = containersOf(view.pods).flatMap(({ pod, spec, status }) => {
    const events = eventsOf(view, pod.uid, "Killing").filter(({ message, lastTimestamp }) => {
      const found = listed(message);
      const isRecent = view.nowMs - (timeOf(lastTimestamp) ?? 0) < RECENT_MS;
      return found?.class === "killed by probe" && found.slots["container"] === spec.name && isRecent;
    });
    const [last] = events;
    if (last === undefined || status.restartCount === 0) return [];
    const probe = listed(last.message)?.slots["probe"] ?? "liveness";
    return [
      {
        kind: "killed by probe",
        facts: { container: spec.name, probe },
        object: podName(pod),
        since: timeOf(events.at(-1)?.firstTimestamp),
        evidence: [],
        restarts: status.restartCount,
        backOff: backOffOf(status),
        events,
      },
    ];
  });
  return merged(hits, "cause", RANK);
}

export const liveness: Rule = {
  find,
  words: {
    "killed by probe": ({ container, probe, ...facts }, { namespace, first }) => ({
      cause: `the kubelet restarts container ${container}: its ${probe} probe fails`,
      next: nextRestart(facts),
      help: [
        `give the ${probe} probe more time, or find out why the container does not answer`,
        `kubectl -n ${namespace} logs ${first} -c ${container} --previous`,
      ],
    }),
  },
};
