/**
 * client-go's Event correlator as a pure function from one state to the next, so that neither a crash loop nor a persistent failure floods
 * the API server. The node agent keeps the state in its process. The controllers' functions keep it in the Store
 * (shared/store/ports/events.ts); scripts/audit/correlate-events.lua does the same in Redis.
 *
 * ER1 equal occurrences (object, field, type, reason, message) are one Event with a count.
 * ER2 from the tenth different message of one object, type and reason on, no more than 10 minutes apart, all are aggregated into
 *    one Event: "(combined from similar events): …". The nine newest messages are kept; client-go keeps any nine.
 * ER3 a source may send a burst of 25 Events, then one per 5 minutes; dropped ones still increase the count.
 * ER4 each map holds at most 4096 entries; the least recently used ones are evicted.
 *
 * Source: client-go tools/record/events_cache.go EventCorrelator. Its UpdateState has no counterpart here.
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

/** An occurrence. Its texts are only compared, so hashes suffice. */
export interface Happening {
  /** Event source, object and type: key of the token bucket. */
  readonly source: string;
  /** `source` and the reason: key of aggregation. */
  readonly group: string;
  /** All fields, message and field path included. */
  readonly key: string;
  /** The message. Compared only within its group. */
  readonly message: string;
  /** `eventNanos`, used if this is the first occurrence. */
  readonly nanos: string;
}

/** The Event as of this occurrence. */
export interface Correlated {
  /** Nanoseconds of the first occurrence, which give the Event its name and time. */
  readonly nanos: string;
  /** 1 for the first occurrence. */
  readonly count: number;
  readonly isCombined: boolean;
  /** Dropped by the rate limit: do not send. */
  readonly isHeldBack: boolean;
}

/** Past occurrences. `correlate` changes it in place, because copying thousands of entries per occurrence is too expensive. */
export interface CorrelatorMemory {
  /** Group → recent messages. */
  readonly groups: Map<string, { readonly messages: readonly string[]; readonly lastMs: number }>;
  /** Key or group → its Event. */
  readonly events: Map<string, { readonly nanos: string; readonly count: number }>;
  /** Source → its token bucket. */
  readonly budgets: Map<string, TokenBucket>;
}

export function noCorrelations(): CorrelatorMemory {
  return { groups: new Map(), events: new Map(), budgets: new Map() };
}

/** Counts `happening` in `memory`, even if the rate limit drops the Event, as in upstream. */
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

/** Marks the entry as most recently used and evicts the least recently used one above the limit. */
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

/** Time of the first occurrence in nanoseconds, as hex. The clock has milliseconds; `salt`, an integer, supplies the rest. */
export function eventNanos(nowMs: number, salt: number): string {
  return (BigInt(Math.trunc(nowMs)) * BigInt(NANOS_PER_MS) + BigInt(salt % NANOS_PER_MS)).toString(16);
}

/** The milliseconds of `nanos`. */
export function msOfNanos(nanos: string): number {
  return Number(BigInt(`0x${nanos}`) / BigInt(NANOS_PER_MS));
}

const EVENT_NAME_MAX = 253;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/u;

/**
 * `web.17c3a9d2f4b81e00`: the object's name and the time. If this is not a valid name (for example for a name of 237 characters), returns a
 * UUID that is derived from it and therefore deterministic.
 *
 * Source: client-go tools/record/util GenerateEventName. Differs from upstream: combined Events are named the same way; EventAggregate
 * uses a name that the API server rejects.
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

/** Whether `name` may be the name of an Event about `object`; if the object's name is too long, any UUID is accepted. */
export function isEventNameOf(object: string, name: string): boolean {
  if (name.startsWith(`${object}.`)) return isEventNanos(name.slice(object.length + 1));
  return UUID.test(name) && eventName(object, "f".repeat(16)) !== `${object}.${"f".repeat(16)}`;
}
