/**
 * Decodes `application/vnd.kubernetes.protobuf`, which Go clients (kubectl create, kube-scheduler) prefer to send. The
 * server responds in JSON, which they accept.
 *
 * Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf (envelope), api/resource, util/intstr, meta/v1 (special messages).
 */
import { isObject, setOwn, type Json, type JsonObject } from "@deltaloop/base";
import { PROTOBUF_SCHEMA } from "./protobuf-schema.ts";

export const PROTOBUF_MEDIA_TYPE = "application/vnd.kubernetes.protobuf";

const MAGIC = Buffer.from("k8s\0", "latin1");

/** The object in an envelope, without fields for an unknown kind; all long integers are bigints. @throws {SyntaxError} for anything else */
export function decodeProtobuf(body: Buffer): JsonObject {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC))
    throw new SyntaxError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
  let type: JsonObject = {};
  let raw: Buffer = Buffer.alloc(0);
  for (const { number, value } of fieldsOf(body.subarray(MAGIC.length))) {
    if (number === 1 && Buffer.isBuffer(value)) type = decodeTypeMeta(value);
    if (number === 2 && Buffer.isBuffer(value)) raw = value;
  }
  const kind = String(type["kind"] ?? "");
  return { ...type, ...decodeMessage(kind, raw) };
}

function decodeTypeMeta(buffer: Buffer): JsonObject {
  const type: JsonObject = {};
  for (const { number, value } of fieldsOf(buffer))
    if (Buffer.isBuffer(value)) type[number === 1 ? "apiVersion" : "kind"] = value.toString();
  return type;
}

interface Field {
  readonly name: string;
  readonly type: string;
}

const schemas = new Map<string, ReadonlyMap<number, Field>>();

function schemaOf(message: string): ReadonlyMap<number, Field> {
  let schema = schemas.get(message);
  if (schema === undefined) {
    const fields = (PROTOBUF_SCHEMA[message] ?? "").split(", ").filter((field) => field !== "");
    schema = new Map(
      fields.map((field) => field.split(" ")).map(([number = "", name = "", type = ""]) => [Number(number), { name, type }]),
    );
    schemas.set(message, schema);
  }
  return schema;
}

function decodeMessage(message: string, buffer: Buffer): JsonObject {
  const object: JsonObject = {};
  const schema = schemaOf(message);
  for (const { number, value } of fieldsOf(buffer)) {
    const field = schema.get(number);
    if (field !== undefined) put(object, field, value);
  }
  return object;
}

function put(object: JsonObject, { name, type }: Field, value: WireValue): void {
  if (type.startsWith("m:")) {
    const map = objectIn(object, name);
    const [key, entry] = decodeEntry(type.slice(2), value);
    setOwn(map, key, entry);
    return;
  }
  if (type.endsWith("*")) {
    const list = object[name];
    const decoded = decodeValue(type.slice(0, -1), value);
    if (Array.isArray(list)) list.push(decoded ?? null);
    else object[name] = [decoded ?? null];
    return;
  }
  const decoded = decodeValue(type, value);
  if (decoded === undefined) return;
  if (name === "^") Object.assign(object, decoded);
  else object[name] = decoded;
}

function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  if (isObject(value)) return value;
  const map: JsonObject = {};
  object[name] = map;
  return map;
}

function decodeEntry(type: string, value: WireValue): readonly [string, Json] {
  let key = "";
  let entry: Json = type === "s" ? "" : null;
  for (const field of fieldsOf(bytesOf(value))) {
    if (field.number === 1) key = bytesOf(field.value).toString();
    else entry = decodeValue(type === "s" || type === "B" ? `${type}?` : type, field.value) ?? null;
  }
  return [key, entry];
}

/** `undefined` for values that Go omits from JSON: the zero of a scalar that is no pointer, an unset time. */
function decodeValue(type: string, value: WireValue): Json | undefined {
  const isPointer = type.endsWith("?");
  switch (isPointer ? type.slice(0, -1) : type) {
    case "s": {
      const text = bytesOf(value).toString();
      return text === "" && !isPointer ? undefined : text;
    }
    case "b":
      return value === 0n && !isPointer ? undefined : value !== 0n;
    case "i":
      return value === 0n && !isPointer ? undefined : integer(BigInt.asIntN(64, typeof value === "bigint" ? value : 0n));
    case "B":
      return bytesOf(value).toString("base64");
    case "Quantity":
      return textField(value, 1);
    case "Time":
      return decodeTime(value, false);
    case "MicroTime":
      return decodeTime(value, true);
    case "IntOrString":
      return decodeIntOrString(value);
    case "FieldsV1":
    case "RawExtension":
      return undefined;
    default:
      return decodeMessage(type, bytesOf(value));
  }
}

/** Decodes an integer as in exact-json.ts, but for all fields, because the path is unknown here. */
function integer(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function textField(value: WireValue, number: number): string {
  const field = fieldsOf(bytesOf(value)).find((one) => one.number === number);
  return field === undefined ? "" : bytesOf(field.value).toString();
}

function decodeTime(value: WireValue, isMicro: boolean): string | undefined {
  let seconds = 0n;
  let nanos = 0n;
  for (const field of fieldsOf(bytesOf(value))) {
    if (typeof field.value !== "bigint") continue;
    if (field.number === 1) seconds = BigInt.asIntN(64, field.value);
    if (field.number === 2) nanos = BigInt.asIntN(64, field.value);
  }
  if (seconds === 0n && nanos === 0n) return undefined;
  const base = new Date(Number(seconds) * 1000).toISOString().slice(0, -".000Z".length);
  return isMicro ? `${base}.${String(nanos / 1000n).padStart(6, "0")}Z` : `${base}Z`;
}

function decodeIntOrString(value: WireValue): Json {
  let isText = false;
  let number = 0;
  let text = "";
  for (const field of fieldsOf(bytesOf(value))) {
    if (field.number === 1) isText = field.value === 1n;
    if (field.number === 2 && typeof field.value === "bigint") number = Number(BigInt.asIntN(64, field.value));
    if (field.number === 3) text = bytesOf(field.value).toString();
  }
  return isText ? text : number;
}

type WireValue = bigint | Buffer;

function bytesOf(value: WireValue): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}

/** The raw fields of a message. @throws {SyntaxError} for a truncated one */
function fieldsOf(buffer: Buffer): { readonly number: number; readonly value: WireValue }[] {
  const fields: { readonly number: number; readonly value: WireValue }[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at];
      if (byte === undefined) throw new SyntaxError("unexpected EOF");
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    if (at + length > buffer.length) throw new SyntaxError("unexpected EOF");
    at += length;
    return buffer.subarray(at - length, at);
  };
  while (at < buffer.length) {
    const tag = Number(varint());
    const number = tag >> 3;
    switch (tag & 7) {
      case 0:
        fields.push({ number, value: varint() });
        break;
      case 1:
        fields.push({ number, value: take(8) });
        break;
      case 2:
        fields.push({ number, value: take(Number(varint())) });
        break;
      case 5:
        fields.push({ number, value: take(4) });
        break;
      default:
        throw new SyntaxError(`protobuf wire type ${tag & 7} is not supported`);
    }
  }
  return fields;
}
