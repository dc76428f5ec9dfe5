/** Pods that were evicted, preempted, or rejected by their node's kubelet. */
import { merged } from "./finding.ts";
import type { Hit, Rule } from "./finding.ts";
import { listed, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 55;
/** Rank that precedes the finding that the replacements of the preempted pods cannot be scheduled. */
const PREEMPTED_RANK = 18;
const RECENT_MS = 30 * 60_000;
const REJECTED = /^(?:OutOf[a-z]+|NodeAffinity|UnexpectedAdmissionError|NodeShutdown|Terminated|Shutdown)$/;

function find(view: View): ReturnType<Rule["find"]> {
  const hits = [...view.pods, ...view.terminating].flatMap((pod): readonly Hit[] => {
    const { reason, phase, message } = { ...pod.status, phase: pod.phase };
    const target = pod.status.conditions.find(({ type, status }) => type === "DisruptionTarget" && status === "True");
    const since = timeOf(target?.lastTransitionTime) ?? pod.createdMs;
    const of = { object: podName(pod), since };
    if (view.nowMs - (since ?? 0) > RECENT_MS) return [];
    const slots = listed(message)?.slots ?? {};
    if (phase === "Failed" && reason === "Evicted")
      return [{ ...of, kind: "evicted", facts: { ...slots, node: pod.spec.nodeName ?? "unknown" }, evidence: ["pod Failed: Evicted"] }];
    if (phase === "Failed" && REJECTED.test(reason ?? ""))
      return [{ ...of, kind: "rejected by the node", facts: { ...slots, reason: reason ?? "" }, evidence: [`pod Failed: ${reason}`] }];
    if (target?.reason === "EvictionByEvictionAPI")
      return [{ ...of, kind: "drained", facts: {}, evidence: ["DisruptionTarget EvictionByEvictionAPI"] }];
    return [];
  });
  return [...merged(preempted(view), "cause", PREEMPTED_RANK), ...merged(hits, "cause", RANK)];
}

/** Findings for preempted pods, also for those that are deleted already, by their Events. */
function preempted({ state, current, subject, pods, terminating, nowMs }: View): readonly Hit[] {
  const prefix = `${(current ?? subject).name}-`;
  const marked = [...pods, ...terminating].flatMap((pod): readonly Hit[] => {
    const target = pod.status.conditions.find(({ type, reason }) => type === "DisruptionTarget" && reason === "PreemptionByScheduler");
    return target === undefined ? [] : [hitOf(podName(pod), timeOf(target.lastTransitionTime), "DisruptionTarget PreemptionByScheduler")];
  });
  const told = state.others.events.flatMap((event): readonly Hit[] => {
    if (event.reason !== "Preempted") return []; // all Events are checked once per workload
    const { involvedObject: of, metadata, lastTimestamp } = event;
    const isOurs =
      of.kind === "Pod" && metadata.namespace === subject.namespace && (of.name === subject.name || of.name.startsWith(prefix));
    if (!isOurs) return [];
    const by = state.pods.find(({ uid }) => uid === listed(event.message)?.slots["uid"]);
    const hit = { ...hitOf(podName(of), timeOf(lastTimestamp)), events: [event] };
    return [by === undefined ? hit : { ...hit, facts: { by: podName(by), of: by.namespace } }];
  });
  return [...marked, ...told].filter(({ since }) => nowMs - (since ?? nowMs) <= RECENT_MS);
}

function hitOf(object: string, since: number | undefined, ...evidence: readonly string[]): Hit {
  return { kind: "preempted", facts: {}, object, since, evidence };
}

export const eviction: Rule = {
  find,
  words: {
    evicted: ({ resource, volume, node }) => ({
      cause: `the kubelet of ${node} evicted pods${resource === undefined ? (volume === undefined ? "" : `: volume ${volume} is over its limit`) : `: the node is low on ${resource}`}`,
      help: [`kubectl describe node ${node}`],
    }),
    "rejected by the node": ({ reason, resource }) => ({
      cause: `nodes refuse pods that were bound to them (${reason}${resource === undefined ? "" : `, ${resource}`})`,
      help: ["kubectl describe nodes"],
    }),
    preempted: ({ by, of }, { namespace }) => ({
      cause: `the scheduler preempted pods for ${by === undefined ? "others" : `${by} -n ${of},`} of higher priority`,
      help: [
        by === undefined ? `kubectl -n ${namespace} get events --field-selector reason=Preempted` : `kubectl -n ${of} describe ${by}`,
        "add nodes, or raise the priority of the pods",
      ],
    }),
    drained: () => ({ cause: "pods were evicted through the API, as a drain of a node does", help: ["kubectl get nodes"] }),
  },
};
