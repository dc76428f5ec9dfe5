/** What every importer makes of its file, and the capture that it becomes. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText } from "@deltaloop/base";
import { compareResourceVersions, isResourceVersion, CACHED_RESOURCES, RESOURCES, objectKey } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { CAPTURE_FORMAT, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { redacted } from "../capture-format/redact.ts";
import type { ImportReport } from "./report.ts";

export interface ImportedEvent {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** May be read anew each time it is asked for (spool.ts). */
  readonly object: CapturedObject;
  /** Who wrote it, where that is known. */
  readonly by?: string;
}

export interface Imported {
  readonly format: "watch" | "audit" | "kshrk" | "queue";
  readonly startMs: number;
  readonly endMs: number;
  /** What was there when it began. A list's version is older than each event of its resource. */
  readonly lists: ReadonlyMap<CachedResource, { readonly rv: string; readonly items: readonly Pick<ImportedEvent, "object">[] }>;
  /** In the order of a watch. */
  readonly events: readonly ImportedEvent[];
  /** In the order of time. */
  readonly gaps?: readonly ImportedGap[];
}

/** Something is missing there, between two versions. */
export interface ImportedGap {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly from: string;
  readonly to: string;
  /** Since the last that is there. */
  readonly ms: number;
  readonly why: string;
}

export interface CaptureOptions {
  readonly digester: Digester;
  readonly redact: boolean;
  readonly report: ImportReport;
}

/** The lines of a capture file, without newlines. What the cache could not hold is left out and reported. */
export function* captureLines({ format, startMs, endMs, lists, events, gaps = [] }: Imported, options: CaptureOptions): Generator<string> {
  const { digester, redact, report } = options;
  let lines = 0;
  const line = (atMs: number, fields: object): string =>
    exactText({ t: new Date(atMs).toISOString().replace("Z", "000Z"), n: lines++, m: Math.round((atMs - startMs) * 1000), ...fields });
  const seen = (resource: CachedResource, object: CapturedObject): object | undefined => {
    try {
      const stripped = redacted(resource, object, digester);
      return redact ? stripped : object;
    } catch {
      report.lost("an object without name, namespace, uid, decimal resourceVersion or template, which no cache holds");
      return undefined;
    }
  };
  // What a queue holds was digested with the deployment's key.
  const isDigestedHere = redact && format !== "queue";
  yield line(startMs, {
    k: "meta",
    format: CAPTURE_FORMAT,
    from: format,
    raw: !redact,
    digest: isDigestedHere ? digester.prefix : undefined,
  });
  for (const resource of CACHED_RESOURCES) {
    const list = lists.get(resource);
    for (const item of list?.items ?? []) {
      const object = seen(resource, item.object);
      if (object) yield line(startMs, { r: resource, k: "item", object });
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
    // Components and service accounts are named; a person's name is the person's.
    const by = redact && event.by?.startsWith("system:") !== true ? undefined : event.by;
    const object = seen(resource, event.object);
    if (object) yield line(atMs, { r: resource, type, by, object });
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

/** Resource and key: what a cache holds one object under. */
export function placeOf(resource: CachedResource, object: CapturedObject): string {
  const { namespace, name } = namedIn(object);
  return `${resource} ${objectKey(String(namespace), String(name))}`;
}

export function resourceOfObject(object: CapturedObject): CachedResource | undefined {
  const { kind, apiVersion } = object;
  return CACHED_RESOURCES.find(
    (each) => RESOURCES[each].kind === kind && (apiVersion === undefined || apiVersion === RESOURCES[each].apiVersion),
  );
}

/** Versions of one etcd order everything that it holds, across resources. */
export function inVersionOrder<E extends { readonly kept: { readonly version: string } }>(events: readonly E[]): readonly E[] {
  return events.toSorted((a, b) => compareResourceVersions(a.kept.version, b.kept.version));
}

/** Of states in the order of versions those that did not stand there before. @param again hears of each other one */
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
