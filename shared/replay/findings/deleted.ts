/** An object that is marked for deletion: it still exists because of its finalizers, or within its grace period. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "./view.ts";

/** Before all others for an owner; for a pod, after what holds it. */
const [RANK, POD_RANK] = [1, 29];

function find({ owner, terminating }: View): readonly Finding[] {
  const subject = owner ?? terminating[0];
  if (subject?.deletionMs === undefined) return [];
  const graceMs = "graceSeconds" in subject ? (subject.graceSeconds ?? 0) * 1_000 : 0;
  const since = subject.deletionMs - graceMs;
  const finalizers = subject.finalizers.join(", ");
  return [
    {
      ...{ kind: "deleted", level: "cause", rank: owner === undefined ? POD_RANK : RANK, confidence: "certain", since },
      objects: [objectOf(subject)],
      evidence: ["metadata.deletionTimestamp is set"],
      facts: { at: new Date(since).toISOString().replace(/\.\d+/, ""), ...(finalizers !== "" && { finalizers }) },
    },
  ];
}

/** Source: apimachinery meta/v1 FinalizerDeleteDependents, FinalizerOrphanDependents. */
const GARBAGE_COLLECTOR = /^(?:foregroundDeletion|orphan)$/;

export const deleted: Rule = {
  find,
  words: {
    deleted: ({ at, finalizers }, { namespace, object }) => {
      if (finalizers === undefined) return { cause: `deleted at ${at}; it ends within its grace period` };
      const help = GARBAGE_COLLECTOR.test(finalizers)
        ? ["find dependents that are not deleted; the garbage collector waits for them", `kubectl -n ${namespace} get replicasets,pods`]
        : ["check the controller that owns the finalizer", `kubectl -n ${namespace} get ${object} -o yaml`];
      return { cause: `deleted at ${at}; held by finalizer ${finalizers}`, help };
    },
  },
};
