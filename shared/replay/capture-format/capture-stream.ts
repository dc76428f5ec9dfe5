/**
 * A capture as a stream that can be read repeatedly and is never held in memory.
 *
 * CS1 it is read completely once before use, so that all errors are reported first; with `skims`, only errors in objects that are parsed.
 * CS2 at most `LINES_HELD_MAX` records and a chunk of 64 KiB are buffered, however long it is; the first read also keeps names and sizes of
 *     the existing objects.
 * CS3 batches end at the same records each time.
 */
import type { CachedResource } from "@deltaloop/kube/objects";
import { identityIn, isInitialEnd } from "./captured-object.ts";
import { CaptureError, RecordReader, refuseArchive } from "./capture.ts";
import type { CaptureNote, CaptureRecord, EvidenceRecord, OtherLines } from "./capture.ts";
import { CutOffError, linesOf, openBytes } from "./line-stream.ts";
import type { ByteSource } from "./line-stream.ts";
import { SkimError, Skimmer } from "./skim.ts";
import { TimeWindow, WINDOW_LINES } from "./time-window.ts";

export interface Capture {
  /** Milliseconds since the epoch of the first and the last record. */
  readonly startMs: number;
  readonly endMs: number;
  readonly records: number;
  /** The versions that the recorded API server reported, as `v1.37.2`, in time order; absent: the capture has none. */
  readonly versions?: readonly RecordedVersion[];
  /** Number of records up to and including the end of a resource's first list; absent: never listed. */
  readonly firstLists: ReadonlyMap<CachedResource, number>;
  /** The records by time; each call starts from the beginning. */
  batches(): AsyncIterable<readonly CaptureRecord[]>;
  close(): void;
}

export interface RecordedVersion {
  readonly fromMs: number;
  readonly kubernetes: string;
}

/** Observes the records of the first read, in order. */
export interface Census {
  /** The read restarts: discard the state. */
  begin(): void;
  see(record: CaptureRecord): void;
  /** Receives evidence records in the order of the file. */
  seeEvidence?(record: EvidenceRecord): void;
  /**
   * Called after the last record; may parse skimmed records. @throws {SkimError} if a skimmed line is not a valid record: the read restarts
   */
  end?(): void;
}

export interface OpenOptions {
  /** Receives one line about each problem of the capture. */
  readonly note?: CaptureNote;
  readonly census?: Census;
  /** Limit of the objects that exist at one time, because a replay keeps them. Default 256 MiB. */
  readonly standingBytesMax?: number;
  /**
   * For a caller that needs only the census and few objects: parses only these, and reports only their errors. `batches` must not be
   * called.
   */
  readonly skims?: boolean;
}

const BATCH = 500;
const BATCH_BYTES = 4 * 2 ** 20;
/** CS2 */
export const LINES_HELD_MAX = WINDOW_LINES + 2 * BATCH;
/** 16 MiB of highly compressible data can reach this size; reading it takes minutes. */
const UNPACKED_BYTES_MAX = 16 * 2 ** 30;
const STREAMED_RECORDS_MAX = 20_000_000;
const STANDING_BYTES_MAX = 256 * 2 ** 20;
const [MIB, GIB] = [2 ** 20, 2 ** 30];

/** @throws {CaptureError} when it is not a capture or exceeds a limit, with the line; {Error} when it cannot be read */
export async function openCapture(path: string, { note = UNHEARD, census, skims = false }: OpenOptions = {}): Promise<Capture> {
  const source = openBytes(path, note);
  try {
    refuseArchive(path, source.head);
    return await captureIn(source, path, { note, skims, ...(census && { census }) });
  } catch (error) {
    source.close();
    throw error;
  }
}

/** @param name the file name for messages */
export async function captureIn(source: ByteSource, name: string, options: OpenOptions = {}): Promise<Capture> {
  const { note = UNHEARD, census, standingBytesMax = STANDING_BYTES_MAX } = options;
  let { skims = false } = options;
  let [notes, cutOff]: [string[], readonly string[]] = [[], []];
  const versions: RecordedVersion[] = [];
  const release = (kubernetes: string, fromMs: number): void => void versions.push({ fromMs, kubernetes });
  const scan = async (): Promise<Scan> => {
    versions.length = 0;
    census?.begin();
    const scanned = new Scan(name, standingBytesMax);
    const skimmer = skims ? new Skimmer() : undefined;
    const skim = skimmer && ((text: string) => skimmer.skim(text));
    const evidence = (record: EvidenceRecord): void => census?.seeEvidence?.(record);
    const heard: Heard = { note: (text) => notes.push(text), bytes: (bytes) => scanned.unpacked(bytes), evidence, release, skim };
    for await (const batch of batchesOf(source, name, heard))
      for (const { record, bytes } of batch) {
        scanned.see(record, bytes);
        census?.see(record);
      }
    census?.end?.();
    return scanned;
  };
  const again = async (error: unknown): Promise<Scan> => {
    if (error instanceof CutOffError) cutOff = [error.message];
    else if (error instanceof SkimError && skims) skims = false;
    else throw error;
    notes = [...cutOff];
    return scan().catch(again);
  };
  const scanned = await scan().catch(again);
  for (const text of notes) note(text);
  const { startMs, endMs, records, firstLists } = scanned;
  return {
    ...{ startMs, endMs, records, firstLists, ...(versions.length > 0 && { versions }) },
    async *batches() {
      for await (const batch of batchesOf(source, name, {})) yield batch.map(({ record }) => record);
    },
    close: () => source.close(),
  };
}

const UNHEARD: CaptureNote = () => undefined;

/** Collects the facts needed before the first use. */
class Scan {
  readonly #name: string;
  readonly #standingBytesMax: number;
  readonly #counts = new Map<CachedResource, number>();
  /** Sizes of the existing objects. */
  readonly #standing = new Map<CachedResource, Map<string, number>>();
  /** Keys in the current list. */
  readonly #shown = new Map<CachedResource, Set<string>>();
  #standingBytes = 0;
  #unpacked = 0;
  readonly firstLists = new Map<CachedResource, number>();
  records = 0;
  startMs = Infinity;
  endMs = -Infinity;

  constructor(name: string, standingBytesMax: number) {
    this.#name = name;
    this.#standingBytesMax = standingBytesMax;
  }

  unpacked(bytes: number): void {
    this.#unpacked += bytes;
    if (this.#unpacked > UNPACKED_BYTES_MAX)
      throw new CaptureError(
        `${this.#name}: capture contains more than ${UNPACKED_BYTES_MAX / GIB} GiB unpacked; a replay supports no more`,
      );
  }

  see(record: CaptureRecord, bytes: number): void {
    const { atMs, resource, kind, type } = record;
    this.records++;
    [this.startMs, this.endMs] = [Math.min(this.startMs, atMs), Math.max(this.endMs, atMs)];
    const count = (this.#counts.get(resource) ?? 0) + 1;
    this.#counts.set(resource, count);
    if (!this.firstLists.has(resource) && (kind === "listed" || (type === "BOOKMARK" && isInitialEnd(record))))
      this.firstLists.set(resource, count);
    const standing = this.#standing.get(resource) ?? new Map<string, number>();
    this.#standing.set(resource, standing);
    if (kind === "listed") this.#unlisted(resource, standing);
    const key = identityIn(record)?.key;
    if (key === undefined) return;
    if (kind === "item") this.#shown.set(resource, (this.#shown.get(resource) ?? new Set()).add(key));
    this.#size(standing, key, type === "DELETED" ? undefined : bytes);
    if (this.#standingBytes > this.#standingBytesMax)
      throw new CaptureError(
        `${this.#name}: more than ${this.#standingBytesMax / MIB} MiB of objects exist at one time; a replay supports no more`,
      );
  }

  #size(standing: Map<string, number>, key: string, bytes: number | undefined): void {
    this.#standingBytes += (bytes ?? 0) - (standing.get(key) ?? 0);
    if (bytes === undefined) standing.delete(key);
    else standing.set(key, bytes);
  }

  /** Treats objects that are missing in a list as deleted before it. */
  #unlisted(resource: CachedResource, standing: Map<string, number>): void {
    const shown = this.#shown.get(resource);
    this.#shown.delete(resource);
    for (const key of standing.keys()) if (shown?.has(key) !== true) this.#size(standing, key, undefined);
  }
}

interface Sized {
  readonly record: CaptureRecord;
  readonly bytes: number;
}

interface Heard extends OtherLines {
  readonly note?: CaptureNote;
  readonly bytes?: (bytes: number) => void;
}

async function* batchesOf(
  source: ByteSource,
  name: string,
  { note = UNHEARD, bytes: heard, ...other }: Heard,
): AsyncGenerator<readonly Sized[]> {
  const reader = new RecordReader(name, STREAMED_RECORDS_MAX, note, other);
  const window = new TimeWindow();
  let batch: Sized[] = [];
  let size = 0;
  const isFull = (): boolean => batch.length >= BATCH || size >= BATCH_BYTES;
  for await (const lines of linesOf(source.chunks(), name)) {
    for (const { text, number, bytes, isOpen } of lines) {
      heard?.(bytes + 1);
      const record = reader.record(text, number, isOpen);
      if (record === undefined) continue;
      const due = window.next(record, bytes);
      if (due === undefined)
        throw new CaptureError(
          `${name}:${number}: line is older than a line more than ${WINDOW_LINES} lines before it; sort the lines by t`,
        );
      for (const each of due) {
        batch.push(each);
        size += each.bytes;
        if (!isFull()) continue;
        yield batch;
        [batch, size] = [[], 0];
      }
    }
  }
  reader.end();
  for (const each of window.rest()) {
    batch.push(each);
    size += each.bytes;
    if (!isFull()) continue;
    yield batch;
    [batch, size] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}
