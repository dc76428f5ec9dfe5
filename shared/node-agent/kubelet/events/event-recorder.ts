/**
 * Builds the requests for the Kubernetes Events of a node agent (node-agent §9), correlated by shared/kube/events/event-correlator.ts
 * (ER1 to ER4). Source: client-go tools/record/event.go makeEvent, recordEvent.
 */
import type { CoreV1Event } from "@kubernetes/client-node";
import { combinedMessage, correlate, eventName, eventNanos, msOfNanos, noCorrelations } from "@deltaloop/kube/events";
import type { CorrelatorMemory } from "@deltaloop/kube/events";
import { formatTime, type Wire } from "@deltaloop/kube/objects";

export type EventBody = Wire<CoreV1Event>;

const COMPONENT = "kubelet";
/** Namespace of Events about cluster-scoped objects. */
const DEFAULT_NAMESPACE = "default";

export interface NodeEvent {
  readonly involved: InvolvedObject;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface InvolvedObject {
  readonly kind: string;
  readonly apiVersion: string;
  /** Empty if the object is a Node. */
  readonly namespace: string;
  readonly name: string;
  /** Empty for the agent's own Node, whose UID the recorder adds. */
  readonly uid: string;
  /** `spec.containers{name}`. */
  readonly fieldPath?: string;
}

export interface EventMemory extends CorrelatorMemory {
  /** Number of recorded Events, which is part of their names. */
  recorded: number;
}

export function noEvents(): EventMemory {
  return { ...noCorrelations(), recorded: 0 };
}

export type EventRequest =
  | { readonly kind: "create"; readonly body: EventBody }
  /** `ifMissing`: the Event to create if the patched one does not exist, for example because of rate limiting (ER3). */
  | { readonly kind: "patch"; readonly namespace: string; readonly name: string; readonly body: EventPatch; readonly ifMissing: EventBody };

/** A strategic merge patch. */
export type EventPatch = Required<Pick<EventBody, "count" | "lastTimestamp" | "message">>;

export interface EventSource {
  readonly nodeName: string;
  /** An integer that distinguishes Event names if two agent runs emit Events in the same millisecond. */
  readonly nameSalt: number;
  /** Empty until the Node is known. */
  readonly nodeUid: string;
}

/** Returns the request for `event`, if any. Updates the memory whether or not the request succeeds. */
export function recordEvent(memory: EventMemory, event: NodeEvent, nowMs: number, source: EventSource): EventRequest | undefined {
  const { kind, apiVersion, namespace, name, fieldPath } = event.involved;
  const uid = kind === "Node" ? source.nodeUid : event.involved.uid;
  const spends = JSON.stringify([kind, apiVersion, namespace, name, uid, event.type]);
  const group = JSON.stringify([spends, event.reason]);
  const key = JSON.stringify([group, fieldPath, event.message]);
  const nanos = eventNanos(nowMs, source.nameSalt + memory.recorded++);
  const correlated = correlate(memory, { source: spends, group, key, message: event.message, nanos }, nowMs);
  if (correlated.isHeldBack) return undefined;

  const message = correlated.isCombined ? combinedMessage(event.message) : event.message;
  const lastTimestamp = formatTime(nowMs);
  const body: EventBody = {
    apiVersion: "v1",
    kind: "Event",
    metadata: {
      name: eventName(name, correlated.nanos),
      namespace: namespace || DEFAULT_NAMESPACE,
      ...(event.annotations && { annotations: { ...event.annotations } }),
    },
    involvedObject: {
      kind,
      apiVersion,
      ...(namespace !== "" && { namespace }),
      name,
      ...(uid !== "" && { uid }),
      ...(fieldPath !== undefined && { fieldPath }),
    },
    reason: event.reason,
    message,
    type: event.type,
    count: correlated.count,
    firstTimestamp: formatTime(msOfNanos(correlated.nanos)),
    lastTimestamp,
    source: { component: COMPONENT, host: source.nodeName },
    ...(!correlated.isCombined && { reportingComponent: COMPONENT, reportingInstance: source.nodeName }),
  };
  if (correlated.count === 1) return { kind: "create", body };
  const target = { namespace: namespace || DEFAULT_NAMESPACE, name: eventName(name, correlated.nanos) };
  return { kind: "patch", ...target, body: { count: correlated.count, lastTimestamp, message }, ifMissing: body };
}

/** The agent's Node as involved object. Source: pkg/kubelet/kubelet_node_status.go recordNodeStatusEvent. */
export function nodeReference(name: string): InvolvedObject {
  return { kind: "Node", apiVersion: "v1", namespace: "", name, uid: "" };
}
