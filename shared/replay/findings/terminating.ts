/**
 * An object marked for deletion, and pods that do not terminate: because of a finalizer, a lost node, or a process that ignores the grace
 * period.
 */
import type { SeenPod } from "../incident/seen.ts";
import { merged } from "./finding.ts";
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 28;
/** Allowance beyond the grace period for the work of the kubelet. */
const MARGIN_MS = 30_000;

function find(view: View): ReturnType<Rule["find"]> {
  return [...deletion(view), ...stuckPods(view)];
}

/** The finding about an owner ranks before all others, and the finding about a pod after the findings that explain the delay. */
const [OWNER_RANK, POD_RANK] = [1, 29];

function deletion({ owner, terminating }: View): readonly Finding[] {
  const subject = owner ?? terminating[0];
  if (subject?.deletionMs === undefined) return [];
  const graceMs = "graceSeconds" in subject ? (subject.graceSeconds ?? 0) * 1_000 : 0;
  const since = subject.deletionMs - graceMs;
  const finalizers = subject.finalizers.join(", ");
  return [
    {
      ...{ kind: "deleted", level: "cause", rank: owner === undefined ? POD_RANK : OWNER_RANK, confidence: "certain", since },
      objects: [objectOf(subject)],
      evidence: ["metadata.deletionTimestamp is set"],
      facts: { at: new Date(since).toISOString().replace(/\.\d+/, ""), ...(finalizers !== "" && { finalizers }) },
    },
  ];
}

function stuckPods(view: View): ReturnType<Rule["find"]> {
  const hits = view.terminating.flatMap((pod) => {
    // The deletionTimestamp is the time at which the grace period ends.
    const { deletionMs, graceSeconds } = pod;
    if (deletionMs === undefined || view.nowMs - deletionMs < MARGIN_MS) return [];
    const [kind, facts] = reasonOf(view, pod);
    const since = deletionMs - (graceSeconds ?? 0) * 1_000;
    return [
      {
        kind,
        facts,
        object: podName(pod),
        since,
        evidence: [`deletion requested at ${new Date(since).toISOString().slice(11, 19)}Z`],
      },
    ];
  });
  return merged(hits, "cause", RANK);
}

function reasonOf({ state }: View, pod: SeenPod): readonly [string, Readonly<Record<string, string>>] {
  const { nodeName } = pod.spec;
  const statuses = pod.status.containerStatuses;
  const hasEnded =
    pod.phase === "Succeeded" ||
    pod.phase === "Failed" ||
    (statuses.length > 0 && statuses.every(({ state: { running } }) => running === undefined));
  const [finalizer] = pod.finalizers;
  if (finalizer !== undefined && (hasEnded || nodeName === undefined)) return ["held by a finalizer", { finalizer }];
  const node = state.others.nodes.find(({ metadata }) => metadata.name === nodeName);
  const isKnown = !state.unknown.has("nodes");
  if (nodeName !== undefined && isKnown && node === undefined) return ["node gone", { node: nodeName }];
  if (nodeName !== undefined && node?.status.conditions.some(({ type, status }) => type === "Ready" && status !== "True") === true)
    return ["node gone", { node: nodeName }];
  return finalizer === undefined ? ["does not end", {}] : ["held by a finalizer", { finalizer }];
}

/** Source: apimachinery meta/v1 FinalizerDeleteDependents, FinalizerOrphanDependents. */
const GARBAGE_COLLECTOR = /^(?:foregroundDeletion|orphan)$/;

export const terminating: Rule = {
  find,
  words: {
    deleted: ({ at, finalizers }, { namespace, object }) => {
      if (finalizers === undefined) return { cause: `deleted at ${at}; it ends within its grace period` };
      const help = GARBAGE_COLLECTOR.test(finalizers)
        ? ["find dependents that are not deleted; the garbage collector waits for them", `kubectl -n ${namespace} get replicasets,pods`]
        : ["check the controller that owns the finalizer", `kubectl -n ${namespace} get ${object} -o yaml`];
      return { cause: `deleted at ${at}; held by finalizer ${finalizers}`, help };
    },
    "held by a finalizer": ({ finalizer }, { namespace, first }) => ({
      cause: `a pod is stuck in Terminating: no controller has removed finalizer ${finalizer}`,
      help: ["check the controller that owns the finalizer", `kubectl -n ${namespace} get ${first} -o yaml`],
    }),
    "node gone": ({ node }, { namespace, first }) => ({
      cause: `a pod is stuck in Terminating: its node ${node} is gone or does not report`,
      help: [`only if the node will not come back: kubectl -n ${namespace} delete ${first} --force`],
    }),
    "does not end": (_, { namespace, first }) => ({
      cause: "a pod is stuck in Terminating beyond its grace period: its process or preStop hook does not exit",
      help: [`kubectl -n ${namespace} describe ${first}`],
    }),
  },
};
