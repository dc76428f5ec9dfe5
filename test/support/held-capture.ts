/** Captures read at once instead of as a stream, and the results of the product's incremental readers for all records. */
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { CACHED_RESOURCES } from "../../shared/kube/objects/resources.ts";
import type { Digester } from "../../shared/kube/pod-template/digest.ts";
import type { Capture } from "../../shared/replay/capture-format/capture-stream.ts";
import { readUnpacked, RecordReader, type CaptureNote, type CaptureRecord } from "../../shared/replay/capture-format/capture.ts";
import { isInitialEnd } from "../../shared/replay/capture-format/captured-object.ts";
import { SeenLife, type Life } from "../../shared/replay/closed/life.ts";
import { ChangeTracker, type ObjectChange } from "../../shared/replay/explain/changes.ts";
import type { SyncPlace } from "../../shared/replay/shadow/one-sync.ts";
import { RecordedShadow, type Finding } from "../../shared/replay/shadow/recorded.ts";
import { changeOf, inOrder, type Change, type ChangeOptions } from "../../shared/replay/shadow/states.ts";
import type { UpstreamWrite } from "../../shared/replay/shadow/upstream-writes.ts";

const UNHEARD: CaptureNote = () => undefined;

/** The records of a file, sorted by time. */
export function readCapture(path: string, note = UNHEARD): readonly CaptureRecord[] {
  return parseCapture(readUnpacked(path, note), path, note);
}

/** The records of a capture's content, sorted by time. */
export function parseCapture(content: string | Buffer, name: string, note = UNHEARD): readonly CaptureRecord[] {
  const reader = new RecordReader(name, Infinity, note);
  const lines = content.toString().split("\n");
  const last = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  const records = lines.slice(0, last).flatMap((line, index) => reader.record(line, index + 1, index === lines.length - 1) ?? []);
  reader.end();
  return records.toSorted((a, b) => a.atMs - b.atMs);
}

/** A capture of records that are sorted by time. */
export function heldCapture(records: readonly CaptureRecord[]): Capture {
  const counts = new Map<CachedResource, number>();
  const firstLists = new Map<CachedResource, number>();
  for (const record of records) {
    const { resource, kind, type } = record;
    const count = (counts.get(resource) ?? 0) + 1;
    counts.set(resource, count);
    const isEnd = kind === "listed" || (type === "BOOKMARK" && isInitialEnd(record));
    if (isEnd && !firstLists.has(resource)) firstLists.set(resource, count);
  }
  return {
    ...{ startMs: records[0]?.atMs ?? Infinity, endMs: records.at(-1)?.atMs ?? -Infinity, records: records.length, firstLists },
    async *batches() {
      for (let start = 0; start < records.length; start += 500) yield await Promise.resolve(records.slice(start, start + 500));
    },
    close: () => undefined,
  };
}

/** The changes of all objects (`shadow/states.ts`) in the order of versions, without duplicates. */
export function changesOf(records: readonly CaptureRecord[], options: ChangeOptions): readonly Change[] {
  const changes = new Map<string, Change>();
  const listing = new Set(CACHED_RESOURCES.filter((resource) => records.some((each) => each.resource === resource && isInitialEnd(each))));
  for (const record of records) {
    if (isInitialEnd(record)) listing.delete(record.resource);
    const change = changeOf(record, listing.has(record.resource), options);
    if (change === undefined) continue;
    const id = `${change.object.metadata.uid} ${change.version}`;
    if (!changes.has(id)) changes.set(id, change);
  }
  return inOrder([...changes.values()]);
}

/** The user requests and objects for a closed replay of all changes. */
export function lifeOf(changes: readonly Change[]): Life {
  const seen = new SeenLife("the recording");
  for (const change of changes) seen.see(change);
  return seen.life;
}

/** The differences between versions (`explain/changes.ts`) of all records. */
export function objectChanges(records: readonly CaptureRecord[], digester: Digester): readonly ObjectChange[] {
  const tracker = new ChangeTracker(digester);
  return records.flatMap((record) => tracker.of(record));
}

/** Compares all changes with our syncs. @param audited upstream's writes; if absent, they are derived from the changes */
export async function* shadow(changes: readonly Change[], place: SyncPlace, audited?: readonly UpstreamWrite[]): AsyncGenerator<Finding> {
  const written =
    audited &&
    (async function* () {
      for (const write of audited) yield await Promise.resolve(write);
    })();
  yield* new RecordedShadow(place, { audited: written }).take({ changes, completeMs: Infinity });
}
