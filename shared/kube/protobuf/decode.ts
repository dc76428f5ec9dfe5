/**
 * Decodes messages of `application/vnd.kubernetes.protobuf` as JSON.parse would return their JSON, but only the fields of a table.
 *
 *   PX1 unknown fields are skipped. A field with another wire type than its own, a wire type that does not exist, a number of more than ten
 *       bytes and a truncated message are errors, and no other error is thrown for any bytes.
 *   PX2 zero values may be present where JSON omits them: Go encodes every field that is not a pointer. An unset time is absent.
 *   PX3 a decoded string does not keep the message in memory.
 *
 * Source: apimachinery pkg/runtime/serializer/protobuf, pkg/apis/meta/v1/time_proto.go; protobuf.dev, Encoding.
 */
import { setOwn } from "@deltaloop/base";
import type { Field, Fields } from "./fields.ts";

export class MalformedProtobufError extends Error {
  override readonly name = "MalformedProtobufError";
}

type Decoded = Record<string, unknown>;

/** A field by number. */
interface Slot {
  readonly name: string;
  readonly type: Field[1];
  readonly slots: Slots;
  readonly keys: readonly string[] | undefined;
}
type Slots = readonly (Slot | undefined)[];

const VARINT = 0;
const FIXED64 = 1;
/** The wire type of strings, messages and maps. */
const BYTES = 2;
const FIXED32 = 5;
const VARINT_BYTES_MAX = 10;
const UINT32 = 0x1_0000_0000;
/** The greatest time of a Date. A later one is not an API server's; the year 275760 parses as little as Go's text would. */
const SECONDS_MAX = 8_640_000_000_000;

const compiled = new WeakMap<Fields, Slots>();

function slotsOf(fields: Fields): Slots {
  const known = compiled.get(fields);
  if (known !== undefined) return known;
  const slots: (Slot | undefined)[] = [];
  for (const [name, [number, type, more]] of Object.entries(fields)) {
    const isKeys = Array.isArray(more);
    slots[number] = {
      ...{ name, type },
      slots: more === undefined || isKeys ? [] : slotsOf(more as Fields), // only a map's third element is a list
      keys: isKeys ? (more as readonly string[]) : undefined,
    };
  }
  compiled.set(fields, slots);
  return slots;
}

/** Decodes the message in `bytes`, or in a part of it. @throws {MalformedProtobufError} */
export function decodeMessage(bytes: Buffer, fields: Fields, from = 0, to = bytes.length): Decoded {
  const reader = new Reader(bytes, from);
  return reader.message(slotsOf(fields), to);
}

/**
 * Calls `each` with the position of each field of wire type 2 in a message, and skips the others.
 * @throws {MalformedProtobufError}
 */
export function forEachPart(bytes: Buffer, from: number, to: number, each: (number: number, from: number, to: number) => void): void {
  const reader = new Reader(bytes, from);
  while (reader.at < to) {
    const tag = reader.tag(to);
    if ((tag & 7) === BYTES) {
      const end = reader.end(to);
      each(tag >>> 3, reader.at, end);
      reader.at = end;
    } else reader.skip(tag, to);
  }
}

class Reader {
  readonly #bytes: Buffer;
  at: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  message(slots: Slots, to: number): Decoded {
    const object: Decoded = {};
    while (this.at < to) {
      const tag = this.tag(to);
      const slot = slots[tag >>> 3];
      if (slot === undefined) this.skip(tag, to);
      else this.#field(object, slot, tag & 7, to);
    }
    return object;
  }

  #field(object: Decoded, slot: Slot, wireType: number, to: number): void {
    const { name, type } = slot;
    const isVarint = type === "int" || type === "bool";
    if (wireType !== (isVarint ? VARINT : BYTES)) throw new MalformedProtobufError(`protobuf field ${name} has wire type ${wireType}`);
    if (isVarint) {
      const value = this.varint(to);
      object[name] = type === "bool" ? value !== 0 : value;
      return;
    }
    const end = this.end(to);
    switch (type) {
      case "string":
        object[name] = this.text(end);
        break;
      case "time": {
        const time = this.#time(end);
        if (time !== undefined) object[name] = time;
        break;
      }
      case "message":
        object[name] = this.message(slot.slots, end);
        break;
      case "list":
        listAt(object, name).push(this.message(slot.slots, end));
        break;
      case "map":
        this.#entry(mapAt(object, name), slot.keys, end);
        break;
    }
    this.at = end;
  }

  /** An entry of a map from string to string; Go omits neither key nor value, others may omit an empty one. */
  #entry(map: Record<string, string>, keys: readonly string[] | undefined, to: number): void {
    let key = "";
    let value = "";
    while (this.at < to) {
      const tag = this.tag(to);
      const number = tag >>> 3;
      if (number !== 1 && number !== 2) {
        this.skip(tag, to);
        continue;
      }
      if ((tag & 7) !== BYTES) throw new MalformedProtobufError(`a protobuf map has wire type ${tag & 7}`);
      const end = this.end(to);
      if (number === 1) key = this.text(end);
      else if (keys === undefined || keys.includes(key)) value = this.text(end);
      this.at = end;
    }
    if (keys === undefined || keys.includes(key)) setOwn(map, key, value);
  }

  /** A Time as Go prints it in JSON: whole seconds, UTC. */
  #time(to: number): string | undefined {
    let seconds = 0;
    let isSet = false;
    while (this.at < to) {
      const tag = this.tag(to);
      isSet = true;
      if (tag >>> 3 !== 1) this.skip(tag, to);
      else if ((tag & 7) === VARINT) seconds = this.varint(to);
      else throw new MalformedProtobufError(`a protobuf time has wire type ${tag & 7}`);
    }
    return isSet ? timeText(seconds) : undefined;
  }

  /** Number and wire type of the next field. */
  tag(to: number): number {
    const tag = this.varint(to);
    if (tag < 8 || tag >= UINT32) throw new MalformedProtobufError(`invalid protobuf tag ${tag}`);
    return tag;
  }

  /** The end of the part whose length comes next. */
  end(to: number): number {
    const length = this.varint(to);
    const end = this.at + length;
    if (length < 0 || end > to) throw truncated();
    return end;
  }

  /** A signed number of up to 64 bits, rounded beyond 2^53. */
  varint(to: number): number {
    const bytes = this.#bytes;
    if (this.at >= to) throw truncated();
    const first = bytes[this.at++] as number; // within the buffer
    if (first < 0x80) return first;
    let low = first & 0x7f;
    let high = 0;
    for (let shift = 7; shift < 7 * VARINT_BYTES_MAX; shift += 7) {
      if (this.at >= to) throw truncated();
      const byte = bytes[this.at++] as number; // within the buffer
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) return (high | 0) * UINT32 + (low >>> 0);
    }
    throw new MalformedProtobufError("a protobuf number of more than ten bytes");
  }

  skip(tag: number, to: number): void {
    switch (tag & 7) {
      case VARINT:
        this.varint(to);
        break;
      case BYTES:
        this.at = this.end(to);
        break;
      case FIXED64:
        this.#advance(8, to);
        break;
      case FIXED32:
        this.#advance(4, to);
        break;
      default:
        throw new MalformedProtobufError(`protobuf wire type ${tag & 7} is not supported`);
    }
  }

  #advance(length: number, to: number): void {
    if (this.at + length > to) throw truncated();
    this.at += length;
  }

  text(to: number): string {
    return textOf(this.#bytes, this.at, to);
  }
}

/** Longer strings are not repeated often. */
const INTERNED_LENGTH_MAX = 64;
/** A power of two. */
const INTERNED = 1024;
/** Strings that recur (keys of labels, names of owners, phases). A comparison costs less than a new string, and shared ones less memory. */
const interned: string[] = [];

function textOf(bytes: Buffer, from: number, to: number): string {
  const length = to - from;
  if (length === 0) return "";
  if (length > INTERNED_LENGTH_MAX) return bytes.toString("utf8", from, to);
  let hash = length;
  for (let at = from; at < to; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0; // within the buffer
  hash &= INTERNED - 1;
  const known = interned[hash];
  if (known !== undefined && isText(known, bytes, from, length)) return known;
  return (interned[hash] = bytes.toString("utf8", from, to));
}

/** Whether the bytes are the ASCII string `text`. */
function isText(text: string, bytes: Buffer, from: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) {
    const byte = bytes[from + at] as number; // within the buffer
    if (byte >= 0x80 || byte !== text.charCodeAt(at)) return false;
  }
  return true;
}

let lastSeconds = Number.NaN;
let lastText = "";

function timeText(seconds: number): string {
  if (seconds === lastSeconds) return lastText;
  const ms = Math.min(Math.max(seconds, -SECONDS_MAX), SECONDS_MAX) * 1000;
  lastSeconds = seconds;
  // Go prints years beyond 9999 and before 0 without the sign and the zeros that JavaScript adds.
  return (lastText = `${new Date(ms).toISOString().slice(0, -".000Z".length)}Z`.replace(/^\+0?|(?<=^-)00/, ""));
}

function listAt(object: Decoded, name: string): unknown[] {
  const list = object[name];
  if (Array.isArray(list)) return list;
  const made: unknown[] = [];
  object[name] = made;
  return made;
}

function mapAt(object: Decoded, name: string): Record<string, string> {
  const map = object[name];
  if (map !== undefined) return map as Record<string, string>; // only this function sets a map's field
  const made: Record<string, string> = {};
  object[name] = made;
  return made;
}

function truncated(): MalformedProtobufError {
  return new MalformedProtobufError("truncated protobuf message");
}
