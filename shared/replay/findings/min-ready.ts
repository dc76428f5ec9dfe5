/** Pods that are ready but not yet available. */
import type { Rule } from "./finding.ts";
import { merged } from "./finding.ts";
import { podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 75;

function find(view: View): ReturnType<Rule["find"]> {
  const { owner, pods, nowMs } = view;
  if (owner === undefined || owner.minReadySeconds === 0) return [];
  const seconds = owner.minReadySeconds;
  const hits = pods.flatMap((pod) => {
    if (!pod.isReady || pod.readySinceMs === undefined || nowMs >= pod.readySinceMs + seconds * 1_000) return [];
    return [
      {
        ...{ kind: "waits for minReadySeconds", object: podName(pod), since: pod.readySinceMs },
        ...{
          facts: { seconds: String(seconds) },
          evidence: [`ready for ${Math.floor((nowMs - pod.readySinceMs) / 1_000)} of ${seconds} s`],
        },
      },
    ];
  });
  return merged(hits, "wait", RANK);
}

export const minReady: Rule = {
  find,
  words: {
    "waits for minReadySeconds": ({ seconds }) => ({ cause: `ready pods count as available after minReadySeconds ${seconds}` }),
  },
};
