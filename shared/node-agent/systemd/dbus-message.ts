/**
 * Encodes and decodes the D-Bus wire format, for the types that systemd's manager uses. See "Message Protocol" and "Type System" in the
 * D-Bus specification.
 */
export interface DBusMessage {
  readonly kind: "call" | "return" | "error" | "signal";
  readonly serial: number;
  readonly path?: string;
  readonly interface?: string;
  readonly member?: string;
  readonly errorName?: string;
  readonly replySerial?: number;
  readonly destination?: string;
  /** Concatenated types of the body. */
  readonly signature: string;
  readonly body: readonly DBusValue[];
}

/** Arrays, structs and variants are represented as lists; a variant is `[signature, value]`. */
export type DBusValue = string | number | bigint | boolean | readonly DBusValue[];

const KINDS = ["call", "return", "error", "signal"] as const;
/** Header fields with their codes and types. */
const FIELDS = [
  ["path", 1, "o"],
  ["interface", 2, "s"],
  ["member", 3, "s"],
  ["errorName", 4, "s"],
  ["replySerial", 5, "u"],
  ["destination", 6, "s"],
  ["signature", 8, "g"],
] as const;
/** Size of the fixed header: byte order, kind, flags, version, body length, serial, and the length of the header fields. */
const FIXED_BYTES = 16;
const MESSAGE_BYTES_MAX = 2 ** 27;
/** Alignments in bytes. Numbers are aligned to their size, strings and arrays to their 4-byte length, and structs to 8 bytes. */
const ALIGNMENTS: Readonly<Record<string, number>> = {
  ...{ y: 1, g: 1, v: 1, n: 2, q: 2, b: 4, i: 4, u: 4, h: 4, s: 4, o: 4, a: 4, x: 8, t: 8, d: 8 },
  ...{ "(": 8, "{": 8 },
};

/** Messages are written in little-endian byte order on every machine; the first byte of a message states its byte order. */
const LITTLE = "l".charCodeAt(0);

export function encodeMessage(message: DBusMessage): Buffer {
  const body = new Writer();
  body.all(message.signature, message.body);
  const fields = FIELDS.flatMap(([name, code, type]): DBusValue[] => {
    const value = message[name];
    return value === undefined || value === "" ? [] : [[code, [type, value]]];
  });
  const header = new Writer();
  const kind = KINDS.indexOf(message.kind) + 1;
  header.all("yyyyuua(yv)", [LITTLE, kind, 0, 1, body.bytes.length, message.serial, fields]);
  header.align(8);
  return Buffer.from([...header.bytes, ...body.bytes]);
}

/** Decodes the first message in `bytes`; undefined while it is incomplete. @throws for an invalid message */
export function decodeMessage(bytes: Buffer): { readonly message: DBusMessage; readonly size: number } | undefined {
  if (bytes.length < FIXED_BYTES) return undefined;
  const reader = new Reader(bytes, bytes[0] === LITTLE);
  const [, kindCode, , , bodyBytes, serial] = reader.all("yyyyuu") as [number, number, number, number, number, number]; // the signature determines these types
  const kind = KINDS[kindCode - 1];
  const fieldBytes = reader.peekLength();
  const start = Math.ceil((FIXED_BYTES + fieldBytes) / 8) * 8;
  const size = start + bodyBytes;
  if (kind === undefined || size > MESSAGE_BYTES_MAX) throw new Error("invalid D-Bus message");
  if (bytes.length < size) return undefined;
  const [fields] = reader.all("a(yv)") as [[number, [string, string & number]][]]; // the signature determines these types
  const header: Partial<Record<(typeof FIELDS)[number][0], string & number>> = {};
  for (const [code, [, value]] of fields) {
    const field = FIELDS.find(([, known]) => known === code);
    if (field !== undefined) header[field[0]] = value;
  }
  const { signature = "", ...rest } = header;
  return { message: { kind, serial, ...rest, signature, body: reader.from(start).all(signature) }, size };
}

/** Splits a signature into its types: `sa(sv)u` has the types `s`, `a(sv)` and `u`. */
function typesOf(signature: string): readonly string[] {
  const types: string[] = [];
  for (let at = 0; at < signature.length;) {
    const end = endOfType(signature, at);
    types.push(signature.slice(at, end));
    at = end;
  }
  return types;
}

function endOfType(signature: string, at: number): number {
  if (signature[at] === "a") return endOfType(signature, at + 1);
  if (signature[at] !== "(" && signature[at] !== "{") return at + 1;
  let end = at + 1;
  while (end < signature.length && !")}".includes(signature[end] ?? "")) end = endOfType(signature, end);
  return end + 1;
}

function alignmentOf(type: string): number {
  const alignment = ALIGNMENTS[type[0] ?? ""];
  if (alignment === undefined) throw new Error(`unsupported D-Bus type ${type}`);
  return alignment;
}

class Writer {
  readonly bytes: number[] = [];

  all(signature: string, values: readonly DBusValue[]): void {
    for (const [index, type] of typesOf(signature).entries()) this.#one(type, values[index] as DBusValue); // one value per type
  }

  align(to: number): void {
    while (this.bytes.length % to !== 0) this.bytes.push(0);
  }

  #one(type: string, value: DBusValue): void {
    this.align(alignmentOf(type));
    switch (type[0]) {
      case "y":
        return void this.bytes.push(Number(value));
      case "b":
      case "u":
        return this.#integer(BigInt(value as number), 4); // according to the type
      case "t":
        return this.#integer(BigInt(value as bigint), 8); // according to the type
      case "s":
      case "o":
        this.#integer(BigInt(Buffer.byteLength(String(value))), 4);
        return void this.bytes.push(...Buffer.from(`${String(value)}\0`));
      case "g":
        return void this.bytes.push(String(value).length, ...Buffer.from(`${String(value)}\0`));
      case "(":
        return this.all(type.slice(1, -1), value as readonly DBusValue[]); // according to the type
      case "v": {
        const [signature, content] = value as readonly [string, DBusValue]; // according to the type
        this.#one("g", signature);
        return this.#one(signature, content);
      }
      case "a": {
        const lengthAt = this.bytes.length;
        this.#integer(0n, 4);
        const element = type.slice(1);
        this.align(alignmentOf(element));
        const from = this.bytes.length;
        for (const one of value as readonly DBusValue[]) this.#one(element, one); // according to the type
        const length = new Writer();
        length.#integer(BigInt(this.bytes.length - from), 4);
        this.bytes.splice(lengthAt, 4, ...length.bytes);
        return;
      }
      default:
        throw new Error(`cannot encode D-Bus type ${type}`);
    }
  }

  #integer(value: bigint, size: number): void {
    for (let byte = 0; byte < size; byte++) this.bytes.push(Number((value >> BigInt(8 * byte)) & 0xffn));
  }
}

class Reader {
  readonly #bytes: Buffer;
  readonly #isLittle: boolean;
  #at = 0;

  constructor(bytes: Buffer, isLittle: boolean) {
    this.#bytes = bytes;
    this.#isLittle = isLittle;
  }

  from(at: number): this {
    this.#at = at;
    return this;
  }

  all(signature: string): readonly DBusValue[] {
    return typesOf(signature).map((type) => this.#one(type));
  }

  /** Returns the byte length of the next array. */
  peekLength(): number {
    const at = this.#at;
    const length = this.#unsigned();
    this.#at = at;
    return length;
  }

  #one(type: string): DBusValue {
    this.#align(alignmentOf(type));
    switch (type[0]) {
      case "b":
        return this.#unsigned() === 1;
      case "t":
      case "x":
      case "d":
        return this.#long(type);
      case "s":
      case "o":
        return this.#text(this.#unsigned());
      case "g":
        return this.#text(this.#short("y"));
      case "(":
      case "{":
        return this.all(type.slice(1, -1));
      case "v": {
        const signature = String(this.#one("g"));
        return [signature, this.#one(signature)];
      }
      case "a": {
        const length = this.#unsigned();
        const element = type.slice(1);
        this.#align(alignmentOf(element));
        const end = this.#at + length;
        const values: DBusValue[] = [];
        while (this.#at < end) values.push(this.#one(element));
        return values;
      }
      default:
        return this.#short(type);
    }
  }

  #align(to: number): void {
    this.#at = Math.ceil(this.#at / to) * to;
  }

  #unsigned(): number {
    return this.#short("u");
  }

  #short(type: string): number {
    const size = alignmentOf(type);
    this.#at += size;
    const isSigned = type === "n" || type === "i";
    const at = this.#at - size;
    if (isSigned) return this.#isLittle ? this.#bytes.readIntLE(at, size) : this.#bytes.readIntBE(at, size);
    return this.#isLittle ? this.#bytes.readUIntLE(at, size) : this.#bytes.readUIntBE(at, size);
  }

  #long(type: string): bigint | number {
    this.#at += 8;
    const view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset + this.#at - 8, 8);
    if (type === "d") return view.getFloat64(0, this.#isLittle);
    return type === "x" ? view.getBigInt64(0, this.#isLittle) : view.getBigUint64(0, this.#isLittle);
  }

  /** Reads a string, and skips the zero byte after it. */
  #text(length: number): string {
    this.#at += length + 1;
    return this.#bytes.toString("utf8", this.#at - length - 1, this.#at - 1);
  }
}
