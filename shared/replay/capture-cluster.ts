/**
 * An API server made of a capture, for the replaying watcher and for live reads: lists answer what the stream held when it
 * began, watches yield each event at its own time, reads answer the stream's newest state (design decision 9).
 */
import type { CachedResource, Resource } from "../api/resources.ts";
import { compareResourceVersions, isResourceVersion } from "../api/resource-version.ts";
import type { KubeObject } from "../api/wire.ts";
import { parseLabelSelector } from "../local/api-server/storage/selectors.ts";
import type { Clock } from "../ports/clock.ts";
import { KubeApiError } from "../ports/errors.ts";
import type { KubeList, KubeReader, KubeWatch, ListPage, WatchQuery } from "../ports/kube.ts";
import type { CapturedObject, CaptureRecord } from "./capture.ts";

interface Timeline {
  /** State at the start of the stream. */
  readonly initial: readonly CapturedObject[];
  readonly listRV: string;
  readonly events: readonly { readonly atMs: number; readonly type: string; readonly object: CapturedObject; readonly rv: string }[];
}

export interface CaptureCluster extends KubeWatch, KubeReader {
  readonly startMs: number;
  readonly endMs: number;
  /** By key: the versions of what the stream has told until now. */
  versions(resource: CachedResource): ReadonlyMap<string, string>;
}

export function captureCluster(records: readonly CaptureRecord[], resources: readonly CachedResource[], clock: Clock): CaptureCluster {
  const timelines = new Map(resources.map((resource) => [resource, timelineOf(records.filter((record) => record.resource === resource))]));
  const times = records.map((record) => record.atMs);
  const newest = (resource: Resource): ReadonlyMap<string, CapturedObject> =>
    newestAt(timelines.get(resource as CachedResource), clock.now());
  return {
    startMs: times.reduce((least, t) => Math.min(least, t), Infinity),
    endMs: times.reduce((most, t) => Math.max(most, t), -Infinity),
    versions: (resource) => new Map([...newest(resource)].map(([key, object]) => [key, versionOf(object)])),
    listPage: (resource) => Promise.resolve(listOf(timelines.get(resource))),
    newestVersion: (resource) => Promise.resolve(newestVersionAt(timelines.get(resource), clock.now())),
    watch: (resource, query, signal) => eventsOf(timelines.get(resource), query, clock, signal),
    get: (resource, namespace, name) => Promise.resolve(newest(resource).get(`${namespace}/${name}`) as KubeObject | undefined),
    list: (resource, namespace, options) => {
      const selected = parseLabelSelector(options?.labelSelector ?? "");
      const items = [...newest(resource)]
        .filter(([key, object]) => key.startsWith(`${namespace}/`) && selected(labelsOf(object)))
        .map(([, object]) => object);
      const list: KubeList = { resourceVersion: "0", items: items as unknown as KubeObject[] }; // captured objects are API objects
      return Promise.resolve(list);
    },
  };
}

function timelineOf(records: readonly CaptureRecord[]): Timeline {
  const initial = new Map<string, CapturedObject>();
  const events: { atMs: number; type: string; object: CapturedObject; rv: string }[] = [];
  let listRV = "0";
  // A stream that began with synthetic adds says where they end; a plain list says it with `listend`.
  const boundary = records.findIndex((record) => record.kind === "listed" || isInitialEnd(record));
  const again: CapturedObject[] = [];
  records.forEach((record, index) => {
    if (record.kind === "listed") {
      if (index === boundary) listRV = record.rv ?? "0";
      else events.push(...relisted(record, again.splice(0), newestAt({ initial: [...initial.values()], listRV, events }, Infinity)));
      return;
    }
    if (record.kind === "item" && index > boundary && record.object) return void again.push(record.object);
    if (!record.object || record.kind === "close") return;
    const rv = versionOf(record.object);
    if (index < boundary && record.type !== "BOOKMARK") return void initial.set(keyOf(record.object), record.object);
    if (index === boundary) listRV = rv;
    else if (record.kind === "event" && record.type !== undefined && isResourceVersion(rv))
      events.push({ atMs: record.atMs, type: record.type, object: record.object, rv });
  });
  return { initial: [...initial.values()], listRV, events };
}

/** What a list that is not the first shows to have happened, as a watch would have told it. */
function relisted(
  { atMs, rv: listRV = "0" }: CaptureRecord,
  items: readonly CapturedObject[],
  known: ReadonlyMap<string, CapturedObject>,
): Timeline["events"] {
  const listed = new Map(items.map((object) => [keyOf(object), object]));
  const changed = [...listed].flatMap(([key, object]) => {
    const [before, rv] = [known.get(key), versionOf(object)];
    if (before !== undefined && versionOf(before) === rv) return [];
    return isResourceVersion(rv) ? [{ atMs, type: before === undefined ? "ADDED" : "MODIFIED", object, rv }] : [];
  });
  const gone = [...known].flatMap(([key, object]) =>
    listed.has(key) ? [] : [{ atMs, type: "DELETED", object: withVersion(object, listRV), rv: listRV }],
  );
  return [...changed.toSorted((a, b) => compareResourceVersions(a.rv, b.rv)), ...gone];
}

/** A stripped pod is flat. */
function withVersion(object: CapturedObject, resourceVersion: string): CapturedObject {
  return isFlat(object) ? { ...object, resourceVersion } : { ...object, metadata: { ...metaOf(object), resourceVersion } };
}

function isFlat(object: CapturedObject): boolean {
  return object["metadata"] === undefined;
}

/** The bookmark behind the last of the synthetic adds with which a stream began. */
export function isInitialEnd({ type, object }: CaptureRecord): boolean {
  const metadata = object?.["metadata"] as { readonly annotations?: Readonly<Record<string, string>> } | undefined;
  return type === "BOOKMARK" && metadata?.annotations?.["k8s.io/initial-events-end"] === "true";
}

function listOf(timeline: Timeline | undefined): ListPage {
  return { resourceVersion: timeline?.listRV ?? "0", items: timeline?.initial ?? [] };
}

async function* eventsOf(
  timeline: Timeline | undefined,
  query: WatchQuery,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  if (query.sendInitialEvents) throw new KubeApiError({ code: 422, reason: "Invalid", message: "a capture is listed by pages" });
  const from = query.resourceVersion ?? "0";
  for (const event of timeline?.events ?? []) {
    if (compareResourceVersions(event.rv, from) <= 0) continue;
    if (event.atMs > clock.now()) await clock.after(event.atMs - clock.now(), signal);
    yield [JSON.stringify({ type: event.type, object: event.object })];
  }
  await clock.after(Number.MAX_SAFE_INTEGER / 2, signal); // nothing more comes; the replay ends the stream
}

function newestVersionAt(timeline: Timeline | undefined, nowMs: number): string {
  return timeline?.events.findLast(({ atMs }) => atMs <= nowMs)?.rv ?? timeline?.listRV ?? "0";
}

function newestAt(timeline: Timeline | undefined, nowMs: number): ReadonlyMap<string, CapturedObject> {
  const objects = new Map((timeline?.initial ?? []).map((object) => [keyOf(object), object]));
  for (const { atMs, type, object } of timeline?.events ?? []) {
    if (atMs > nowMs) break;
    if (type === "DELETED") objects.delete(keyOf(object));
    else if (type === "ADDED" || type === "MODIFIED") objects.set(keyOf(object), object);
  }
  return objects;
}

/** A stripped pod is flat; everything else has metadata. */
function metaOf(object: CapturedObject): CapturedObject {
  return (object["metadata"] as CapturedObject | undefined) ?? object;
}

function keyOf(object: CapturedObject): string {
  const { namespace, name } = metaOf(object);
  return `${String(namespace)}/${String(name)}`;
}

function versionOf(object: CapturedObject): string {
  return String(metaOf(object)["resourceVersion"] ?? "0");
}

function labelsOf(object: CapturedObject): Readonly<Record<string, string>> {
  return (metaOf(object)["labels"] as Readonly<Record<string, string>> | undefined) ?? {};
}
