/** Pods that were evicted, preempted, or rejected by their node's kubelet. */
import { merged } from "./finding.ts";
import type { Hit, Rule, WordsOf } from "./finding.ts";
import { isUnschedulable, nextAttempt, retryFacts } from "./scheduling.ts";
import { defined } from "../evidence/fields.ts";
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
  const victims = Object.groupBy(preempted(view), ({ facts }) => (facts["priorityOf"] === undefined ? "byOthers" : "byOwn"));
  return [
    ...merged(victims.byOthers ?? [], "cause", PREEMPTED_RANK),
    ...merged(victims.byOwn ?? [], "cause", PREEMPTED_RANK + 1),
    ...merged(hits, "cause", RANK),
  ];
}

/** Findings for preempted pods, also for those that are deleted already, by their Events. */
function preempted(view: View): readonly Hit[] {
  const { state, current, subject, pods, terminating, nowMs } = view;
  const prefix = `${(current ?? subject).name}-`;
  const deadline = pods.some(isUnschedulable) ? retryFacts(view) : {};
  const classOf = (name: string): string | undefined => [...pods, ...terminating].find((pod) => pod.name === name)?.spec.priorityClassName;
  const told = state.others.events.flatMap((event): readonly Hit[] => {
    if (event.reason !== "Preempted") return []; // all Events are checked once per workload
    const { involvedObject: of, metadata, lastTimestamp } = event;
    const isOurs =
      of.kind === "Pod" && metadata.namespace === subject.namespace && (of.name === subject.name || of.name.startsWith(prefix));
    if (!isOurs) return [];
    const by = state.pods.find(({ uid }) => uid === listed(event.message)?.slots["uid"]);
    const hit = { object: podName(of), since: timeOf(lastTimestamp), evidence: [], events: [event] };
    if (current !== undefined && by?.ownerUid === current.uid) {
      const isDefault = current.template !== undefined && current.template.fields["priorityClassName"] === undefined;
      return [{ ...hit, kind: "preempted", facts: { ...deadline, priorityOf: isDefault ? "default" : "template" } }];
    }
    const preemptor = by && { by: podName(by), of: by.namespace, ...defined({ class: by.spec.priorityClassName, over: classOf(of.name) }) };
    return [{ ...hit, kind: "preempted", facts: { ...deadline, ...preemptor } }];
  });
  const marked = [...pods, ...terminating].flatMap((pod): readonly Hit[] => {
    const target = pod.status.conditions.find(({ type, reason }) => type === "DisruptionTarget" && reason === "PreemptionByScheduler");
    const object = podName(pod);
    if (target === undefined || told.some((each) => each.object === object)) return [];
    const since = timeOf(target.lastTransitionTime);
    return [{ kind: "preempted", facts: deadline, object, since, evidence: ["DisruptionTarget PreemptionByScheduler"] }];
  });
  return [...marked, ...told].filter(({ since }) => nowMs - (since ?? nowMs) <= RECENT_MS);
}

const PRIORITIES = "kubectl get priorityclasses";

const byOthers: WordsOf = (facts, { namespace, first, count }) => {
  const { by, of, class: higher, over } = facts;
  const victims = count === 1 ? `${first} was` : `${first} and ${count - 1} more were`;
  const preemptor = by === undefined ? "another pod" : of === namespace ? by : `${by} -n ${of}`;
  const classes = higher === undefined ? "" : ` (PriorityClass ${higher}${over === undefined ? "" : ` over ${over}`})`;
  return {
    cause: `${victims} preempted for ${preemptor}, which has a higher priority${classes}`,
    ...nextAttempt(facts),
    help: [
      PRIORITIES,
      by === undefined ? `kubectl -n ${namespace} get events --field-selector reason=Preempted` : `kubectl -n ${of} describe ${by}`,
      "add nodes",
    ],
  };
};

const byOwn: WordsOf = (facts, { namespace }) => ({
  cause: `pods of one ReplicaSet have different priorities: ${facts["priorityOf"] === "default" ? "the default" : "their"} PriorityClass has changed, so newer pods preempted older ones`,
  ...nextAttempt(facts),
  help: [PRIORITIES, `kubectl -n ${namespace} get pods -o custom-columns=NAME:.metadata.name,PRIORITY:.spec.priority`, "add nodes"],
});

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
    preempted: (facts, target) => (facts["priorityOf"] === undefined ? byOthers(facts, target) : byOwn(facts, target)),
    drained: () => ({ cause: "pods were evicted through the API, as a drain of a node does", help: ["kubectl get nodes"] }),
  },
};
