/** A rolling update that may neither create nor delete a pod until a new pod becomes available. */
import { resolveFenceposts } from "@deltaloop/controllers/deployment";
import type { Finding, Rule } from "./finding.ts";
import { podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 76;

function find(view: View): readonly Finding[] {
  const { owner, current, olds, pods, oldPods } = view;
  if (owner?.resource !== "deployments" || current === undefined || owner.strategy.type !== "RollingUpdate") return [];
  const oldReplicas = olds.reduce((sum, { replicas }) => sum + replicas, 0);
  const total = current.replicas + oldReplicas;
  const { strategy } = owner;
  const { surge: maxSurge, unavailable: maxUnavailable } = resolveFenceposts(strategy.maxSurge, strategy.maxUnavailable, owner.replicas);
  const unavailable = current.replicas - current.status.available;
  const mayCreate = total < owner.replicas + maxSurge && current.replicas < owner.replicas;
  const mayDelete = total - (owner.replicas - maxUnavailable) - unavailable > 0;
  if (oldReplicas === 0 || mayCreate || mayDelete) return [];
  const holding = [...pods.filter(({ isReady }) => !isReady), ...(unavailable > 0 ? [] : oldPods)];
  return [
    {
      ...{ kind: "no room", level: "wait", rank: RANK, confidence: "certain" },
      objects: holding.map(podName),
      evidence: [`${total} of at most ${owner.replicas + maxSurge} pods, ${unavailable} new unavailable`],
      facts: { replicas: String(owner.replicas), maxSurge: String(maxSurge), maxUnavailable: String(maxUnavailable), total: String(total) },
    },
  ];
}

export const noRoom: Rule = {
  find,
  words: {
    "no room": ({ replicas, maxSurge, maxUnavailable, total }) => ({
      cause: `the rolling update waits for a new pod to be available: ${total} of ${replicas} + maxSurge ${maxSurge} pods exist, and maxUnavailable ${maxUnavailable} allows no deletion of an old one`,
    }),
  },
};
