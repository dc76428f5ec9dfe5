/** Pods on a node whose kubelet does not report. */
import { merged } from "./finding.ts";
import type { Rule } from "./finding.ts";
import { eventsOf, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 15;

function find(view: View): ReturnType<Rule["find"]> {
  const nodes = new Map(view.state.others.nodes.map((node) => [node.metadata.name, node]));
  const hits = [...view.pods, ...view.oldPods, ...view.terminating].flatMap((pod) => {
    const name = pod.spec.nodeName;
    const ready = name === undefined ? undefined : nodes.get(name)?.status.conditions.find(({ type }) => type === "Ready");
    // Without permission to read Nodes, the pod's Event is the evidence.
    const events = eventsOf(view, pod.uid, "NodeNotReady");
    const isAway = ready === undefined ? events.length > 0 && !pod.isReady : ready.status !== "True";
    if (name === undefined || !isAway || pod.phase === "Failed" || pod.phase === "Succeeded") return [];
    return [
      {
        kind: ready?.status === "Unknown" ? "node silent" : "node not ready",
        facts: { node: name },
        object: podName(pod),
        since: timeOf(ready?.lastTransitionTime ?? events[0]?.firstTimestamp),
        evidence: [ready === undefined ? "Event NodeNotReady" : `Node ${name} Ready ${ready.status}: ${ready.reason ?? "no reason"}`],
      },
    ];
  });
  return merged(hits, "cause", RANK);
}

const describe = (node: string | undefined): readonly string[] => [`kubectl describe node ${node}`];

export const node: Rule = {
  find,
  words: {
    "node silent": ({ node: name }) => ({
      cause: `node ${name} does not report: its kubelet, its network or the machine is down`,
      help: describe(name),
    }),
    "node not ready": ({ node: name }) => ({ cause: `node ${name} is not ready`, help: describe(name) }),
  },
};
