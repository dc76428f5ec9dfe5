/** Another workload of the namespace that became unavailable shortly before a probe began to fail. It may be the reason, or a coincidence. */
import type { Finding, Rule } from "./finding.ts";
import { liveness } from "./liveness.ts";
import { objectOf } from "./quota.ts";
import { readiness } from "./readiness.ts";
import { timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 80;
/** Several periods of a usual probe. */
const WINDOW_MS = 2 * 60_000;
/** A Deployment is reported as unavailable from its creation, before it was ever available. */
const CREATION_MS = 5_000;

function find(view: View): readonly Finding[] {
  const failing = [...liveness.find(view), ...readiness.find(view)].toSorted((a, b) => (a.since ?? 0) - (b.since ?? 0))[0];
  const { since } = failing ?? {};
  if (since === undefined) return [];
  const lost = view.state.owners.flatMap((owner) => {
    const available = owner.conditions.find(({ type }) => type === "Available");
    const atMs = timeOf(available?.lastTransitionTime);
    const isOther = owner.uid !== view.owner?.uid && owner.namespace === view.subject.namespace;
    if (!isOther || available?.status !== "False" || atMs === undefined) return [];
    const wasAvailable = atMs > (owner.createdMs ?? 0) + CREATION_MS;
    return wasAvailable && atMs <= since && since - atMs <= WINDOW_MS ? [{ owner, atMs }] : [];
  });
  // The first one may be the reason of the others as well.
  return lost
    .toSorted((a, b) => a.atMs - b.atMs)
    .slice(0, 1)
    .map(({ owner, atMs }) => ({
      ...{ kind: "other workload unavailable", level: "effect", rank: RANK, confidence: "likely", since: atMs, objects: [] },
      evidence: ["Available False"],
      facts: {
        other: objectOf(owner),
        at: `${new Date(atMs).toISOString().slice(11, 19)}Z`,
        before: String(Math.round((since - atMs) / 1_000)),
      },
    }));
}

export const otherWorkload: Rule = {
  find,
  words: {
    "other workload unavailable": ({ other, at, before }, { namespace }) => ({
      cause: `${other} became unavailable at ${at}, ${before} s before; check whether the probe needs it`,
      help: [`kubectl -n ${namespace} describe ${other}`],
    }),
  },
};
