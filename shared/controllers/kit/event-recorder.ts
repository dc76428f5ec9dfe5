/** Kubernetes Events as upstream's core/v1 recorder writes them. Best effort: nothing rests on them. */
import { createHash } from "node:crypto";
import type { Digester } from "@deltaloop/kube/pod-template";
import { combinedMessage, eventName, eventNanos, msOfNanos } from "@deltaloop/kube/events";
import type { Correlated } from "@deltaloop/kube/events";
import { RESOURCES, formatTime } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import type { ToldHappening } from "@deltaloop/store/ports";
import type { EventNote, Owner } from "./writes.ts";

/** `source.component` of each controller's Events. Source: the NewRecorder calls of pkg/controller/{deployment,replicaset,replication}. */
const EVENT_COMPONENT: { readonly [C in Controller]: string } = {
  deployment: "deployment-controller",
  replicaset: "replicaset-controller",
  replicationcontroller: "replication-controller",
};

/** What a run told, and when. */
export interface ToldNote {
  readonly owner: Owner;
  readonly note: EventNote;
  readonly atMs: number;
}

/** Whose run it was. */
export interface Teller {
  readonly controller: Controller;
  /** The run's: with a note's number within the run it makes that no two Events share a name. */
  readonly token: string;
  /** Of the object that the run saw. */
  readonly resourceVersion?: string;
}

/** What is kept of each note: digests, for a message may quote what a webhook said, and the Store has other readers. */
export function happeningsOf(told: readonly ToldNote[], { controller, token }: Teller, digester: Digester): readonly ToldHappening[] {
  const salt = createHash("sha256").update(token).digest().readUInt32BE(0);
  const groups = new Map<string, { readonly source: string; readonly group: string }>();
  return told.map(({ owner, note, atMs }, index) => {
    const { resource, namespace, name, uid } = owner;
    const whole = [EVENT_COMPONENT[controller], resource, namespace, name, uid, note.type, note.reason];
    const id = JSON.stringify(whole);
    const known = groups.get(id) ?? { source: digester.event(whole.slice(0, -1)), group: digester.event(whole) };
    groups.set(id, known);
    return { ...known, key: digester.event([...whole, note.message]), nanos: eventNanos(atMs, salt + index) };
  });
}

export type EventRequest =
  | { readonly kind: "create"; readonly namespace: string; readonly body: object }
  /** `ifMissing`: the Event is gone, or was never made; create this one. */
  | { readonly kind: "patch"; readonly namespace: string; readonly name: string; readonly body: object; readonly ifMissing: object };

/**
 * What to send of all that, one request an Event.
 *
 *     five times the same refusal, the first of them new: a create with count 5
 *
 * Source: client-go tools/record/event.go makeEvent, recordToSink, recordEvent. Differs from upstream, which sends each by itself: an
 * Event that was told several times in one run leaves as it stands after the last of them.
 */
export function eventRequests(told: readonly ToldNote[], correlated: readonly Correlated[], teller: Teller): readonly EventRequest[] {
  const requests = new Map<string, EventRequest>();
  for (const [i, each] of told.entries()) {
    const event = correlated[i];
    if (event === undefined || event.isHeldBack) continue;
    const { namespace, name: object } = each.owner;
    const { message } = each.note;
    const counted = {
      count: event.count,
      lastTimestamp: formatTime(each.atMs),
      message: event.isCombined ? combinedMessage(message) : message,
    };
    const body = { ...eventBody(each, event, teller), ...counted };
    const name = eventName(object, event.nanos);
    const isNew = event.count === 1 || requests.get(name)?.kind === "create";
    const patch = { kind: "patch", namespace, name, body: counted, ifMissing: body } as const;
    requests.set(name, isNew ? { kind: "create", namespace, body } : patch);
  }
  return [...requests.values()];
}

/** All but what counting changes. Its object is the owner, with its real kind. Source: events_cache.go EventAggregate: no reporter in its Events. */
function eventBody(
  { owner, note: { type, reason } }: ToldNote,
  { nanos, isCombined }: Correlated,
  { controller, resourceVersion }: Teller,
): object {
  const { apiVersion, kind } = RESOURCES[owner.resource];
  const component = EVENT_COMPONENT[controller];
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: eventName(owner.name, nanos), namespace: owner.namespace },
    involvedObject: {
      apiVersion,
      kind,
      namespace: owner.namespace,
      name: owner.name,
      uid: owner.uid,
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    reason,
    type,
    firstTimestamp: formatTime(msOfNanos(nanos)),
    source: { component },
    ...(!isCombined && { reportingComponent: component }),
  };
}
