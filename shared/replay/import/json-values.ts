/** Takes a text apart that is one JSON value after the other, on lines of their own or over many, as kubectl prints them. */
import { parseExact } from "@deltaloop/base";
import { CaptureError, LINE_BYTES_MAX, isObject, wrongShape } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";

export interface JsonValue {
  readonly value: CapturedObject;
  /** `FILE:LINE` where it begins. */
  readonly place: string;
}

const [QUOTE, BACKSLASH, FEED] = [0x22, 0x5c, 0x0a];
const OPENS = new Set([0x7b, 0x5b]);
const CLOSES = new Set([0x7d, 0x5d]);
const BLANK = new Set([0x20, 0x09, 0x0d, FEED]);
const MIB = 2 ** 20;
/** A byte order mark, which Windows' PowerShell puts before what it redirects. */
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Of what comes piece by piece no more is held than the value that is being read.
 *
 * @param onTorn told once when the last value has no end: whoever wrote it was interrupted
 * @throws {CaptureError} where something stands that is no JSON object
 */
export async function* streamedValues(chunks: AsyncIterable<Buffer>, name: string, onTorn: () => void): AsyncGenerator<JsonValue> {
  const scan = new ValueScan(name);
  let isFirst = true;
  for await (const chunk of chunks) {
    const bytes = isFirst && chunk.subarray(0, MARK.length).equals(MARK) ? chunk.subarray(MARK.length) : chunk;
    isFirst = false;
    yield* scan.values(bytes);
  }
  if (scan.isOpen) onTorn();
}

/** Knows where it stands between two pieces. */
class ValueScan {
  readonly #name: string;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #line = 1;
  #place = "";
  #depth = 0;
  #isText = false;
  #isEscaped = false;

  constructor(name: string) {
    this.#name = name;
  }

  get isOpen(): boolean {
    return this.#depth > 0;
  }

  *values(chunk: Buffer): Generator<JsonValue> {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === FEED) this.#line++;
      if (this.#depth === 0) {
        if (BLANK.has(byte)) continue;
        this.#place = `${this.#name}:${this.#line}`;
        if (byte !== 0x7b) throw new CaptureError(`${this.#place}: is no JSON object`);
        [start, this.#depth] = [at, 1];
      } else if (this.#ends(byte)) {
        this.#keep(chunk.subarray(start, at + 1));
        yield { value: parsed(Buffer.concat(this.#pieces).toString("utf8"), this.#place), place: this.#place };
        [this.#pieces, this.#bytes] = [[], 0];
      }
    }
    if (this.#depth > 0) this.#keep(chunk.subarray(start));
  }

  #ends(byte: number): boolean {
    if (this.#isText) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#isText = false;
    } else if (byte === QUOTE) this.#isText = true;
    else if (OPENS.has(byte)) this.#depth++;
    else if (CLOSES.has(byte)) this.#depth--;
    return this.#depth === 0;
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes > LINE_BYTES_MAX) throw new CaptureError(`${this.#place}: is longer than ${LINE_BYTES_MAX / MIB} MiB`);
  }
}

function parsed(text: string, place: string): CapturedObject {
  try {
    const value = parseExact(text);
    if (isObject(value)) return value;
  } catch {
    // What V8 says of it quotes it, and it may be a secret.
    throw new CaptureError(`${place}: not JSON`);
  }
  throw new CaptureError(`${place}: is no JSON object`);
}

/** An API object as everybody who handles one relies on it. */
export function objectAt(value: unknown, place: string): CapturedObject {
  if (!isObject(value)) throw new CaptureError(`${place}: is no JSON object`);
  const wrong = wrongShape(value);
  if (wrong !== undefined) throw new CaptureError(`${place}: ${wrong}`);
  return value;
}
