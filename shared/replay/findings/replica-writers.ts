/** Two writers of `spec.replicas`: a HorizontalPodAutoscaler and another field manager overwrite each other. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "../incident/view.ts";

const RANK = 60;
/** Time within which both writers must have changed the field. */
const WINDOW_MS = 30 * 60_000;
const HPA_MANAGER = "kube-controller-manager";

function find({ state, owner, nowMs }: View): readonly Finding[] {
  if (owner === undefined) return [];
  const sizes = state.changesOf(owner.uid).filter(({ field, atMs = 0 }) => field === "replicas" && atMs > nowMs - WINDOW_MS);
  const alternates = sizes.length > 2 && sizes.slice(2).some(({ to }, index) => to === sizes[index]?.to);
  const hpa = state.others.horizontalpodautoscalers.find(
    ({ metadata, spec: { scaleTargetRef } }) => metadata.namespace === owner.namespace && scaleTargetRef.name === owner.name,
  );
  const managers = [...new Set(sizes.flatMap(({ manager, user }) => user ?? manager ?? []))];
  const others = owner.managers
    .filter(({ owns, subresource }) => owns.includes("replicas") && subresource !== "scale")
    .map(({ manager }) => manager);
  const isTwo = alternates && (managers.length > 1 || hpa !== undefined);
  if (!isTwo) return [];
  return [
    {
      ...{ kind: "two writers of replicas", level: "cause", rank: RANK, confidence: managers.length > 1 ? "certain" : "likely" },
      since: sizes[0]?.atMs,
      objects: [objectOf(owner)],
      evidence: [`replicas ${[sizes[0]?.from, ...sizes.map(({ to }) => to)].join(" → ")}`],
      facts: {
        writers: (managers.length > 1 ? managers : [...new Set([HPA_MANAGER, ...others])]).join(" and "),
        ...(hpa && { hpa: hpa.metadata.name }),
      },
    },
  ];
}

export const replicaWriters: Rule = {
  find,
  needsHistory: ["two writers of replicas"],
  words: {
    "two writers of replicas": ({ writers, hpa }, { namespace, object }) => ({
      cause: `two writers change spec.replicas in turn: ${writers}${hpa === undefined ? "" : ` (HorizontalPodAutoscaler ${hpa})`}`,
      help: ["leave replicas out of the manifest that is applied", `kubectl -n ${namespace} get ${object} --show-managed-fields -o yaml`],
    }),
  },
};
