/** The common result of all importers, and its conversion to a capture. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText } from "@deltaloop/base";
import { CACHED_RESOURCES, compareResourceVersions, isResourceVersion, RESOURCES, objectKey } from "@deltaloop/kube/objects";
import { CAPTURE_FORMAT, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { RECORDED_RESOURCES } from "../capture-format/recorded-resources.ts";
import type { RecordedResource } from "../capture-format/recorded-resources.ts";
import { isEvidenceResource } from "../capture-format/recorded-resources.ts";
import { recorded } from "../capture-format/redact.ts";
import type { ImportReport } from "./report.ts";

export interface ImportedEvent {
  readonly atMs: number;
  readonly resource: RecordedResource;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** The object, which may be read from disk on each access (spool.ts). */
  readonly object: CapturedObject;
  /** The user who wrote it, if known. */
  readonly by?: string;
}

export interface Imported {
  readonly format: "watch" | "audit" | "kshrk" | "queue";
  readonly startMs: number;
  readonly endMs: number;
  /** The initial objects. The version of a list is older than each event of its resource. */
  readonly lists: ReadonlyMap<RecordedResource, { readonly rv: string; readonly items: readonly Pick<ImportedEvent, "object">[] }>;
  /** The events in watch order. */
  readonly events: readonly ImportedEvent[];
  /** Sorted by time. */
  readonly gaps?: readonly ImportedGap[];
}

/** Missing records between two versions. */
export interface ImportedGap {
  readonly atMs: number;
  readonly resource: RecordedResource;
  readonly from: string;
  readonly to: string;
  /** Time since the last record before the gap. */
  readonly ms: number;
  readonly why: string;
}

export interface CaptureOptions {
  readonly digester: Digester;
  readonly redact: boolean;
  readonly report: ImportReport;
}

/** The lines of a capture file, without newlines. Omits and reports objects that the cache could not store. */
export function* captureLines({ format, startMs, endMs, lists, events, gaps = [] }: Imported, options: CaptureOptions): Generator<string> {
  const { digester, redact, report } = options;
  let lines = 0;
  const line = (atMs: number, fields: object): string =>
    exactText({ t: new Date(atMs).toISOString().replace("Z", "000Z"), n: lines++, m: Math.round((atMs - startMs) * 1000), ...fields });
  const seen = (resource: RecordedResource, object: CapturedObject): object | undefined => {
    try {
      const shown = recorded(resource, object, digester);
      if (shown !== undefined) return !redact ? { object } : format === "queue" ? { object: shown.object } : shown;
    } catch {
      // an undefined object is omitted and reported below, like an object without identity
    }
    report.lost("an object without name, namespace, uid, decimal resourceVersion or template, which the cache would not store");
    return undefined;
  };
  // Objects of a queue were digested with the deployment's key.
  const isDigestedHere = redact && format !== "queue";
  yield line(startMs, {
    k: "meta",
    format: CAPTURE_FORMAT,
    from: format,
    raw: !redact,
    digest: isDigestedHere ? digester.prefix : undefined,
  });
  for (const resource of RECORDED_RESOURCES) {
    const list = lists.get(resource);
    if (list === undefined && isEvidenceResource(resource)) continue;
    for (const item of list?.items ?? []) {
      const shown = seen(resource, item.object);
      if (shown) yield line(startMs, { r: resource, k: "item", ...shown });
    }
    yield line(startMs, { r: resource, k: "listend", rv: list?.rv ?? "0" });
  }
  const left = [...gaps];
  const gapsUntil = function* (untilMs: number): Generator<string> {
    for (let gap = left[0]; gap !== undefined && gap.atMs <= untilMs; gap = left[0]) {
      const { atMs, resource: r, ...rest } = gap;
      left.shift();
      yield line(atMs, { r, k: "gap", ...rest });
    }
  };
  for (const event of events) {
    const { atMs, resource, type } = event;
    yield* gapsUntil(atMs);
    // Names of components and service accounts are kept; user names are redacted.
    const by = redact && event.by?.startsWith("system:") !== true ? undefined : event.by;
    const shown = seen(resource, event.object);
    if (shown) yield line(atMs, { r: resource, type, by, ...shown });
  }
  yield* gapsUntil(Infinity);
  for (const resource of CACHED_RESOURCES) yield line(endMs, { r: resource, k: "close", how: "stopped" });
}

export function metadataOf(object: CapturedObject): CapturedObject {
  const metadata = object["metadata"];
  return isObject(metadata) ? metadata : {};
}

export function versionOf(object: CapturedObject): string {
  const { resourceVersion } = namedIn(object);
  return typeof resourceVersion === "string" && isResourceVersion(resourceVersion) ? resourceVersion : "0";
}

/** A stripped pod is flat. */
function namedIn(object: CapturedObject): CapturedObject {
  return object["metadata"] === undefined ? object : metadataOf(object);
}

/** Resource and key: identifies one object in the cache. */
export function placeOf(resource: RecordedResource, object: CapturedObject): string {
  const { namespace, name } = namedIn(object);
  return `${resource} ${objectKey(String(namespace), String(name))}`;
}

export function resourceOfObject(object: CapturedObject): RecordedResource | undefined {
  const { kind, apiVersion } = object;
  return RECORDED_RESOURCES.find(
    (each) => RESOURCES[each].kind === kind && (apiVersion === undefined || apiVersion === RESOURCES[each].apiVersion),
  );
}

/** Sorts by version, which orders all objects of one etcd, across resources. */
export function inVersionOrder<E extends { readonly kept: { readonly version: string } }>(events: readonly E[]): readonly E[] {
  return events.toSorted((a, b) => compareResourceVersions(a.kept.version, b.kept.version));
}

/** Skips states that repeat the current version. @param again called for each skipped state */
export function* eachOnce<E extends { readonly kept: { readonly place: string; readonly version: string }; readonly isGone: boolean }>(
  states: Iterable<E>,
  again: () => void,
): Generator<E> {
  let version = "";
  const own = new Set<string>();
  for (const state of states) {
    if (state.kept.version !== version) own.clear();
    version = state.kept.version;
    const id = `${state.kept.place}${state.isGone ? " gone" : ""}`;
    if (own.has(id)) again();
    else yield state;
    own.add(id);
  }
}
