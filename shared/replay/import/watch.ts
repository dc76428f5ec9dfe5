/**
 * What `kubectl get --watch -o json` printed, with or without `--output-watch-events`, or `kubectl get --raw '…?watch=1'`: of one
 * resource a file, as kubectl takes one at a time; several files are one cluster's, and their versions order them.
 *
 * Such a stream holds no times. They are taken from what the objects say of themselves, to the second, and never run backwards;
 * with `t` on each line (`kubectl … | while read`) that is its time.
 */
import { CACHED_RESOURCES } from "../../api/resources.ts";
import type { CachedResource } from "../../api/resources.ts";
import { compareResourceVersions } from "../../api/resource-version.ts";
import { CaptureError, RFC_3339, isObject } from "../capture.ts";
import type { CapturedObject } from "../capture.ts";
import { inVersionOrder, metadataOf, placeOf, resourceOfObject, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import type { ImportReport } from "./report.ts";
import { eventOf } from "./spool.ts";
import type { Kept, Spool } from "./spool.ts";
import { newestTimeIn } from "./times.ts";

interface Seen {
  readonly resource: CachedResource;
  readonly type: ImportedEvent["type"] | "LISTED";
  readonly kept: Kept;
  /** As the line says, or newest in what the object says of itself. */
  readonly atMs: number | undefined;
  readonly newestMs: number;
}

type Told = Omit<Seen, "kept" | "newestMs"> & { readonly object: CapturedObject };

/** What lies as far before the first change as this was there when the watch began, not made while it ran. */
const STARTED_BEFORE_MS = 2_000;

export async function importWatch(values: AsyncIterable<JsonValue>, spool: Spool, report: ImportReport): Promise<Imported> {
  const known = new Map<string, Set<string>>();
  const listed = new Map<CachedResource, string>();
  const seen: Seen[] = [];
  for await (const value of values) {
    for (const { object, ...each } of seenIn(value, listed, report)) {
      const place = placeOf(each.resource, object);
      const state = `${versionOf(object)}${each.type === "DELETED" ? " gone" : ""}`;
      const states = known.get(place) ?? new Set();
      if (states.has(state)) report.lost("a state that had come before, as after a watch that was begun anew");
      else seen.push({ ...each, kept: spool.keep(each.resource, object), newestMs: newestTimeIn(object) });
      known.set(place, states.add(state));
    }
  }
  return sequenced(typed(inVersionOrder(seen), report), listed, report);
}

function* seenIn({ value, place }: JsonValue, listed: Map<CachedResource, string>, report: ImportReport): Generator<Told> {
  if (value["k"] !== undefined)
    throw new CaptureError(`${place}: is a line of a capture already; \`deltaloop replay\` takes the file as it is`);
  const { type, object: inner, t } = value;
  if (Array.isArray(value["items"])) return yield* itemsOf(value["items"], place, report);
  if (type !== undefined && typeof type !== "string") throw new CaptureError(`${place}: type is no string`);
  const object = objectAt(type === undefined ? value : inner, place);
  const resource = resourceOfObject(object);
  if (type === "ERROR") return report.lost("an ERROR of the watch: what changed before it was begun anew is not known");
  if (!resource) return report.lost("an object of a kind that no controller here watches");
  if (type === "BOOKMARK") {
    const annotations = metadataOf(object)["annotations"];
    if (isObject(annotations) && annotations["k8s.io/initial-events-end"] === "true") listed.set(resource, versionOf(object));
    return;
  }
  if (type !== undefined && type !== "ADDED" && type !== "MODIFIED" && type !== "DELETED")
    throw new CaptureError(`${place}: unknown type of a watch event`);
  if (type === undefined)
    report.lost("an object without its event's type: that one was deleted cannot be told (kubectl's --output-watch-events tells it)");
  yield { resource, type: type ?? "MODIFIED", object, atMs: timeOf(t, place) };
}

function* itemsOf(items: readonly unknown[], place: string, report: ImportReport): Generator<Told> {
  for (const item of items) {
    const object = objectAt(item, place);
    const resource = resourceOfObject(object);
    if (resource) yield { resource, type: "LISTED", object, atMs: undefined };
    else report.lost("an object of a kind that no controller here watches");
  }
}

function timeOf(t: unknown, place: string): number | undefined {
  if (t === undefined) return undefined;
  const atMs = typeof t === "string" && RFC_3339.test(t) ? Date.parse(t) : Number.NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: t is no RFC 3339 time`);
  return atMs;
}

/** Streams say which are new; of bare objects the first state of each is taken for new. */
function typed(seen: readonly Seen[], report: ImportReport): readonly Seen[] {
  const held = new Set<string>();
  return seen.map((each) => {
    const { place } = each.kept;
    const isNew = !held.has(place);
    if (each.type === "DELETED") held.delete(place);
    else held.add(place);
    if (!isNew || each.type !== "MODIFIED") return each;
    report.invented("an object that first comes changed stands there as added");
    return { ...each, type: "ADDED" };
  });
}

/** Gives each its time, and sorts what was there at the beginning from what came. */
function sequenced(seen: readonly Seen[], listed: ReadonlyMap<CachedResource, string>, report: ImportReport): Imported {
  let atMs = 0;
  const timed = seen.map((each) => {
    if (each.atMs === undefined) report.invented("a time, from what the objects say of themselves, to the second");
    atMs = Math.max(atMs, each.atMs ?? each.newestMs);
    return { ...each, atMs };
  });
  const changed = timed.find(({ type }) => type === "MODIFIED" || type === "DELETED") ?? timed.at(-1);
  const wasThere = ({ resource, type, kept, atMs: at }: (typeof timed)[number]): boolean => {
    const rv = listed.get(resource);
    if (rv !== undefined) return type === "ADDED" && compareResourceVersions(kept.version, rv) <= 0;
    return type === "LISTED" || (type === "ADDED" && at < (changed?.atMs ?? at) - STARTED_BEFORE_MS);
  };
  const before = timed.filter(wasThere);
  const after = timed.filter((each) => !wasThere(each));
  const lists: Imported["lists"] = new Map(
    CACHED_RESOURCES.map((resource) => {
      const items = before.filter((each) => each.resource === resource).map(({ kept }) => kept);
      return [resource, { rv: listed.get(resource) ?? newestVersion(items), items }];
    }),
  );
  return {
    format: "watch",
    startMs: after[0]?.atMs ?? atMs,
    endMs: atMs,
    lists,
    events: after.map(({ type, resource, kept, atMs: at }) =>
      eventOf(kept, { resource, atMs: at, type: type === "LISTED" ? "ADDED" : type }),
    ),
  };
}

function newestVersion(items: readonly Kept[]): string {
  return items.map(({ version }) => version).reduce((newest, rv) => (compareResourceVersions(rv, newest) > 0 ? rv : newest), "0");
}
