/** Kubernetes Events as upstream's core/v1 recorder writes them. Best effort: nothing rests on them. */
import { createHash } from "node:crypto";
import { RESOURCES } from "../api/resources.ts";
import type { Controller } from "../api/resources.ts";
import { formatTime } from "../api/time.ts";
import type { EventNote, Owner } from "./writes.ts";

/** `source.component` of each controller's Events. Source: the NewRecorder calls of pkg/controller/{deployment,replicaset,replication}. */
const EVENT_COMPONENT: { readonly [C in Controller]: string } = {
  deployment: "deployment-controller",
  replicaset: "replicaset-controller",
  replicationcontroller: "replication-controller",
};

/**
 * Events of one sync. Upstream's spam filter lets 25 through per object and then one in five minutes; without its memory
 * (informer §8.3, not built yet) we stop at 25 a sync.
 */
export const EVENTS_PER_SYNC_MAX = 25;

export interface EventContext {
  readonly controller: Controller;
  readonly owner: Owner;
  readonly resourceVersion?: string;
  readonly nowMs: number;
  /** The run's token and the note's number within the run: two Events never share a name. */
  readonly token: string;
  readonly index: number;
}

/** Source: client-go tools/record/event.go makeEvent. The involved object is the owner itself, with its real kind. */
export function eventBody({ type, reason, message }: EventNote, context: EventContext): object {
  const { controller, owner, resourceVersion, nowMs } = context;
  const { apiVersion, kind } = RESOURCES[owner.resource];
  const component = EVENT_COMPONENT[controller];
  const time = formatTime(nowMs);
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: eventName(context), namespace: owner.namespace },
    involvedObject: {
      apiVersion,
      kind,
      namespace: owner.namespace,
      name: owner.name,
      uid: owner.uid,
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    reason,
    message,
    type,
    count: 1,
    firstTimestamp: time,
    lastTimestamp: time,
    source: { component },
    reportingComponent: component,
  };
}

/** `web.17c3a9d2f4b81e00`: the object and nanoseconds. Our clock knows milliseconds; token and index choose the rest. */
function eventName({ owner, nowMs, token, index }: EventContext): string {
  const salt = createHash("sha256").update(token).digest().readUInt32BE(0);
  const nanoseconds = BigInt(nowMs) * 1_000_000n + BigInt((salt + index) % 1_000_000);
  return `${owner.name}.${nanoseconds.toString(16)}`;
}
