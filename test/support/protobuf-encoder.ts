/** Encodes objects of upstream's types as `application/vnd.kubernetes.protobuf`, by the schema that the in-memory API server decodes with. */
import { isObject } from "../../shared/base/json.ts";
import { PROTOBUF_SCHEMA } from "../../shared/api-server/rest/protobuf-schema.ts";

const VARINT = 0;
const BYTES = 2;

/** An object in its envelope. */
export function encodeObject(kind: string, object: unknown): Buffer {
  const type = Buffer.concat([bytesField(1, Buffer.from("v1")), bytesField(2, Buffer.from(kind))]);
  return Buffer.concat([Buffer.from("k8s\0", "latin1"), bytesField(1, type), bytesField(2, encodeMessage(kind, object))]);
}

/** A watch event without its length. */
export function encodeEvent(type: string, kind: string, object: unknown): Buffer {
  return Buffer.concat([bytesField(1, Buffer.from(type)), bytesField(2, bytesField(1, encodeObject(kind, object)))]);
}

/** A frame of a stream: an event with its length before it. */
export function framed(event: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.length);
  return Buffer.concat([length, event]);
}

/** A list in its envelope. */
export function encodeList(kind: string, metadata: Readonly<Record<string, string>>, items: readonly unknown[]): Buffer {
  const meta = Object.entries(metadata).map(([name, text]) => bytesField(name === "continue" ? 3 : 2, Buffer.from(text)));
  const raw = Buffer.concat([bytesField(1, Buffer.concat(meta)), ...items.map((item) => bytesField(2, encodeMessage(kind, item)))]);
  return Buffer.concat([Buffer.from("k8s\0", "latin1"), bytesField(1, Buffer.alloc(0)), bytesField(2, raw)]);
}

/** Messages that the schema lacks because the in-memory API server never decodes them. */
const MORE: Readonly<Record<string, string>> = {
  Status: "2 status s, 3 message s, 4 reason s, 5 details StatusDetails, 6 code i",
  StatusDetails: "1 name s, 2 group s, 3 kind s, 4 causes StatusCause*, 5 retryAfterSeconds i",
  StatusCause: "1 reason s, 2 message s, 3 field s",
};

export function encodeMessage(message: string, object: unknown): Buffer {
  const schema = PROTOBUF_SCHEMA[message] ?? MORE[message];
  if (schema === undefined) throw new Error(`no message ${message}`);
  if (!isObject(object)) return Buffer.alloc(0);
  const parts = schema.split(", ").map((field) => {
    const [number = "", name = "", type = ""] = field.split(" ");
    return encodeField(Number(number), type, name === "^" ? object : object[name]);
  });
  return Buffer.concat(parts);
}

function encodeField(number: number, type: string, value: unknown): Buffer {
  if (value === undefined || value === null) return Buffer.alloc(0);
  if (type.startsWith("m:")) {
    const entries = Object.entries(value as object).map(([key, entry]) =>
      bytesField(number, Buffer.concat([bytesField(1, Buffer.from(key)), encodeField(2, type.slice(2), entry)])),
    );
    return Buffer.concat(entries);
  }
  if (type.endsWith("*")) return Buffer.concat((value as readonly unknown[]).map((each) => encodeField(number, type.slice(0, -1), each)));
  switch (type.replace("?", "")) {
    case "s":
      return bytesField(number, Buffer.from(value as string));
    case "b":
    case "i":
      return varintField(number, BigInt(value as number));
    case "B":
      return bytesField(number, Buffer.from(value as string, "base64"));
    case "Time":
      return bytesField(number, varintField(1, BigInt(Date.parse(value as string) / 1000)));
    case "Quantity":
      return bytesField(number, bytesField(1, Buffer.from(String(value))));
    case "IntOrString":
      return bytesField(
        number,
        typeof value === "number"
          ? varintField(2, BigInt(value))
          : Buffer.concat([varintField(1, 1n), bytesField(3, Buffer.from(value as string))]),
      );
    case "FieldsV1":
      return bytesField(number, bytesField(1, Buffer.from(JSON.stringify(value))));
    default:
      return bytesField(number, encodeMessage(type, value));
  }
}

export function bytesField(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([varint(BigInt((number << 3) | BYTES)), varint(BigInt(bytes.length)), bytes]);
}

export function varintField(number: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt((number << 3) | VARINT)), varint(value)]);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}
