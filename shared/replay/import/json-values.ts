/** Parses a sequence of JSON values, one per line or over several lines, as kubectl prints them. */
import { parseExact } from "@deltaloop/base";
import { CaptureError, LINE_BYTES_MAX, isObject, wrongShape } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";

export interface JsonValue {
  readonly value: CapturedObject;
  /** `FILE:LINE` where the value starts. */
  readonly place: string;
}

const [QUOTE, BACKSLASH, FEED] = [0x22, 0x5c, 0x0a];
const OPEN = 0x7b;
const OPENS = new Set([OPEN, 0x5b]);
const CLOSES = new Set([0x7d, 0x5d]);
const BLANK = new Set([0x20, 0x09, 0x0d, FEED]);
const MIB = 2 ** 20;
/** A megabyte of gzip data can hold a gigabyte of blanks: more than these between values, beyond 16 per value, are an error. */
const [BLANKS_MAX, BLANKS_PER_VALUE] = [MIB, 16];
/** A byte order mark, which Windows PowerShell writes on redirection. */
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Where a value is truncated: at the end of its file, or before other values (a full disk, a rotation, a crash of its writer). */
export type Tear = "end" | "line";

/**
 * The values of a file. Buffers only the current value. A truncated line is skipped: parsing resumes at the next line that begins
 * with `{`.
 *
 * @param onTorn called for each truncated value
 * @throws {CaptureError} when a non-empty file holds no JSON object
 */
export async function* streamedValues(
  chunks: AsyncIterable<Buffer>,
  name: string,
  onTorn: (tear: Tear) => void,
): AsyncGenerator<JsonValue> {
  const scan = new ValueScan(name, onTorn);
  let isFirst = true;
  for await (const chunk of chunks) {
    const bytes = isFirst && chunk.subarray(0, MARK.length).equals(MARK) ? chunk.subarray(MARK.length) : chunk;
    isFirst = false;
    yield* scan.values(bytes);
  }
  scan.end();
}

/** Parses chunk by chunk. */
class ValueScan {
  readonly #name: string;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #blanks = 0;
  #line = 1;
  #place = "";
  #depth = 0;
  #isText = false;
  #isEscaped = false;
  #isAtMargin = true;
  /** Whether lines are skipped, from a truncation until the next line that begins a value. */
  #isSkipping = false;
  #hasValue = false;
  #problem: string | undefined;
  readonly #onTorn: (tear: Tear) => void;

  constructor(name: string, onTorn: (tear: Tear) => void) {
    this.#name = name;
    this.#onTorn = onTorn;
  }

  *values(chunk: Buffer): Generator<JsonValue> {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === FEED) this.#line++;
      if (byte === OPEN && (at === 0 ? this.#isAtMargin : chunk[at - 1] === FEED)) {
        // No line within a value begins with a brace in the first column, so the value before it was truncated.
        if (this.#depth > 0) this.#tear(`${this.#place}: not JSON`);
        [start, this.#place, this.#isSkipping] = [at, `${this.#name}:${this.#line}`, false];
        [this.#depth, this.#isText, this.#isEscaped] = [1, false, false];
      } else if (this.#isSkipping) {
        continue;
      } else if (this.#depth === 0) {
        if (BLANK.has(byte)) {
          if (++this.#blanks > BLANKS_MAX) throw new CaptureError(`${this.#name}:${this.#line}: more than 1 MiB of blanks between values`);
          continue;
        }
        this.#place = `${this.#name}:${this.#line}`;
        if (byte === OPEN) [start, this.#depth] = [at, 1];
        else this.#tear(`${this.#place}: value is not a JSON object`);
      } else if (this.#ends(byte)) {
        this.#keep(chunk.subarray(start, at + 1));
        const value = parsed(Buffer.concat(this.#pieces).toString("utf8"));
        if (value === undefined) {
          this.#tear(`${this.#place}: not JSON`);
          continue;
        }
        [this.#pieces, this.#bytes, this.#hasValue] = [[], 0, true];
        this.#blanks -= BLANKS_PER_VALUE;
        yield { value, place: this.#place };
      }
    }
    if (this.#depth > 0) this.#keep(chunk.subarray(start));
    if (chunk.length > 0) this.#isAtMargin = chunk.at(-1) === FEED;
  }

  /** @throws {CaptureError} with the first error when no value was read */
  end(): void {
    if (this.#depth > 0) this.#onTorn("end");
    if (this.#problem !== undefined && !this.#hasValue) throw new CaptureError(this.#problem);
  }

  #tear(problem: string): void {
    this.#problem ??= problem;
    this.#onTorn("line");
    [this.#pieces, this.#bytes, this.#depth, this.#isText, this.#isEscaped, this.#isSkipping] = [[], 0, 0, false, false, true];
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
    if (this.#bytes > LINE_BYTES_MAX) throw new CaptureError(`${this.#place}: value is longer than ${LINE_BYTES_MAX / MIB} MiB`);
  }
}

/** Returns undefined for text that is not JSON. V8's message would quote the input, which may be a secret. */
function parsed(text: string): CapturedObject | undefined {
  try {
    return parseExact(text) as CapturedObject; // the text begins with a brace
  } catch {
    return undefined;
  }
}

/** An API object of the expected shape. */
export function objectAt(value: unknown, place: string): CapturedObject {
  if (!isObject(value)) throw new CaptureError(`${place}: value is not a JSON object`);
  const wrong = wrongShape(value);
  if (wrong !== undefined) throw new CaptureError(`${place}: ${wrong}`);
  return value;
}
