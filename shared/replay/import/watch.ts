/**
 * Imports the output of `kubectl get --watch -o json`, with or without `--output-watch-events`, or of `kubectl get --raw '…?watch=1'`:
 * one resource per file. Several files belong to one cluster and are merged by version.
 *
 * The stream has no times. They are derived from the objects, to the second, and never decrease; a `t` on each
 * line (`kubectl … | while read`) takes precedence.
 */
import { tableOf, compareResourceVersions } from "@deltaloop/kube/objects";
import { CaptureError, RFC_3339, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { isEvidenceResource, RECORDED_RESOURCES } from "../capture-format/recorded-resources.ts";
import type { RecordedResource } from "../capture-format/recorded-resources.ts";
import { eachOnce, inVersionOrder, metadataOf, placeOf, resourceOfObject, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import type { ImportReport } from "./report.ts";
import { eventOf } from "./spool.ts";
import type { Kept, Spool } from "./spool.ts";
import { newestTimeIn } from "./times.ts";

/** A parsed watch event; later steps modify it. */
interface Seen {
  readonly resource: RecordedResource;
  type: ImportedEvent["type"] | "LISTED";
  readonly isGone: boolean;
  readonly kept: Kept;
  /** The line's time, or the newest time in the object; never before the time of the previous line. */
  atMs: number;
  readonly isTimed: boolean;
}

interface ParsedState {
  readonly resource: RecordedResource;
  readonly type: Seen["type"];
  readonly object: CapturedObject;
  readonly atMs: number | undefined;
}

/** Objects that are older than the first change by more than this existed when the watch began. */
const STARTED_BEFORE_MS = 2_000;

export async function importWatch(values: AsyncIterable<JsonValue>, spool: Spool, report: ImportReport): Promise<Imported> {
  const newest = new Map<string, string>();
  const listed = new Map<RecordedResource, string>();
  const seen: Seen[] = [];
  const again = (): void => report.lost("a repeated state, as after a restarted watch");
  for await (const value of values) {
    for (const { object, resource, type, atMs } of seenIn(value, listed, report)) {
      const place = spool.one(placeOf(resource, object));
      const isGone = type === "DELETED";
      const state = `${versionOf(object)}${isGone ? " gone" : ""}`;
      if (newest.get(place) === state) again();
      else
        seen.push({
          resource,
          type,
          isGone,
          kept: spool.keep(resource, object),
          isTimed: atMs !== undefined,
          atMs: atMs ?? newestTimeIn(object),
        });
      newest.set(place, state);
    }
  }
  return sequenced([...eachOnce(inVersionOrder(seen), again)], listed, report);
}

function* seenIn({ value, place }: JsonValue, listed: Map<RecordedResource, string>, report: ImportReport): Generator<ParsedState> {
  if (value["k"] !== undefined)
    throw new CaptureError(`${place}: line is from a capture, which \`deltaloop replay\` reads without an import`);
  const { object: inner, t } = value;
  // Events and Secrets also have a field `type`, so the form of the value is checked first.
  const type = isWatchEvent(value) ? value["type"] : undefined;
  if (Array.isArray(value["items"])) return yield* itemsOf(value["items"], place, report);
  if (type !== undefined && typeof type !== "string") throw new CaptureError(`${place}: type is not a string`);
  const object = objectAt(type === undefined ? value : inner, place);
  const resource = resourceOfObject(object);
  if (type === "ERROR") return report.lost("an ERROR event: changes until the watch was restarted are unknown");
  if (!resource) return report.lost("an object of a kind that deltaloop does not watch");
  if (type === "BOOKMARK") {
    const annotations = metadataOf(object)["annotations"];
    if (isObject(annotations) && annotations["k8s.io/initial-events-end"] === "true") listed.set(resource, versionOf(object));
    return;
  }
  if (type !== undefined && type !== "ADDED" && type !== "MODIFIED" && type !== "DELETED")
    throw new CaptureError(`${place}: unknown type of watch event`);
  if (type === undefined)
    report.lost("an object without its event's type: its deletion cannot be detected (use kubectl's --output-watch-events)");
  yield { resource, type: type ?? "MODIFIED", object, atMs: timeOf(t, place) };
}

/** Whether `value` is a watch event and not an object. */
function isWatchEvent(value: CapturedObject): boolean {
  return !(typeof value["kind"] === "string" && value["kind"] !== "" && isObject(value["metadata"])) || isObject(value["object"]);
}

function* itemsOf(items: readonly unknown[], place: string, report: ImportReport): Generator<ParsedState> {
  for (const item of items) {
    const object = objectAt(item, place);
    const resource = resourceOfObject(object);
    if (resource) yield { resource, type: "LISTED", object, atMs: undefined };
    else report.lost("an object of a kind that deltaloop does not watch");
  }
}

function timeOf(t: unknown, place: string): number | undefined {
  if (t === undefined) return undefined;
  const atMs = typeof t === "string" && RFC_3339.test(t) ? Date.parse(t) : Number.NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: t is not an RFC 3339 time`);
  return atMs;
}

/**
 * Assigns times and separates the initial state from events. Watch streams mark new objects; otherwise the first state of each
 * object counts as new.
 */
function sequenced(seen: readonly Seen[], listed: ReadonlyMap<RecordedResource, string>, report: ImportReport): Imported {
  let latestMs = 0;
  const existing = new Set<string>();
  for (const each of seen) {
    if (!each.isTimed) report.assumed("the time of an event, derived from timestamps in the object (precision: 1 s)");
    latestMs = Math.max(latestMs, each.atMs);
    each.atMs = latestMs;
    const { place } = each.kept;
    const isNew = !existing.has(place);
    if (each.isGone) existing.delete(place);
    else existing.add(place);
    if (!isNew || each.type !== "MODIFIED") continue;
    report.assumed("an object whose first event is MODIFIED; imported as ADDED");
    each.type = "ADDED";
  }
  const changed = seen.find(({ type }) => type === "MODIFIED" || type === "DELETED") ?? seen.at(-1);
  const wasThere = ({ resource, type, kept, atMs }: Seen): boolean => {
    const rv = listed.get(resource);
    if (rv !== undefined) return type === "ADDED" && compareResourceVersions(kept.version, rv) <= 0;
    return type === "LISTED" || (type === "ADDED" && atMs < (changed?.atMs ?? atMs) - STARTED_BEFORE_MS);
  };
  const before = tableOf(RECORDED_RESOURCES, (): Kept[] => []);
  const events: ImportedEvent[] = [];
  for (const each of seen) {
    const { type, resource, kept, atMs } = each;
    if (wasThere(each)) before[resource].push(kept);
    else events.push(eventOf(kept, { resource, atMs, type: type === "LISTED" ? "ADDED" : type }));
  }
  const lists: Imported["lists"] = new Map(
    RECORDED_RESOURCES.flatMap((resource) => {
      const [items, rv] = [before[resource], listed.get(resource)];
      const isUnknown = isEvidenceResource(resource) && rv === undefined && items.length === 0;
      return isUnknown ? [] : [[resource, { rv: rv ?? newestVersion(items), items }] as const];
    }),
  );
  return { format: "watch", startMs: events[0]?.atMs ?? latestMs, endMs: latestMs, lists, events };
}

function newestVersion(items: readonly Kept[]): string {
  return items.map(({ version }) => version).reduce((newest, rv) => (compareResourceVersions(rv, newest) > 0 ? rv : newest), "0");
}
