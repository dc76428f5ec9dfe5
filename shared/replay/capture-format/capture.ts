/**
 * Captures: the watch events of a watcher, one JSON object per line, optionally gzipped (informer §18). The minimal line is
 * `{"t":"2026-03-01T10:00:00.123456Z","type":"MODIFIED","object":{…}}`: a raw watch event and its time of arrival.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { constants, gunzipSync } from "node:zlib";
import { parseExact } from "@deltaloop/base";
import { CACHED_RESOURCES, EVIDENCE_RESOURCES, RESOURCES, messageOf } from "@deltaloop/kube/objects";
import type { CachedResource, EvidenceResource } from "@deltaloop/kube/objects";
import { isObject } from "../evidence/fields.ts";
import { evidenceResourceOf } from "../evidence/other-evidence.ts";
import { isEvidenceResource } from "./recorded-resources.ts";

/** One line of a capture. */
export interface CaptureRecord {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly kind: "item" | "listed" | "event" | "close";
  /** `event`: the watch event's type, for example ADDED or BOOKMARK. */
  readonly type?: string;
  readonly object?: CapturedObject;
  /** `listed`: the version of the complete list. */
  readonly rv?: string;
  /** `event`: the user who wrote it, if from an audit log. */
  readonly by?: string;
  /** Format 2: facts beyond the stripped object that explain an incident. */
  readonly evidence?: CapturedObject | undefined;
  /** Only for a skimmed line, which is parsed each time that its object is read (skim.ts). */
  readonly identity?: ObjectIdentity;
  /** Parses a skimmed line: its object and evidence. */
  read?(): Pick<CaptureRecord, "object" | "evidence">;
}

/** One line of a resource that only findings use, or the record that the API server denied access to that resource. */
export interface EvidenceRecord {
  readonly atMs: number;
  readonly resource: EvidenceResource;
  readonly kind: "item" | "listed" | "event" | "denied";
  readonly type?: string;
  readonly object?: CapturedObject;
  readonly identity?: ObjectIdentity;
}

/** The identity of a record's object. */
export interface ObjectIdentity {
  /** `shop/web` */
  readonly key: string;
  readonly uid?: string;
  /** The uid of its controller. */
  readonly ownerUid?: string;
  /** Whether it is a pod with a deletionTimestamp. */
  readonly isDeleted?: true;
  readonly generation?: number;
  /** `status.availableReplicas` of an owner of pods. */
  readonly available?: number;
}

/** An object as captured: whole, or stripped (then a pod has no metadata, see CachedPod). */
export type CapturedObject = Readonly<Record<string, unknown>>;

/** An invalid line; the message has its position and the remedy. */
export class CaptureError extends Error {
  override readonly name = "CaptureError";
}

/** The file has another program's format, which `deltaloop import` reads. */
export class ForeignFormatError extends CaptureError {}

/** A line that holds only a brace or bracket: the first line of JSON that kubectl printed over several lines, or a truncated later line. */
class LoneBracketError extends ForeignFormatError {}

/** A line that is not JSON. */
class TornLineError extends CaptureError {}

/** A file that begins with this many undecodable lines is not a capture. */
const TORN_MAX = 1_000;

/** Format version of the `meta` line. 1 has no evidence. */
export const CAPTURE_FORMAT = 2;
const FORMATS_READ: readonly unknown[] = [1, CAPTURE_FORMAT];

/** Limit of a file that is read into memory as a whole. */
const CAPTURE_BYTES_MAX = 256 * 2 ** 20;
/** etcd limits requests to 1.5 MiB by default; JSON escapes can multiply that. */
export const LINE_BYTES_MAX = 16 * 2 ** 20;
/** A megabyte of gzip data can hold a billion blank lines. */
const BLANK_LINES_MAX = 100_000;
/** A replay processes every heartbeat in this time span: a day takes about 12 seconds. */
const SPAN_HOURS_MAX = 24;
/** API objects are never nested this deeply; deeper nesting would overflow the stack of recursive code. */
const DEPTH_MAX = 100;

/** Characters of untrusted text quoted in a message. */
const QUOTED_MAX = 40;

const MIB = 2 ** 20;
const HOUR_MS = 3_600_000;
const READ_BYTES = 2 ** 20;
/** Magic bytes of a ZIP archive, such as a .kshrk capture. */
const ZIP = Buffer.from("PK\x03\x04", "latin1");
const GZIP = Buffer.from([0x1f, 0x8b]);

/** Receives one line about each problem of a capture: a truncated end, changes between two lists. */
export type CaptureNote = (note: string) => void;

const UNHEARD: CaptureNote = () => undefined;

/** @throws {CaptureError} when it is too large; {Error} when the file cannot be read */
export function readUnpacked(path: string, note: CaptureNote = UNHEARD): Buffer {
  const bytes = readBounded(path);
  return isGzip(bytes) ? unpacked(bytes, path, note) : bytes;
}

export function isZip(bytes: Buffer): boolean {
  return startsWith(bytes, ZIP);
}

export function isGzip(bytes: Buffer): boolean {
  return startsWith(bytes, GZIP);
}

/** @throws {CaptureError} for an archive that another command reads */
export function refuseArchive(path: string, head: Buffer): void {
  if (path.endsWith(".kshrk") || isZip(head))
    throw new ForeignFormatError(`${path}: file is not a capture; convert a .kshrk archive with \`deltaloop import\``);
}

/** Reads in chunks, because a pipe or device has no known size. */
function readBounded(path: string): Buffer {
  const file = openSync(path, "r");
  try {
    const chunks: Buffer[] = [];
    for (let total = 0; ;) {
      const chunk = Buffer.allocUnsafe(READ_BYTES);
      const bytes = readSync(file, chunk);
      if (bytes === 0) return Buffer.concat(chunks);
      total += bytes;
      if (total > CAPTURE_BYTES_MAX) throw tooLarge(path);
      chunks.push(chunk.subarray(0, bytes));
    }
  } finally {
    closeSync(file);
  }
}

function unpacked(bytes: Buffer, path: string, note: CaptureNote): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: CAPTURE_BYTES_MAX });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(path);
    if ((error as NodeJS.ErrnoException).code !== "Z_BUF_ERROR")
      throw new CaptureError(`${path}: the gzip data is broken (${messageOf(error)})`);
  }
  // Flushed data can be read up to the truncation.
  note(`${path}: the gzip data is truncated; reading ends there`);
  try {
    return gunzipSync(bytes, { maxOutputLength: CAPTURE_BYTES_MAX, finishFlush: constants.Z_SYNC_FLUSH });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(path);
    throw new CaptureError(`${path}: the gzip data is broken (${messageOf(error)})`);
  }
}

function tooLarge(path: string): CaptureError {
  return new CaptureError(`${path}: capture contains more than ${CAPTURE_BYTES_MAX / MIB} MiB unpacked; a replay supports no more`);
}

function startsWith(bytes: Buffer, head: Buffer): boolean {
  return bytes.subarray(0, head.length).equals(head);
}

/** Receives lines that are no records. */
export interface OtherLines {
  /** Reads a line without parsing its object (skim.ts). @returns undefined: the line must be parsed */
  readonly skim?: ((text: string) => AnyRecord | undefined) | undefined;
  readonly evidence?: (record: EvidenceRecord) => void;
  /** The API server reports this version, as `v1.37.2`, from then on. */
  readonly release?: (version: string, fromMs: number) => void;
}

/** Parses lines and enforces the limits on records and time span. */
export class RecordReader {
  readonly #name: string;
  readonly #recordsMax: number;
  readonly #note: CaptureNote;
  readonly #other: OtherLines;
  #records = 0;
  /** Whether a line was read, so that the file is a capture. */
  #isCapture = false;
  #blankLines = 0;
  #torn = 0;
  #tornLine = 0;
  /** The first line that is not JSON. */
  #problem: CaptureError | undefined;
  #firstMs = Infinity;
  #lastMs = -Infinity;

  constructor(name: string, recordsMax: number, note: CaptureNote, other: OtherLines = {}) {
    this.#name = name;
    this.#recordsMax = recordsMax;
    this.#note = note;
    this.#other = other;
  }

  /** @param isOpen without a final line feed. @returns undefined for a line that no replay needs. @throws {CaptureError} with the line */
  record(text: string, line: number, isOpen: boolean): CaptureRecord | undefined {
    const skimmed = isOpen ? undefined : this.#other.skim?.(text);
    this.#isCapture ||= skimmed !== undefined;
    if (skimmed !== undefined && isEvidence(skimmed)) {
      this.#other.evidence?.(skimmed);
      return undefined;
    }
    const place = `${this.#name}:${line}`;
    if (skimmed !== undefined) return this.#counted(skimmed, place);
    const isCutOff = isOpen && isTorn(text);
    if (isCutOff) this.#note(`${place}: skipped the truncated last line`);
    if (text.trim() === "" && ++this.#blankLines > BLANK_LINES_MAX)
      throw new CaptureError(`${place}: capture has more than ${BLANK_LINES_MAX} blank lines; a replay supports no more`);
    const record = isCutOff || text.trim() === "" ? undefined : this.#parsed(text, line);
    return record && this.#counted(record, place);
  }

  /** @throws {CaptureError} beyond a limit */
  #counted(record: CaptureRecord, place: string): CaptureRecord {
    [this.#firstMs, this.#lastMs] = [Math.min(this.#firstMs, record.atMs), Math.max(this.#lastMs, record.atMs)];
    if (this.#lastMs - this.#firstMs > SPAN_HOURS_MAX * HOUR_MS)
      throw new CaptureError(`${place}: line is more than ${SPAN_HOURS_MAX} hours from another line; a replay supports no longer span`);
    if (++this.#records > this.#recordsMax)
      throw new CaptureError(`${place}: capture has more than ${this.#recordsMax} records; a replay supports no more`);
    return record;
  }

  /** @throws {CaptureError} with the first line that is not JSON when no line was a record */
  end(): void {
    if (this.#problem === undefined) return;
    if (this.#records === 0) throw this.#problem;
    this.#note(
      `${this.#name}: skipped ${this.#torn} truncated line${this.#torn === 1 ? "" : "s"}, as after a crash, a rotation or a full disk; the first is line ${this.#tornLine}`,
    );
  }

  /** A torn line is skipped, and reading continues. */
  #parsed(text: string, line: number): CaptureRecord | undefined {
    try {
      const record = parseLine(text, `${this.#name}:${line}`, this.#note, this.#other);
      this.#isCapture = true;
      return record;
    } catch (error) {
      if (!(error instanceof TornLineError) && !(this.#isCapture && error instanceof LoneBracketError)) throw error;
      this.#problem ??= error;
      if (this.#torn === 0) this.#tornLine = line;
      if (++this.#torn > TORN_MAX && this.#records === 0) throw this.#problem;
      return undefined;
    }
  }
}

export type AnyRecord = CaptureRecord | EvidenceRecord;

function isEvidence(record: AnyRecord): record is EvidenceRecord {
  return isEvidenceResource(record.resource);
}

/** @throws {CaptureError} */
export function parseAny(text: string): AnyRecord | undefined {
  let other: EvidenceRecord | undefined;
  return parseLine(text, "a line", UNHEARD, { evidence: (record) => (other = record) }) ?? other;
}

/** Truncated JSON is indistinguishable from other invalid JSON: without a final line feed it counts as truncated. */
function isTorn(text: string): boolean {
  if (!text.trimStart().startsWith("{")) return false;
  try {
    JSON.parse(text);
    return false;
  } catch {
    return true;
  }
}

interface Line {
  readonly t?: unknown;
  readonly r?: unknown;
  readonly k?: unknown;
  readonly type?: unknown;
  readonly object?: unknown;
  readonly rv?: unknown;
  readonly from?: unknown;
  readonly to?: unknown;
  readonly why?: unknown;
  readonly by?: unknown;
  readonly evidence?: unknown;
  readonly format?: unknown;
  readonly kubernetes?: unknown;
}

export const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Undefined for lines that a replay does not need: requests, other resources, notes. */
function parseLine(
  line: string,
  place: string,
  note: CaptureNote,
  { evidence: onEvidence, release }: OtherLines,
): CaptureRecord | undefined {
  let parsed: unknown;
  try {
    parsed = parseExact(line);
  } catch (error) {
    if (/^\s*[{[]\s*$/.test(line))
      throw new LoneBracketError(
        `${place}: not JSON (${messageOf(error)}); convert JSON that kubectl printed over several lines with \`deltaloop import\``,
      );
    throw new TornLineError(`${place}: not JSON (${messageOf(error)})`);
  }
  if (!isObject(parsed)) throw new CaptureError(`${place}: line is not a JSON object`);
  const value: Line = parsed;
  const kind = value.k ?? "event";
  if (kind === "meta" && value.format !== undefined && !FORMATS_READ.includes(value.format))
    throw new CaptureError(
      `${place}: capture has format ${JSON.stringify(value.format).slice(0, QUOTED_MAX)}; this version of deltaloop reads formats ${FORMATS_READ.join(" and ")}`,
    );
  if (kind === "meta" && typeof value.kubernetes === "string") release?.(value.kubernetes, Date.parse(String(value.t)));
  if (kind === "meta" || kind === "req" || kind === "res" || kind === "api" || kind === "raw") return undefined;
  if (kind === "gap") {
    note(`${place}: ${gapText(value)}`);
    return undefined;
  }
  const atMs = typeof value.t === "string" && RFC_3339.test(value.t) ? Date.parse(value.t) : NaN;
  if (Number.isNaN(atMs)) {
    const foreign = value.t === undefined ? foreignFormat(parsed) : undefined;
    if (foreign === undefined) throw new CaptureError(`${place}: t is not an RFC 3339 time`);
    throw new ForeignFormatError(
      `${place}: expected a capture, found ${foreign}; convert it with \`deltaloop import FILE -o capture.jsonl.gz\``,
    );
  }
  const object = isObject(value.object) ? value.object : undefined;
  const resource = CACHED_RESOURCES.find((known) => known === value.r) ?? (value.r === undefined ? resourceOfKind(object) : undefined);
  const evidenceResource = EVIDENCE_RESOURCES.find((each) => each === value.r) ?? evidenceResourceOf(object?.["kind"]);
  if (!resource && (!evidenceResource || !onEvidence)) return undefined;
  const wrong = object && wrongShape(object);
  if (wrong !== undefined) throw new CaptureError(`${place}: ${wrong}`);
  if (!resource) {
    const record = evidenceResource && evidenceRecord(value, evidenceResource, { atMs, object });
    if (record !== undefined) onEvidence?.(record);
    return undefined;
  }
  const evidence = isObject(value.evidence) && !isDeeper(value.evidence, DEPTH_MAX) ? { evidence: value.evidence } : {};
  switch (kind) {
    case "close":
      return { atMs, resource, kind: "close" };
    case "listend":
      return typeof value.rv === "string" ? { atMs, resource, kind: "listed", rv: value.rv } : undefined;
    case "item":
      if (!object) throw new CaptureError(`${place}: an item without object`);
      return { atMs, resource, kind: "item", object, ...evidence };
    case "event":
      if (typeof value.type !== "string" || !object) throw new CaptureError(`${place}: an event needs type and object`);
      return {
        atMs,
        resource,
        kind: "event",
        type: value.type,
        object,
        ...evidence,
        ...(typeof value.by === "string" && { by: value.by }),
      };
    default:
      throw new CaptureError(`${place}: unknown kind ${JSON.stringify(kind).slice(0, QUOTED_MAX)}`);
  }
}

/** Undefined for a line that findings do not need. */
function evidenceRecord(
  { k, type }: Line & { readonly type?: unknown },
  resource: EvidenceResource,
  { atMs, object }: { readonly atMs: number; readonly object: CapturedObject | undefined },
): EvidenceRecord | undefined {
  if (k === "listend") return { atMs, resource, kind: "listed" };
  if (k === "denied") return { atMs, resource, kind: "denied" };
  if (object === undefined) return undefined;
  if (k === "item") return { atMs, resource, kind: "item", object };
  return k === undefined || k === "event"
    ? { atMs, resource, kind: "event", ...(typeof type === "string" && { type }), object }
    : undefined;
}

/** The format of a line of another program that `deltaloop import` reads. */
function foreignFormat(line: CapturedObject): string | undefined {
  const { apiVersion, kind, items, type, object } = line;
  if (typeof apiVersion === "string" && apiVersion.startsWith("audit.k8s.io/")) return "a line of an audit log";
  if (typeof kind === "string" && kind.endsWith("List") && Array.isArray(items)) return "a list that kubectl printed";
  if (typeof type === "string" && isObject(object)) return "a line of a watch that kubectl printed";
  if (typeof kind === "string" && typeof apiVersion === "string") return "an object that kubectl printed";
  return ["properties", "events", "logEvents", "records"].some((field) => line[field] !== undefined)
    ? "a record of a cloud's log"
    : undefined;
}

/** Reason of a gap because of missing queue messages at import; every other gap ends with a list. */
export const MISSING = "missing";

/** Describes a gap. Of the untrusted line it quotes only versions and reasons, reduced to letters and digits. */
function gapText({ r, from, to, why }: Line): string {
  const word = (value: unknown): string => (typeof value === "string" && /^\w{1,40}$/.test(value) ? value : "unknown");
  if (why === MISSING) return `messages of ${word(r)} are missing: changes between versions ${word(from)} and ${word(to)} are unknown`;
  return `${word(r)} were listed again${why === undefined ? "" : ` (${word(why)})`}: of the changes between versions ${word(from)} and ${word(to)} only the result is known`;
}

function resourceOfKind(object: CapturedObject | undefined): CachedResource | undefined {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === object?.["kind"]);
}

export { isObject };

/** The shape error of an object, checked before its kind is known. A stripped pod has no metadata. */
export function wrongShape(object: CapturedObject): string | undefined {
  const metadata = object["metadata"] ?? object;
  if (!isObject(metadata)) return "metadata is not an object";
  for (const field of ["namespace", "name", "resourceVersion"])
    if (metadata[field] !== undefined && typeof metadata[field] !== "string") return `${field} is not a string`;
  for (const field of ["labels", "annotations"]) {
    const pairs = metadata[field] ?? {};
    if (!isObject(pairs) || !Object.values(pairs).every((value) => typeof value === "string")) return `${field} is not a map of strings`;
  }
  return isDeeper(object, DEPTH_MAX) ? `is nested more than ${DEPTH_MAX} deep` : undefined;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
