/** Pods that the scheduler cannot place. */
import { deadlineMsOf } from "./deadline.ts";
import { merged } from "./finding.ts";
import type { Hit, Rule, Words } from "./finding.ts";
import type { SeenPod } from "../incident/seen.ts";
import { eventsOf, listed, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 20;

function find(view: View): ReturnType<Rule["find"]> {
  const hits = view.pods.flatMap((pod): readonly Hit[] => {
    const scheduled = pod.status.conditions.find(({ type }) => type === "PodScheduled");
    if (scheduled === undefined || !isUnschedulable(pod)) return [];
    const since = timeOf(scheduled.lastTransitionTime);
    const base = { object: podName(pod), since };
    if (scheduled.reason === "SchedulingGated")
      return [{ ...base, kind: "scheduling gated", facts: {}, evidence: ["PodScheduled False: SchedulingGated"] }];
    const events = eventsOf(view, pod.uid, "FailedScheduling");
    // The condition is complete; an Event may be truncated.
    const found = [scheduled.message, ...events.map(({ message }) => message)].flatMap((message) => listed(message) ?? [])[0];
    const isScaling = eventsOf(view, pod.uid, "TriggeredScaleUp").length > 0 && eventsOf(view, pod.uid, "NotTriggerScaleUp").length === 0;
    const reasons = found?.slots["reasons"];
    const taints = reasons?.includes(":taint") === true ? taintsOf(view) : "";
    return [
      {
        ...base,
        kind: isScaling ? "waits for a node" : "unschedulable",
        facts: {
          ...(reasons !== undefined && { reasons }),
          ...(found?.slots["nodes"] !== undefined && { nodes: found.slots["nodes"] }),
          ...(taints !== "" && { taints }),
          ...(!isScaling && retryFacts(view)),
        },
        evidence: [`PodScheduled False: ${scheduled.reason ?? "no reason"}`],
        events,
      },
    ];
  });
  const waits = hits.filter(({ kind }) => kind === "waits for a node");
  return [
    ...merged(
      hits.filter((each) => !waits.includes(each)),
      "cause",
      RANK,
    ),
    ...merged(waits, "wait", RANK),
  ];
}

export function isUnschedulable({ status, phase }: SeenPod): boolean {
  return phase === "Pending" && status.conditions.some((each) => each.type === "PodScheduled" && each.status === "False");
}

/** For `nextAttempt`; empty while the Deployment waits for progress until a deadline. */
export function retryFacts(view: View): Readonly<Record<string, string>> {
  if (deadlineMsOf(view) !== undefined) return {};
  const isPast = view.owner?.conditions.some(({ reason }) => reason === "ProgressDeadlineExceeded") === true;
  return { deadline: isPast ? "exceeded" : "none" };
}

/** What the scheduler does next. */
export function nextAttempt({ deadline, reasons = "" }: Readonly<Record<string, string>>): Pick<Words, "next"> {
  if (deadline === undefined) return {};
  const change = reasons.includes(":volume-") ? "the PersistentVolumeClaim changes" : "a pod ends or a node changes";
  return { next: `the scheduler tries again when ${change}${deadline === "none" ? "; no deadline" : ""}` };
}

/** The taints of the nodes, for schedulers whose messages do not have them. */
function taintsOf({ state }: View): string {
  const keys = state.others.nodes.flatMap(({ spec }) =>
    spec.taints.filter(({ effect }) => effect !== "PreferNoSchedule").map(({ key }) => key),
  );
  return [...new Set(keys)].toSorted().join(", ");
}

const REASONS: Readonly<Record<string, (name: string) => string>> = {
  insufficient: (name) => `not enough ${name}`,
  pods: () => "too many pods",
  taint: (name) => (name === "" ? "a taint that the pod does not tolerate" : `taint ${name}, which the pod does not tolerate`),
  cordon: () => "cordoned",
  ports: () => "host port in use",
  "node-affinity": () => "node selector or affinity does not match",
  "pod-affinity": () => "pod affinity does not match",
  "pod-anti-affinity": () => "pod anti-affinity",
  spread: () => "topology spread constraints",
  "volume-unbound": () => "PersistentVolumeClaim not bound",
  "volume-missing": (name) => `PersistentVolumeClaim ${name} does not exist`,
  volume: () => "volume cannot be used there",
};

/** Reasons that depend on the pod, not on a node. */
const OF_THE_POD = new Set(["volume-unbound", "volume-missing"]);

function reasonsText(reasons: string | undefined): string {
  const parts = (reasons ?? "").split(",").flatMap((each) => {
    const [count, reason = "", ...name] = each.split(":");
    const words = REASONS[reason]?.(name.join(":"));
    return words === undefined ? [] : [OF_THE_POD.has(reason) ? words : `${words} (${count})`];
  });
  return parts.length === 0 ? "" : `: ${parts.join("; ")}`;
}

export const scheduling: Rule = {
  find,
  words: {
    unschedulable: ({ nodes, reasons, taints, ...facts }, { namespace, first }) => ({
      ...nextAttempt({ ...facts, ...(reasons !== undefined && { reasons }) }),
      cause: `${nodes === undefined ? "no node" : `none of ${nodes} nodes`} takes the pod${reasonsText(reasons)}${taints === undefined ? "" : ` (taints on nodes: ${taints})`}`,
      help: [
        ...(reasons?.includes("insufficient") === true ? ["add nodes, or lower the requests of the pod"] : []),
        `kubectl -n ${namespace} describe ${first}`,
        "kubectl describe nodes",
      ],
    }),
    "waits for a node": ({ reasons }) => ({
      cause: `waiting for a node: the autoscaler adds one${reasonsText(reasons)}`,
      help: ["kubectl get nodes --watch"],
    }),
    "scheduling gated": () => ({
      cause: "the pod has scheduling gates, which another controller must remove",
      help: [],
    }),
  },
};
