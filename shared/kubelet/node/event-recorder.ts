/**
 * Kubernetes Events of a node agent (node-agent §9): what to send of each, so that neither a crash loop nor a failing probe
 * floods the API server. A step function over what it remembers.
 *
 * ER1 an equal Event (object, field, type, reason, message) is sent once and then counted: a patch of count, time and message.
 * ER2 from the tenth message on that one object gets for one reason, with less than 10 minutes between two, all become one
 *    Event: "(combined from similar events): …".
 * ER3 per object 25 Events go out at once, then one in 5 minutes; what is held back counts all the same.
 * ER4 of each kind of memory at most 4096 entries stay, the last used ones.
 *
 * Source: client-go tools/record/events_cache.go EventCorrelator; event.go makeEvent.
 */
import type { CoreV1Event } from "@kubernetes/client-node";
import { formatTime } from "../../api/time.ts";
import type { Wire } from "../../api/wire.ts";

export type EventBody = Wire<CoreV1Event>;

/**
 * Source: events_cache.go maxLruCacheEntries, defaultAggregateMaxEvents, defaultAggregateIntervalInSeconds, defaultSpamBurst,
 * defaultSpamQPS.
 */
const ENTRIES_MAX = 4096;
const MESSAGES_MAX = 10;
const SIMILAR_WITHIN_MS = 600_000;
const SPAM_BURST = 25;
const SPAM_REFILL_MS = 300_000;

const COMPONENT = "kubelet";
/** Where Events of objects without a namespace stand. */
const DEFAULT_NAMESPACE = "default";
const NANOS_PER_MS = 1_000_000;

export interface NodeEvent {
  readonly involved: InvolvedObject;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

export interface InvolvedObject {
  readonly kind: string;
  readonly apiVersion: string;
  /** Empty for a Node, whose `uid` is its name, as upstream has it. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** `spec.containers{name}`. */
  readonly fieldPath?: string;
}

/** What was said, changed in place by recordEvent: thousands of entries are not copied for one Event. */
export interface EventMemory {
  /** Object, type and reason → messages seen of late. */
  readonly similar: Map<string, { readonly messages: readonly string[]; readonly lastMs: number }>;
  /** All of an Event, or an entry of `similar` → the Event that stands for it. */
  readonly sent: Map<string, { readonly name: string; readonly count: number; readonly firstTimestamp: string }>;
  /** Object → what it may still send. */
  readonly budgets: Map<string, { readonly tokens: number; readonly atMs: number }>;
  /** Events so far, for their names. */
  recorded: number;
}

export function noEvents(): EventMemory {
  return { similar: new Map(), sent: new Map(), budgets: new Map(), recorded: 0 };
}

export type EventRequest =
  | { readonly kind: "create"; readonly body: EventBody }
  /** `ifMissing`: the Event is gone, or its creation was held back (ER3); create this one. */
  | { readonly kind: "patch"; readonly namespace: string; readonly name: string; readonly body: EventPatch; readonly ifMissing: EventBody };

/** A merge patch. */
export type EventPatch = Required<Pick<EventBody, "count" | "lastTimestamp" | "message">>;

export interface EventSource {
  readonly nodeName: string;
  /** A whole number: names of two runs of the agent that say something in the same millisecond differ by it. */
  readonly nameSalt: number;
}

/** What to send of `event`, if anything; it is remembered whether or not that succeeds. */
export function recordEvent(memory: EventMemory, event: NodeEvent, nowMs: number, source: EventSource): EventRequest | undefined {
  const { kind, apiVersion, namespace, name, uid, fieldPath } = event.involved;
  const object = JSON.stringify([kind, apiVersion, namespace, name, uid]);
  const group = JSON.stringify([object, event.type, event.reason]);

  const known = memory.similar.get(group);
  const recent = known !== undefined && nowMs - known.lastMs <= SIMILAR_WITHIN_MS ? known.messages : [];
  const messages = recent.includes(event.message) ? recent : [...recent, event.message];
  const isCombined = messages.length >= MESSAGES_MAX;
  remember(memory.similar, group, { messages: isCombined ? messages.slice(1) : messages, lastMs: nowMs });

  const key = isCombined ? group : JSON.stringify([group, fieldPath, event.message]);
  const message = isCombined ? `(combined from similar events): ${event.message}` : event.message;
  const before = memory.sent.get(key);
  const body = eventBody({ ...event, message }, before, nowMs, { ...source, nameSalt: source.nameSalt + memory.recorded });
  const count = (before?.count ?? 0) + 1;
  const eventName = body.metadata.name ?? ""; // eventBody names it
  remember(memory.sent, key, { name: eventName, count, firstTimestamp: body.firstTimestamp ?? "" });

  const { budget, isWithin } = spend(memory.budgets.get(object), nowMs);
  remember(memory.budgets, object, budget);
  memory.recorded++;
  if (!isWithin) return undefined;
  if (before === undefined) return { kind: "create", body };
  const patch = { count, lastTimestamp: formatTime(nowMs), message };
  const target = { namespace: body.metadata.namespace ?? DEFAULT_NAMESPACE, name: eventName };
  return { kind: "patch", ...target, body: patch, ifMissing: body };
}

/** The Event as it stands after this one: new, or the one sent before with its count. */
function eventBody(
  { involved, type, reason, message }: NodeEvent,
  before: { readonly name: string; readonly count: number; readonly firstTimestamp: string } | undefined,
  nowMs: number,
  { nodeName, nameSalt }: EventSource,
): EventBody {
  const now = formatTime(nowMs);
  const { namespace, ...object } = involved;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: before?.name ?? newName(involved.name, nowMs, nameSalt), namespace: namespace || DEFAULT_NAMESPACE },
    involvedObject: namespace === "" ? object : { ...object, namespace },
    reason,
    message,
    type,
    count: (before?.count ?? 0) + 1,
    firstTimestamp: before?.firstTimestamp ?? now,
    lastTimestamp: now,
    source: { component: COMPONENT, host: nodeName },
    reportingComponent: COMPONENT,
    reportingInstance: nodeName,
  };
}

/** `web.17c3a9d2f4b81e00`: the object and nanoseconds, of which our clock knows milliseconds. */
function newName(object: string, nowMs: number, nameSalt: number): string {
  return `${object}.${(BigInt(Math.trunc(nowMs)) * BigInt(NANOS_PER_MS) + BigInt(nameSalt % NANOS_PER_MS)).toString(16)}`;
}

/** A token bucket. Source: EventSourceObjectSpamFilter. */
function spend(
  before: { readonly tokens: number; readonly atMs: number } | undefined,
  nowMs: number,
): { readonly budget: { readonly tokens: number; readonly atMs: number }; readonly isWithin: boolean } {
  const refilled = before === undefined ? SPAM_BURST : before.tokens + Math.max(0, nowMs - before.atMs) / SPAM_REFILL_MS;
  const tokens = Math.min(SPAM_BURST, refilled);
  const isWithin = tokens >= 1;
  return { budget: { tokens: isWithin ? tokens - 1 : tokens, atMs: nowMs }, isWithin };
}

/** The entry becomes the last used one; above the bound the one that was silent for longest goes. */
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= ENTRIES_MAX) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
