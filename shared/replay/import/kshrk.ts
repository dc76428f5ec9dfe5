/**
 * Imports a k8shark archive (`.kshrk`, format 1): a ZIP with one entry, `records/HASH/SEQUENCE.json.zst`, per poll. Consecutive
 * lists are compared, so several changes between two polls appear as one or none.
 */
import { zstdDecompressSync } from "node:zlib";
import { fromBufferPromise } from "yauzl";
import type { Entry, ZipFile } from "yauzl";
import { CACHED_RESOURCES, messageOf, minResourceVersion, RESOURCES } from "@deltaloop/kube/objects";
import { parseExact } from "@deltaloop/base";
import { CaptureError, RFC_3339, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { RECORDED_RESOURCES } from "../capture-format/recorded-resources.ts";
import type { RecordedResource } from "../capture-format/recorded-resources.ts";
import { metadataOf, placeOf, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { ImportReport } from "./report.ts";

interface Poll {
  readonly atMs: number;
  readonly path: string;
  readonly resource: RecordedResource;
  readonly rv: string;
  readonly items: readonly CapturedObject[];
}

type Change = Pick<ImportedEvent, "type" | "object">;

const RECORD = /(?:^|\/)records\/[^/]+\/[^/]+\.json(?<packed>\.zst)?$/;
const LIST_PATHS = RECORDED_RESOURCES.map((resource) => ({
  resource,
  pattern: new RegExp(`^/${RESOURCES[resource].path}/(?:namespaces/[^/?]+/)?${resource}$`),
}));
const MIB = 2 ** 20;
const ENTRIES_MAX = 100_000;
const ENTRY_BYTES_MAX = 64 * MIB;
/** Limit of all entries together. */
const UNPACKED_BYTES_MAX = 256 * MIB;

export async function importKshrk(bytes: Buffer, name: string, report: ImportReport): Promise<Imported> {
  const polls: Poll[] = [];
  let unpacked = 0;
  for await (const { entry, content } of entriesOf(bytes, name)) {
    const place = `${name}: ${entry}`;
    const room = Math.min(ENTRY_BYTES_MAX, UNPACKED_BYTES_MAX - unpacked);
    const text = unpackedEntry(content, entry.endsWith(".zst"), room, place);
    unpacked += text.length;
    const poll = pollOf(text, place, report);
    if (poll) polls.push(poll);
  }
  if (polls.length === 0) throw new CaptureError(`${name}: archive contains no list of a watched resource`);
  for (const resource of CACHED_RESOURCES)
    if (!polls.some((poll) => poll.resource === resource)) report.lost(`no list of ${resource}: decisions assume that there are none`);
  return watched(
    polls.toSorted((a, b) => a.atMs - b.atMs),
    report,
  );
}

/** The record entries in archive order. */
async function* entriesOf(bytes: Buffer, name: string): AsyncGenerator<{ readonly entry: string; readonly content: Buffer }> {
  try {
    const zip = await fromBufferPromise(bytes, { lazyEntries: true });
    if (zip.entryCount > ENTRIES_MAX) throw new CaptureError(`${name}: archive has more than ${ENTRIES_MAX} entries`);
    for await (const entry of zip.eachEntry()) {
      if (!RECORD.test(entry.fileName)) continue;
      if (entry.uncompressedSize > ENTRY_BYTES_MAX) throw tooLarge(`${name}: ${entry.fileName}`, ENTRY_BYTES_MAX);
      yield { entry: entry.fileName, content: await contentOf(zip, entry) };
    }
  } catch (error) {
    throw error instanceof CaptureError
      ? error
      : new CaptureError(`${name}: the ZIP archive is corrupt or truncated (${messageOf(error)})`);
  }
}

/** yauzl fails the stream if an entry exceeds its declared size. */
async function contentOf(zip: ZipFile, entry: Entry): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk as Buffer); // no encoding is set
  return Buffer.concat(chunks);
}

function unpackedEntry(content: Buffer, isPacked: boolean, room: number, place: string): Buffer {
  if (!isPacked) {
    if (content.length > room) throw tooLarge(place, room);
    return content;
  }
  try {
    return zstdDecompressSync(content, { maxOutputLength: Math.max(room, 1) });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(place, room);
    throw new CaptureError(`${place}: the zstd data is corrupt or truncated (${messageOf(error)})`);
  }
}

function tooLarge(place: string, room: number): CaptureError {
  if (room < ENTRY_BYTES_MAX) return new CaptureError(`${place}: entry raises the archive above ${UNPACKED_BYTES_MAX / MIB} MiB unpacked`);
  return new CaptureError(`${place}: entry is larger than ${ENTRY_BYTES_MAX / MIB} MiB unpacked`);
}

/** Returns undefined for responses that are not lists of watched resources: tables, logs, single objects, other kinds. */
function pollOf(text: Buffer, place: string, report: ImportReport): Poll | undefined {
  let record: unknown;
  try {
    record = parseExact(text.toString());
  } catch {
    throw new CaptureError(`${place}: not JSON`); // drops V8's message, which would quote the input
  }
  if (!isObject(record)) throw new CaptureError(`${place}: record is not a JSON object`);
  const { api_path: path, captured_at: at, response_code: code, response_body: body } = record;
  const resource = typeof path === "string" ? LIST_PATHS.find(({ pattern }) => pattern.test(path))?.resource : undefined;
  if (!resource || typeof path !== "string") return undefined;
  if (code !== 200 || !isObject(body)) {
    report.lost("a poll that the API server rejected");
    return undefined;
  }
  const atMs = typeof at === "string" && RFC_3339.test(at) ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: captured_at is not an RFC 3339 time`);
  const items = Array.isArray(body["items"]) ? body["items"].map((item) => ({ ...typeOf(resource), ...objectAt(item, place) })) : [];
  return { atMs, path, resource, rv: versionOf(body), items };
}

/** Returns the type of the items, which a list contains only once. */
function typeOf(resource: RecordedResource): CapturedObject {
  return { kind: RESOURCES[resource].kind, apiVersion: RESOURCES[resource].apiVersion };
}

/** The first poll of each path is the initial state; later polls are compared with their predecessor. */
function watched(polls: readonly Poll[], report: ImportReport): Imported {
  const previous = new Map<string, ReadonlyMap<string, CapturedObject>>();
  const lists = new Map<RecordedResource, { readonly rv: string; readonly items: readonly Change["object"][] }>();
  const events: ImportedEvent[] = [];
  for (const { path, resource, atMs, rv, items } of polls) {
    const now = new Map(items.map((item) => [placeOf(resource, item), item]));
    const before = previous.get(path);
    previous.set(path, now);
    if (before) {
      report.lost("changes between two polls of a list: short-lived objects and intermediate states");
      events.push(...changes(before, now, rv, report).map((change) => ({ atMs, resource, ...change })));
      continue;
    }
    const list = lists.get(resource);
    // Keeps the oldest version, so that no later poll of another namespace counts as listed.
    lists.set(resource, { rv: list ? minResourceVersion(list.rv, rv) : rv, items: [...(list?.items ?? []), ...items] });
  }
  return {
    ...{ format: "kshrk", startMs: polls[0]?.atMs ?? 0, endMs: polls.at(-1)?.atMs ?? 0, events },
    lists: new Map([...lists].map(([resource, { rv, items }]) => [resource, { rv, items: items.map((object) => ({ object })) }])),
  };
}

/** The minimal watch events that turn `before` into `now`. */
function changes(
  before: ReadonlyMap<string, CapturedObject>,
  now: ReadonlyMap<string, CapturedObject>,
  rv: string,
  report: ImportReport,
): readonly Change[] {
  const events: Change[] = [];
  for (const [place, object] of before) {
    if (uidOf(now.get(place)) === uidOf(object)) continue;
    report.assumed("time, resourceVersion and last state of a deletion that only a later list implies");
    // The event has the list's version, because the deletion is between this version and the last seen version of the object.
    events.push({ type: "DELETED", object: { ...object, metadata: { ...metadataOf(object), resourceVersion: rv } } });
  }
  for (const [place, object] of now) {
    const last = before.get(place);
    if (uidOf(last) !== uidOf(object)) events.push({ type: "ADDED", object });
    else if (last && versionOf(last) !== versionOf(object)) events.push({ type: "MODIFIED", object });
  }
  return events;
}

function uidOf(object: CapturedObject | undefined): unknown {
  return object && metadataOf(object)["uid"];
}
