/**
 * What becomes of a happening before it is an Event: client-go's correlator as a step function over what it remembers, so that
 * neither a crash loop nor a steady failure floods the API server. The node agent keeps the memory in its process, the functions in
 * the Store (shared/store/ports/events.ts), of which scripts/audit/correlate-events.lua does the same in Redis.
 *
 * ER1 an equal happening (object, field, type, reason, message) is one Event, counted.
 * ER2 from the tenth message on that one object gets for one type and reason, with no more than 10 minutes between two, all become
 *    one Event: "(combined from similar events): …". Of the messages of late nine are kept, the newest; client-go keeps any nine.
 * ER3 of one type 25 Events of an object go out at once, then one in 5 minutes; what is held back counts all the same.
 * ER4 of each kind of memory at most 4096 entries stay, the last used ones.
 *
 * Source: client-go tools/record/events_cache.go EventCorrelator. Its UpdateState writes back what it knows already: nothing here.
 */
import { createHash } from "node:crypto";
import { takeToken } from "@deltaloop/base";
import type { TokenBucket } from "@deltaloop/base";

/**
 * Source: events_cache.go maxLruCacheEntries, defaultAggregateMaxEvents, defaultAggregateIntervalInSeconds, defaultSpamBurst,
 * defaultSpamQPS (a float32).
 */
export const EVENT_MEMORY_MAX = 4096;
export const SIMILAR_MESSAGES_MAX = 10;
export const SIMILAR_WITHIN_MS = 600_000;
export const EVENT_BURST = 25;
export const EVENTS_PER_SECOND = Math.fround(1 / 300);

/** Counts are int32 at the API server. */
export const EVENT_COUNT_MAX = 2 ** 31 - 1;

const COMBINED = "(combined from similar events): ";
const NANOS_PER_MS = 1_000_000;

/** In texts that are compared and nothing else: hashes will do. */
export interface Happening {
  /** Who tells it, object and type: whose budget it spends. */
  readonly source: string;
  /** The same with the reason: with what it may be combined. */
  readonly group: string;
  /** All of it, message and field included. */
  readonly key: string;
  /** The message. Within a group no other text is compared with it. */
  readonly message: string;
  /** `eventNanos`, in case it is the first of its Event. */
  readonly nanos: string;
}

/** The Event as it stands with this happening. */
export interface Correlated {
  /** Of the first that was counted: its name and time. */
  readonly nanos: string;
  /** 1: the first. */
  readonly count: number;
  readonly isCombined: boolean;
  /** Not to be sent. */
  readonly isHeldBack: boolean;
}

/** What was told, changed in place by `correlate`: thousands of entries are not copied for one happening. */
export interface CorrelatorMemory {
  /** Group → messages of late. */
  readonly groups: Map<string, { readonly messages: readonly string[]; readonly lastMs: number }>;
  /** Key, or group → the Event that stands for it. */
  readonly events: Map<string, { readonly nanos: string; readonly count: number }>;
  /** Source → what it may still send. */
  readonly budgets: Map<string, TokenBucket>;
}

export function noCorrelations(): CorrelatorMemory {
  return { groups: new Map(), events: new Map(), budgets: new Map() };
}

/** It is remembered whether or not it will be sent, as upstream does. */
export function correlate(memory: CorrelatorMemory, { source, group, key, message, nanos }: Happening, nowMs: number): Correlated {
  const known = memory.groups.get(group);
  const recent = known !== undefined && nowMs - known.lastMs <= SIMILAR_WITHIN_MS ? known.messages : [];
  const messages = recent.includes(message) ? recent : [...recent, message];
  const isCombined = messages.length >= SIMILAR_MESSAGES_MAX;
  remember(memory.groups, group, { messages: messages.slice(-(SIMILAR_MESSAGES_MAX - 1)), lastMs: nowMs });

  const standsFor = isCombined ? group : key;
  const before = memory.events.get(standsFor);
  const event = { nanos: before?.nanos ?? nanos, count: Math.min((before?.count ?? 0) + 1, EVENT_COUNT_MAX) };
  remember(memory.events, standsFor, event);

  const budget = memory.budgets.get(source) ?? { tokens: EVENT_BURST, atMs: nowMs };
  const left = takeToken(budget, { perSecond: EVENTS_PER_SECOND, burst: EVENT_BURST }, nowMs);
  remember(memory.budgets, source, left ?? budget);
  return { ...event, isCombined, isHeldBack: left === undefined };
}

/** The entry becomes the last used one; above the bound the one that was not used for longest goes. */
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= EVENT_MEMORY_MAX) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}

export function combinedMessage(message: string): string {
  return COMBINED + message;
}

/** When an Event was first told, as hex of nanoseconds. Our clock knows milliseconds; `salt`, a whole number, chooses the rest. */
export function eventNanos(nowMs: number, salt: number): string {
  return (BigInt(Math.trunc(nowMs)) * BigInt(NANOS_PER_MS) + BigInt(salt % NANOS_PER_MS)).toString(16);
}

/** The milliseconds that `nanos` was made of. */
export function msOfNanos(nanos: string): number {
  return Number(BigInt(`0x${nanos}`) / BigInt(NANOS_PER_MS));
}

const EVENT_NAME_MAX = 253;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/u;

/**
 * `web.17c3a9d2f4b81e00`: the object's name and when; where the API server would refuse that (of a name of 237 characters, say), a
 * UUID. Ours is made of what would not do, so it is the same each time.
 *
 * Source: client-go tools/record/util GenerateEventName. Differs from upstream: combined Events get theirs the same way, where
 * EventAggregate takes a name that the API server refuses.
 */
export function eventName(object: string, nanos: string): string {
  const name = `${object}.${nanos}`;
  if (name.length <= EVENT_NAME_MAX && DNS_SUBDOMAIN.test(name)) return name;
  const hex = createHash("sha256").update(name).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u;
const NANOS = /^[0-9a-f]{1,16}$/u;

function isEventNanos(text: string): boolean {
  return NANOS.test(text);
}

/** Whether `name` may be an Event's about `object`; of one whose name is too long a UUID is all there is to see. */
export function isEventNameOf(object: string, name: string): boolean {
  if (name.startsWith(`${object}.`)) return isEventNanos(name.slice(object.length + 1));
  return UUID.test(name) && eventName(object, "f".repeat(16)) !== `${object}.${"f".repeat(16)}`;
}
