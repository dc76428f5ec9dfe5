/** Pods that the API server rejects. The newest rejection is in the Events; the condition ReplicaFailure keeps the first rejection. */
import type { SeenOwner } from "./seen.ts";
import type { ListedMessage } from "../evidence/messages.ts";
import { eventsOf, eventText, listed, timeOf } from "./view.ts";
import type { View } from "./view.ts";

export interface RefusedPods {
  readonly owner: SeenOwner;
  readonly message: ListedMessage | undefined;
  readonly since: number | undefined;
  /** Time of the newest rejection, if known. */
  readonly lastMs: number | undefined;
  readonly evidence: readonly string[];
}

export function refusedPods(view: View): RefusedPods | undefined {
  const { owner, current } = view;
  for (const each of [current, owner]) {
    const refused = each && refusedPodsOf(view, each);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

/** The pods that one ReplicaSet, Deployment or ReplicationController cannot create. */
export function refusedPodsOf(view: View, owner: SeenOwner): RefusedPods | undefined {
  const failure = owner.conditions.find(({ type, status }) => type === "ReplicaFailure" && status === "True");
  const progressing = owner.conditions.find(({ reason }) => reason === "ReplicaSetCreateError");
  const condition = failure ?? progressing;
  if (condition === undefined) return undefined;
  const events = eventsOf(view, owner.uid, "FailedCreate", "ReplicaSetCreateError");
  const message = [events[0]?.message, condition.message].flatMap((text) => listed(text) ?? [])[0];
  return {
    ...{ owner, message },
    since: timeOf(condition.lastTransitionTime),
    lastMs: timeOf(events[0]?.lastTimestamp),
    evidence: [`${condition.type} ${condition.status}: ${condition.reason ?? "no reason"}`, ...eventText(events)],
  };
}
