/**
 * What encloses objects in `application/vnd.kubernetes.protobuf`: the envelope of a response, lists, Statuses and watch events.
 *
 * Source: apimachinery pkg/runtime/types.go Unknown, pkg/apis/meta/v1/types.go ListMeta, Status, pkg/apis/meta/v1/watch.go WatchEvent.
 */
import { decodeMessage, forEachPart, MalformedProtobufError } from "./decode.ts";
import type { Fields } from "./fields.ts";

const MAGIC = Buffer.from("k8s\0", "latin1");

const LIST: Fields = { metadata: [1, "message", { resourceVersion: [2, "string"], continue: [3, "string"] }] };
const LIST_ITEMS = 2;

const STATUS: Fields = {
  status: [2, "string"],
  message: [3, "string"],
  reason: [4, "string"],
  details: [
    5,
    "message",
    {
      causes: [4, "list", { reason: [1, "string"], message: [2, "string"], field: [3, "string"] }],
      retryAfterSeconds: [5, "int"],
    },
  ],
  code: [6, "int"],
};
/** A bookmark's object. */
const BOOKMARK: Fields = {
  metadata: [1, "message", { resourceVersion: [6, "string"], annotations: [12, "map", ["k8s.io/initial-events-end"]] }],
};

/** A list as its JSON, with `fields` of each item. @throws {MalformedProtobufError} */
export function decodeList(body: Buffer, fields: Fields): { readonly metadata: unknown; readonly items: readonly unknown[] } {
  const [from, to] = rawIn(body, 0, body.length);
  const items: unknown[] = [];
  forEachPart(body, from, to, (number, start, end) => {
    if (number === LIST_ITEMS) items.push(decodeMessage(body, fields, start, end));
  });
  return { metadata: decodeMessage(body, LIST, from, to)["metadata"], items };
}

/** A Status as its JSON. @throws {MalformedProtobufError} */
export function decodeStatus(body: Buffer): object {
  const [from, to] = rawIn(body, 0, body.length);
  return withoutZeros({ kind: "Status", ...decodeMessage(body, STATUS, from, to) });
}

/** A watch event as its JSON, with `fields` of its object. @throws {MalformedProtobufError} */
export function decodeEvent(frame: Buffer, fields: Fields): { readonly type: string; readonly object: object } {
  let type = "";
  let object: readonly [number, number] = [0, 0];
  forEachPart(frame, 0, frame.length, (number, start, end) => {
    if (number === 1) type = frame.toString("utf8", start, end);
    // A RawExtension, whose only field is the object.
    if (number === 2) forEachPart(frame, start, end, (_raw, from, to) => (object = rawIn(frame, from, to)));
  });
  const [from, to] = object;
  switch (type) {
    case "ERROR":
      return { type, object: withoutZeros(decodeMessage(frame, STATUS, from, to)) };
    case "BOOKMARK":
      return { type, object: decodeMessage(frame, BOOKMARK, from, to) };
    default:
      return { type, object: decodeMessage(frame, fields, from, to) };
  }
}

/** The position of the object in an envelope. */
function rawIn(bytes: Buffer, from: number, to: number): readonly [from: number, to: number] {
  if (MAGIC.compare(bytes, from, Math.min(to, from + MAGIC.length)) !== 0)
    throw new MalformedProtobufError("not a Kubernetes protobuf object");
  let raw: readonly [number, number] = [to, to];
  forEachPart(bytes, from + MAGIC.length, to, (number, start, end) => {
    if (number === 2) raw = [start, end];
  });
  return raw;
}

/** Removes the zero values of a Status, which its JSON omits, because an absent code differs from 0 for the reader. */
function withoutZeros(status: object): object {
  return Object.fromEntries(
    Object.entries(status).flatMap(([name, value]: [string, unknown]) => {
      if (value === "" || value === 0) return [];
      return [[name, typeof value === "object" && value !== null && !Array.isArray(value) ? withoutZeros(value) : value]];
    }),
  );
}
