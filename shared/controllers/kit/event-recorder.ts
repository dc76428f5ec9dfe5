/** Kubernetes Events as upstream's core/v1 recorder writes them. Best effort: no decision depends on them. */
import { createHash } from "node:crypto";
import type { Digester } from "@deltaloop/kube/pod-template";
import { combinedMessage, eventName, eventNanos, msOfNanos } from "@deltaloop/kube/events";
import type { Correlated } from "@deltaloop/kube/events";
import { RESOURCES, formatTime, isBuiltIn } from "@deltaloop/kube/objects";
import type { Controller, ControllerName } from "@deltaloop/kube/objects";
import type { ToldHappening } from "@deltaloop/store/ports";
import type { EventNote, Owner } from "./writes.ts";

/** `source.component` of each controller's Events. Source: the NewRecorder calls of pkg/controller/{deployment,replicaset,replication}. */
const EVENT_COMPONENT: { readonly [C in Controller]: string } = {
  deployment: "deployment-controller",
  replicaset: "replicaset-controller",
  replicationcontroller: "replication-controller",
};

function componentOf(controller: ControllerName): string {
  return isBuiltIn(controller) ? EVENT_COMPONENT[controller] : `deltaloop-${controller}`;
}

/** The object that an Event is about. */
export type EventOwner =
  | Owner
  | (Omit<Owner, "resource"> & { readonly resource: string; readonly apiVersion: string; readonly kind: string });

/** An Event note of a run, and the time it was emitted. */
export interface ToldNote {
  readonly owner: EventOwner;
  readonly note: EventNote;
  readonly atMs: number;
}

/** The run that emits Events. */
export interface Teller {
  readonly controller: ControllerName;
  /** The run's token. Together with the note's number in the run it makes Event names unique. */
  readonly token: string;
  /** Version of the object that the run read. */
  readonly resourceVersion?: string;
}

/** The Store's record of each note: digests, because a message may quote a webhook and the Store has other readers. */
export function happeningsOf(notes: readonly ToldNote[], { controller, token }: Teller, digester: Digester): readonly ToldHappening[] {
  const salt = createHash("sha256").update(token).digest().readUInt32BE(0);
  const groups = new Map<string, { readonly source: string; readonly group: string }>();
  return notes.map(({ owner, note, atMs }, index) => {
    const { resource, namespace, name, uid } = owner;
    const whole = [componentOf(controller), resource, namespace, name, uid, note.type, note.reason];
    const id = JSON.stringify(whole);
    const known = groups.get(id) ?? { source: digester.event(whole.slice(0, -1)), group: digester.event(whole) };
    groups.set(id, known);
    return { ...known, key: digester.event([...whole, note.message]), nanos: eventNanos(atMs, salt + index) };
  });
}

/** The namespace of Events about cluster-scoped objects. Source: client-go tools/record/event.go makeEvent. */
const EVENT_NAMESPACE = "default";

function namespaceOf({ namespace }: EventOwner): string {
  return namespace === "" ? EVENT_NAMESPACE : namespace;
}

export type EventRequest =
  | { readonly kind: "create"; readonly namespace: string; readonly body: object }
  /** `ifMissing`: the Event to create if the patched Event no longer exists or never existed. */
  | { readonly kind: "patch"; readonly namespace: string; readonly name: string; readonly body: object; readonly ifMissing: object };

/**
 * The requests that emit the notes, one per Event.
 *
 *     the same new Warning five times: a create with count 5
 *
 * Source: client-go tools/record/event.go makeEvent, recordToSink, recordEvent. Differs from upstream, which sends each note by itself:
 * notes of one run that share an Event are sent once, with the final count.
 */
export function eventRequests(notes: readonly ToldNote[], correlated: readonly Correlated[], teller: Teller): readonly EventRequest[] {
  const requests = new Map<string, EventRequest>();
  for (const [i, each] of notes.entries()) {
    const event = correlated[i];
    if (event === undefined || event.isHeldBack) continue;
    const { name: object } = each.owner;
    const namespace = namespaceOf(each.owner);
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

/**
 * The Event without its counters. Its involvedObject is the owner, with the owner's real kind. Source: events_cache.go EventAggregate,
 * which sets no reporter.
 */
function eventBody(
  { owner, note: { type, reason } }: ToldNote,
  { nanos, isCombined }: Correlated,
  { controller, resourceVersion }: Teller,
): object {
  const { apiVersion, kind } = "kind" in owner ? owner : RESOURCES[owner.resource];
  const component = componentOf(controller);
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: eventName(owner.name, nanos), namespace: namespaceOf(owner) },
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
