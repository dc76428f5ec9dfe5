/**
 * Captures: what a watcher saw, one JSON object per line, gzip allowed (informer §18). The least a line holds is
 * `{"t":"2026-03-01T10:00:00.123456Z","type":"MODIFIED","object":{…}}`: a raw watch event and when it came.
 */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { CACHED_RESOURCES, RESOURCES } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";

/** What a capture holds of one resource: where the stream began, and what came when. */
export interface CaptureRecord {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly kind: "item" | "listed" | "event" | "close";
  /** `event`: the watch event's type, as ADDED or BOOKMARK. */
  readonly type?: string;
  readonly object?: CapturedObject;
  /** `listed`: the version of the list that ended. */
  readonly rv?: string;
}

/** An object as captured: whole, or stripped (then a pod has no metadata of its own, see CachedPod). */
export type CapturedObject = Readonly<Record<string, unknown>>;

/** A line that cannot be understood; says which one and what to do. */
export class CaptureError extends Error {
  override readonly name = "CaptureError";
}

/** @throws {CaptureError} on the first line that is no capture record; {Error} when the file cannot be read. */
export function readCapture(path: string): readonly CaptureRecord[] {
  const bytes = readFileSync(path);
  const text = (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString("utf8");
  return parseCapture(text, path);
}

export function parseCapture(text: string, name: string): readonly CaptureRecord[] {
  const records: CaptureRecord[] = [];
  text.split("\n").forEach((line, index) => {
    if (line.trim() === "") return;
    const record = parseLine(line, `${name}:${index + 1}`);
    if (record) records.push(record);
  });
  return records.sort((a, b) => a.atMs - b.atMs);
}

interface Line {
  readonly t?: unknown;
  readonly r?: unknown;
  readonly k?: unknown;
  readonly type?: unknown;
  readonly object?: unknown;
  readonly rv?: unknown;
}

/** Undefined for what a replay does not need: requests, foreign resources, our own notes. */
function parseLine(line: string, place: string): CaptureRecord | undefined {
  let value: Line;
  try {
    value = JSON.parse(line) as Line; // fields are checked below
  } catch (error) {
    throw new CaptureError(
      `${place}: not JSON (${error instanceof Error ? error.message : String(error)}); cut the line off if the capture was interrupted`,
    );
  }
  const kind = value.k ?? "event";
  if (kind === "meta" || kind === "req" || kind === "res" || kind === "api" || kind === "raw") return undefined;
  const atMs = typeof value.t === "string" ? Date.parse(value.t) : NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: t is no RFC 3339 time`);
  const object = typeof value.object === "object" && value.object !== null ? (value.object as CapturedObject) : undefined;
  const resource = CACHED_RESOURCES.find((known) => known === value.r) ?? (value.r === undefined ? resourceOfKind(object) : undefined);
  if (!resource) return undefined;
  switch (kind) {
    case "close":
      return { atMs, resource, kind: "close" };
    case "listend":
      return typeof value.rv === "string" ? { atMs, resource, kind: "listed", rv: value.rv } : undefined;
    case "item":
      if (!object) throw new CaptureError(`${place}: an item without object`);
      return { atMs, resource, kind: "item", object };
    case "event":
      if (typeof value.type !== "string" || !object) throw new CaptureError(`${place}: an event needs type and object`);
      return { atMs, resource, kind: "event", type: value.type, object };
    default:
      throw new CaptureError(`${place}: unknown kind ${JSON.stringify(kind)}`);
  }
}

function resourceOfKind(object: CapturedObject | undefined): CachedResource | undefined {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === object?.["kind"]);
}
