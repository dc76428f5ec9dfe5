/** Two writers of `spec.replicas`: a HorizontalPodAutoscaler and another field manager overwrite each other. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "../incident/view.ts";

const RANK = 60;
/** Time within which both writers must have changed the field. */
const WINDOW_MS = 30 * 60_000;
const HPA_MANAGER = "kube-controller-manager";
/** Field manager of `kubectl apply` without `--server-side`, and the annotation that it and similar clients compare with the manifest. */
const APPLY_MANAGER = "kubectl-client-side-apply";
const LAST_APPLIED = "annotation kubectl.kubernetes.io/last-applied-configuration";

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
  const appliers = owner.managers.filter(({ owns }) => owns.includes(LAST_APPLIED)).map(({ manager }) => manager);
  const isClientSide = sizes.some(({ manager = "" }) => manager === APPLY_MANAGER || appliers.includes(manager));
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
        ...(isClientSide && { apply: "client-side" }),
      },
    },
  ];
}

export const replicaWriters: Rule = {
  find,
  needsHistory: ["two writers of replicas"],
  words: {
    "two writers of replicas": ({ writers, hpa, apply }, { namespace, object }) => ({
      cause: `two writers change spec.replicas in turn: ${writers}${hpa === undefined ? "" : ` (HorizontalPodAutoscaler ${hpa})`}`,
      help: [
        ...(apply === undefined
          ? ["leave replicas out of the manifest that is applied"]
          : [
              `kubectl -n ${namespace} apply edit-last-applied ${object}`,
              "there remove spec.replicas; then leave it out of the manifest (without the first step, apply sets it to 1)",
            ]),
        `kubectl -n ${namespace} get ${object} --show-managed-fields -o yaml`,
      ],
    }),
  },
};
