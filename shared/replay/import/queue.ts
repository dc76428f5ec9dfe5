/**
 * Imports saved delta queue messages: from the dead-letter queue, from an abandoned queue, or as a function received them.
 *
 * QM1 they contain stripped objects, as the cache does, and one time per message (pack): when the watcher received its last item.
 * QM2 packs are numbered per lane and fence without holes (envelope.ts), so a missing number is reported as a gap in the capture. Missing
 *     packs before the first or after the last one cannot be detected.
 * QM3 the first list of a resource is its initial state if no other pack of the resource precedes it. Changes whose packs are missing are
 *     derived from later lists, and deletes from complete manifests.
 * QM4 signatures are not verified, because the importer has no MAC key. Nothing is written to a cluster based on the result.
 */
import { CACHED_RESOURCES, objectKey, compareResourceVersions, isResourceVersion } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { laneOf, LANES } from "@deltaloop/store/ports";
import { decodeEnvelope } from "@deltaloop/controllers/cache";
import type { Envelope, EnvelopeItem, SignerOf } from "@deltaloop/controllers/cache";
import { CaptureError, isObject, MISSING } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { withVersion } from "../capture-format/captured-object.ts";
import { eachOnce, inVersionOrder, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent, ImportedGap } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import type { ImportReport } from "./report.ts";
import { eventOf } from "./spool.ts";
import type { Kept, Spool } from "./spool.ts";

/** QM4 */
const UNCHECKED: SignerOf = () => ({ verify: () => "current" });
const TYPES: { readonly [T in EnvelopeItem["t"]]: "stands" | "gone" } = { A: "stands", M: "stands", D: "gone" };

/** Whether `value` is the output of `aws sqs receive-message`, a Lambda event, or one message of either. */
export function isQueueMessages(value: CapturedObject): boolean {
  return ["Messages", "Records", "Body", "body"].some((field) => value[field] !== undefined);
}

/** The stream that a pack belongs to: epoch, fence, resource and lane. */
type Place = Pick<Envelope, "e" | "f" | "r" | "ln">;

interface PackItems extends Place {
  readonly r: CachedResource;
  readonly sq: number;
  readonly ms: number;
  /** The first version among the items. */
  readonly first: string | undefined;
  readonly last: string | undefined;
}

interface Seen {
  readonly kept: Kept;
  readonly resource: CachedResource;
  readonly atMs: number;
  readonly isGone: boolean;
  /** The version of a list. */
  readonly listed: string | undefined;
}

interface Manifest extends Place {
  readonly r: CachedResource;
  readonly g: number;
  readonly ms: number;
  readonly version: string;
  readonly parts: number;
  readonly lanes: number;
  readonly seenParts: Set<number>;
  readonly keys: Set<string>;
}

export async function importQueue(values: AsyncIterable<JsonValue>, spool: Spool, report: ImportReport): Promise<Imported> {
  const messages = new Messages(spool, report);
  for await (const { value, place } of values) for (const body of bodiesIn(value, place)) messages.see(body, place);
  return messages.imported();
}

function bodiesIn(value: CapturedObject, place: string): readonly string[] {
  const { Messages: received, Records: handed } = value;
  const list = Array.isArray(received) ? received : Array.isArray(handed) ? handed : [value];
  return list.map((message: unknown) => {
    const body = isObject(message) ? (message["Body"] ?? message["body"]) : undefined;
    if (typeof body !== "string") throw new CaptureError(`${place}: message has no body`);
    return body;
  });
}

class Messages {
  readonly #spool: Spool;
  readonly #report: ImportReport;
  #cluster: string | undefined;
  readonly #packs = new Map<string, Map<number, PackItems>>();
  readonly #seen: Seen[] = [];
  readonly #manifests = new Map<string, Manifest>();

  constructor(spool: Spool, report: ImportReport) {
    [this.#spool, this.#report] = [spool, report];
  }

  see(body: string, place: string): void {
    const decoded = decodeEnvelope(body, UNCHECKED);
    switch (decoded.kind) {
      case "forged":
        throw new CaptureError(`${place}: message is not in the watcher's format`);
      case "undecodable":
        return this.#report.lost("a message that cannot be decoded");
      case "newer":
        return this.#report.lost("a message of a newer deltaloop version");
      case "envelope":
        return this.#pack(decoded.envelope, place);
    }
  }

  #pack(envelope: Envelope, place: string): void {
    const { c, e, f, ln, sq, ts, k } = envelope;
    const r = resourceOf(envelope);
    if (typeof ts !== "number" || !Number.isFinite(ts) || Math.abs(ts) > 8.64e15) throw new CaptureError(`${place}: ts is not a time`);
    if (this.#cluster !== undefined && this.#cluster !== c)
      throw new CaptureError(`${place}: belongs to a different cluster than the first message`);
    this.#cluster = c;
    const packs = this.#packs.get(nameOf(envelope)) ?? new Map<number, PackItems>();
    this.#packs.set(nameOf(envelope), packs);
    // The message is a redelivery.
    if (packs.has(sq)) return;
    const own =
      k === "D" || k === "L" ? envelope.items.flatMap((item) => this.#item(r, item, { place, ms: ts, listed: listOf(envelope) })) : [];
    packs.set(sq, { e, f, r, ln, sq, ms: ts, first: own[0]?.kept.version, last: own.at(-1)?.kept.version });
    this.#seen.push(...own);
    if (k === "M") this.#manifest(envelope);
  }

  #item(
    resource: CachedResource,
    item: unknown,
    { place, ms, listed }: { readonly place: string; readonly ms: number; readonly listed: string | undefined },
  ): readonly Seen[] {
    const { t, o, tooBig, rv } = isObject(item) ? item : {};
    if (tooBig === true) return lost(this.#report, "an object too large for a message, which a function reads from the API server");
    const known = TYPES[t as EnvelopeItem["t"]] as "stands" | "gone" | undefined; // the type is unchecked
    if (known === undefined || o === undefined || typeof rv !== "string" || !isResourceVersion(rv))
      return lost(this.#report, "an item without type, version or object");
    const object = objectAt(o, place);
    // The version of a delete is in the item, not in the object.
    const kept = this.#spool.keep(resource, versionOf(object) === rv ? object : withVersion(object, rv));
    return [{ kept, resource, atMs: ms, isGone: known === "gone", listed }];
  }

  #manifest(envelope: Extract<Envelope, { k: "M" }>): void {
    const { e, f, g, ln, ts, L, part, parts, rows } = envelope;
    const r = resourceOf(envelope);
    const { lanes = LANES[r] } = envelope;
    const name = `${nameOf(envelope)} ${g}`;
    const manifest = this.#manifests.get(name) ?? {
      e,
      f,
      g,
      r,
      ln,
      ms: ts,
      version: L,
      parts,
      lanes,
      seenParts: new Set(),
      keys: new Set(),
    };
    this.#manifests.set(name, manifest);
    manifest.seenParts.add(part);
    for (const { key } of rows) manifest.keys.add(`${r} ${key}`);
  }

  imported(): Imported {
    const seen = [...eachOnce(inVersionOrder(this.#seen), () => undefined)];
    const lists = this.#lists(seen);
    const isFirst = ({ resource, listed }: Seen): boolean => listed !== undefined && listed === lists.get(resource)?.rv;
    const times = timesOf(seen);
    const stored = new Map<string, Kept>(seen.filter(isFirst).map(({ kept }) => [kept.place, kept]));
    const whole = [...this.#manifests.values()].filter(({ parts, seenParts }) => seenParts.size === parts);
    const later = whole
      .filter(({ r, version }) => version !== lists.get(r)?.rv)
      .toSorted((a, b) => compareResourceVersions(a.version, b.version));
    const events: ImportedEvent[] = [];
    const sweepUntil = (version: string | undefined): void => {
      while (later[0] !== undefined && (version === undefined || compareResourceVersions(later[0].version, version) < 0))
        events.push(...this.#swept(later.shift() as Manifest, stored, events.at(-1)?.atMs)); // length checked
    };
    for (const [index, each] of seen.entries()) {
      if (isFirst(each)) continue;
      const { kept, resource, isGone } = each;
      sweepUntil(kept.version);
      const last = stored.get(kept.place);
      if (isGone) stored.delete(kept.place);
      else stored.set(kept.place, kept);
      if (last === undefined && lists.get(resource) === undefined)
        this.#report.assumed("an object whose creation is not recorded; its first event is ADDED");
      const type = isGone ? "DELETED" : last === undefined ? "ADDED" : "MODIFIED";
      events.push(eventOf(kept, { atMs: times[index] ?? each.atMs, resource, type }));
    }
    sweepUntil(undefined);
    this.#report.lacks("templates, annotation values and other fields that the cache does not store");
    this.#report.lacks("intermediate states that a newer one replaced before the message was sent");
    this.#report.lacks("events before the first and after the last message of each lane");
    this.#report.lacks("verification of the signatures: the import has no MAC key");
    this.#report.assumed("the times of items: all items of a message have the time of its last one");
    const startMs = times[0] ?? events[0]?.atMs ?? 0;
    return { format: "queue", startMs, endMs: events.at(-1)?.atMs ?? startMs, lists, events, gaps: this.#gaps() };
  }

  /** QM3 */
  #lists(seen: readonly Seen[]): Imported["lists"] {
    const lists = new Map<CachedResource, { readonly rv: string; readonly items: readonly Kept[] }>();
    for (const resource of CACHED_RESOURCES) {
      const own = seen.filter((each) => each.resource === resource);
      const manifests = [...this.#manifests.values()].filter(({ r }) => r === resource);
      const [rv] = [...own.flatMap(({ listed }) => listed ?? []), ...manifests.map(({ version }) => version)].toSorted(
        compareResourceVersions,
      );
      if (rv === undefined || own.some(({ listed, kept }) => listed !== rv && compareResourceVersions(kept.version, rv) <= 0)) continue;
      const lanes = new Set(
        manifests.filter(({ version, parts, seenParts }) => version === rv && seenParts.size === parts).map(({ ln }) => ln),
      );
      if (lanes.size < (manifests.find(({ version }) => version === rv)?.lanes ?? LANES[resource]))
        this.#report.lost(`a part of the first list of ${resource}, which may have had more objects`);
      lists.set(resource, { rv, items: own.filter(({ listed }) => listed === rv).map(({ kept }) => kept) });
    }
    return lists;
  }

  /** Reports objects that a complete manifest does not list as deleted before the manifest. */
  #swept({ r, ln, lanes, ms, version, keys }: Manifest, stored: Map<string, Kept>, lastMs = ms): readonly ImportedEvent[] {
    const gone = [...stored.values()].filter(
      (kept) =>
        kept.place.startsWith(`${r} `) &&
        laneOf(keyIn(kept), lanes) === ln &&
        !keys.has(kept.place) &&
        compareResourceVersions(kept.version, version) <= 0,
    );
    if (gone.length > 0) this.#report.assumed("the time of a deletion, which only a later list implies", gone.length);
    return gone.map((kept) => {
      stored.delete(kept.place);
      return eventOf(this.#spool.keep(r, withVersion(kept.object, version)), { atMs: Math.max(ms, lastMs), resource: r, type: "DELETED" });
    });
  }

  /** QM2 */
  #gaps(): readonly ImportedGap[] {
    const gaps = [...this.#packs.values()].flatMap((packs) => {
      const inTurn = [...packs.values()].toSorted((a, b) => a.sq - b.sq);
      return inTurn.flatMap((pack, index): readonly ImportedGap[] => {
        const before = inTurn[index - 1];
        if (before === undefined || before.sq + 1 === pack.sq) return [];
        const missing = pack.sq - before.sq - 1;
        this.#report.lost(`messages of ${pack.r} between two recorded ones`, missing);
        const from = inTurn.slice(0, index).findLast(({ last }) => last !== undefined)?.last ?? "0";
        const to = inTurn.slice(index).find(({ first }) => first !== undefined)?.first ?? from;
        return [{ atMs: pack.ms, resource: pack.r, from, to, ms: Math.max(0, pack.ms - before.ms), why: MISSING }];
      });
    });
    return gaps.toSorted((a, b) => a.atMs - b.atMs);
  }
}

function lost(report: ImportReport, what: string): readonly [] {
  report.lost(what);
  return [];
}

function nameOf({ e, f, r, ln }: Place): string {
  return `${e} ${f} ${r} ${ln}`;
}

function listOf(envelope: Envelope): string | undefined {
  return envelope.k === "L" ? envelope.L : undefined;
}

function keyIn({ place }: Kept): ReturnType<typeof objectKey> {
  const [, key = ""] = place.split(" ");
  const [namespace = "", name = ""] = key.split("/");
  return objectKey(namespace, name);
}

/** Adjusts times so that they never decrease with the version. */
function timesOf(seen: readonly Seen[]): readonly number[] {
  let atMs = Infinity;
  return seen
    .toReversed()
    .map((each) => (atMs = Math.min(atMs, each.atMs)))
    .toReversed();
}

/** The built-in catalog decoded the envelope, so its resource is built in. */
function resourceOf({ r }: Envelope): CachedResource {
  return r as CachedResource;
}
