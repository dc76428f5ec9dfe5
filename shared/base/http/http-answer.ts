/**
 * One answer of HTTP/1.1, as it comes in pieces. Strict where two readers could understand an answer in two ways: what is malformed ends its
 * connection.
 *
 * HA1 a body has the length that `Content-Length` says, or is chunked, or lasts as long as its connection; never two of these.
 * HA2 interim answers (1xx) are passed over, five at most.
 * HA3 a head has at most 64 KiB, a line of a chunk 4 KiB; of a body no more is kept than the caller asked for.
 * HA4 bytes behind the answer are none of it: nothing was asked that they could answer.
 *
 * The form is that of RFC 9112.
 */

/** By lower-case name. Of a repeated one the first counts, as Go's and Node's clients have it; those that say where an answer ends are joined with commas. */
export type Headers = Readonly<Record<string, string | undefined>>;

export interface Head {
  readonly code: number;
  readonly headers: Headers;
}

/** What came is no answer of HTTP/1.1, or not one to what was asked. */
export class MalformedAnswerError extends Error {
  override readonly name = "MalformedAnswerError";
  /** As of other failures of a connection. */
  readonly code = "EPROTO";
}

const HEAD_BYTES_MAX = 64 * 1024;
const CHUNK_LINE_BYTES_MAX = 4 * 1024;
const INTERIM_MAX = 5;
const HEAD_END = "\r\n\r\n";
const HEAD_BEGIN = "HTTP/1.";
const JOINED: ReadonlySet<string> = new Set(["connection", "content-length", "transfer-encoding"]);
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/;
const FIELD_NAME = /^[\w!#$%&'*+\-.^`|~]+$/;
/** Of which none may stand in a head or line: a line feed alone ends one for some readers. */
const BREAKS = /\0|\r(?!\n)|(?<!\r)\n/;
const LENGTH = /^\d{1,15}$/;
const CHUNK_SIZE = /^0*([\da-f]{1,12})[ \t]*(?:;[ \t]*[\w!#$%&'*+\-.^`|~]+(?:=(?:[\w!#$%&'*+\-.^`|~]+|"[^"\\]*"))?[ \t]*)*$/i;

/** What is expected next. */
type Part = "head" | "length" | "chunk size" | "chunk" | "chunk end" | "trailer" | "until it closes" | "nothing";

export class AnswerReader {
  readonly #bodyBytesMax: number;
  readonly #onHead: (head: Head) => void;
  readonly #onBody: ((bytes: Buffer) => void) | undefined;
  #part: Part = "head";
  /** Of a head or line that has not ended yet. */
  #begun: Buffer | undefined;
  #head: Head | undefined;
  #body = new Bytes();
  /** Of the body or chunk. */
  #missing = 0;
  #interims = 0;
  #trailerBytes = 0;
  #keeps = false;
  #isCut = false;

  /**
   * @param onHead receives the head as soon as it is complete; not interim ones
   * @param onBody receives the body as it arrives; then none of it is kept, and `bodyBytesMax` has no effect
   */
  constructor(bodyBytesMax: number, onHead: (head: Head) => void, onBody?: (bytes: Buffer) => void) {
    this.#bodyBytesMax = bodyBytesMax;
    this.#onHead = onHead;
    this.#onBody = onBody;
  }

  /** The head, once it has come. */
  get head(): Head | undefined {
    return this.#head;
  }

  /** The body, or as much of it as may be kept. */
  text(): string {
    return this.#body.text();
  }

  /** Whether the body was longer than may be kept; the rest is not waited for. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether another request may be sent on this connection after a whole answer. */
  get keepsConnection(): boolean {
    return this.#keeps && !this.#isCut;
  }

  /**
   * Whether the answer is whole, or cut.
   *
   * @throws {MalformedAnswerError}
   */
  push(bytes: Buffer): boolean {
    let at = 0;
    while (at < bytes.length) {
      if (this.#part === "nothing") throw new MalformedAnswerError("more came than was asked for");
      at = this.#take(bytes, at);
      if (this.#isCut) return true;
    }
    return this.#part === "nothing";
  }

  /** Whether all of it is here, whatever becomes of the connection. */
  get isWhole(): boolean {
    return this.#part === "nothing";
  }

  /** The connection has ended: whether that is the answer's end, too. */
  end(): boolean {
    return this.#part === "until it closes" || this.isWhole;
  }

  /** @returns where what follows begins */
  #take(bytes: Buffer, at: number): number {
    switch (this.#part) {
      case "head":
        return this.#takeHead(bytes, at);
      case "chunk size":
        return this.#until("\r\n", bytes, at, CHUNK_LINE_BYTES_MAX, (text) => this.#readChunkSize(text));
      case "chunk end":
        return this.#until("\r\n", bytes, at, CHUNK_LINE_BYTES_MAX, (text) => {
          if (text !== "") throw new MalformedAnswerError("a chunk is longer than it says");
          this.#part = "chunk size";
        });
      case "trailer":
        return this.#until("\r\n", bytes, at, HEAD_BYTES_MAX, (text) => this.#readTrailer(text));
      case "until it closes":
        this.#keep(bytes, at, bytes.length);
        return bytes.length;
      case "length":
      case "chunk":
      case "nothing":
        return this.#takeMissing(bytes, at);
    }
  }

  /** Refuses what cannot become a head before its end, which may never come. Each byte is looked at once. */
  #takeHead(bytes: Buffer, at: number): number {
    const next = this.#until(HEAD_END, bytes, at, HEAD_BYTES_MAX, (text) => this.#readHead(text));
    const begun = this.#begun;
    if (begun === undefined) return next;
    const start = begun.toString("latin1", 0, HEAD_BEGIN.length);
    const newest = begun.toString("latin1", Math.max(0, begun.length - (bytes.length - at) - 1));
    // Of the newest bytes and the one before: a first line feed was looked at already, one may still follow a last carriage return.
    if (!HEAD_BEGIN.startsWith(start) || BREAKS.test(newest.replace(/^\n/, "").replace(/\r$/, "")))
      throw new MalformedAnswerError("it does not begin as an answer of HTTP/1.1");
    return next;
  }

  #takeMissing(bytes: Buffer, at: number): number {
    const to = Math.min(bytes.length, at + this.#missing);
    this.#missing -= to - at;
    this.#keep(bytes, at, to);
    if (this.#missing === 0) this.#part = this.#part === "chunk" ? "chunk end" : "nothing";
    return to;
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    if (this.#onBody !== undefined) {
      this.#onBody(bytes.subarray(from, to));
      return;
    }
    const room = this.#bodyBytesMax - this.#body.length;
    if (to - from > room) this.#isCut = true;
    this.#body.push(bytes, from, Math.min(to, from + room));
  }

  /** Reads the text before `end` when that has come, else keeps what there is of it. */
  #until(end: string, bytes: Buffer, at: number, bytesMax: number, read: (text: string) => void): number {
    const begun = this.#begun;
    const all = begun === undefined ? bytes : Buffer.concat([begun, bytes.subarray(at)]);
    const from = begun === undefined ? at : 0;
    // What began may end within `end`.
    const found = all.indexOf(end, begun === undefined ? at : Math.max(0, begun.length - end.length + 1), "latin1");
    if ((found === -1 ? all.length : found) - from > bytesMax)
      throw new MalformedAnswerError(`a head or line of more than ${bytesMax} bytes`);
    if (found === -1) {
      this.#begun = all.subarray(from);
      return bytes.length;
    }
    this.#begun = undefined;
    read(all.toString("latin1", from, found));
    return found + end.length - (all.length - bytes.length);
  }

  #readHead(text: string): void {
    const [first = "", ...lines] = text.split("\r\n");
    const status = STATUS_LINE.exec(first);
    if (status === null || BREAKS.test(text)) throw new MalformedAnswerError("its head is none of HTTP/1.1");
    const code = Number(status[2]);
    const headers = headersOf(lines);
    if (code < 200) {
      if (code === 101) throw new MalformedAnswerError("it changes to another protocol");
      if (++this.#interims > INTERIM_MAX) throw new MalformedAnswerError(`more than ${INTERIM_MAX} interim answers`);
      return;
    }
    this.#head = { code, headers };
    this.#begin(code, headers, status[1] === "1");
    this.#onHead(this.#head);
  }

  #begin(code: number, headers: Headers, isCurrent: boolean): void {
    const { "content-length": length, "transfer-encoding": coding, connection = "" } = headers;
    const isKept = isCurrent && !/(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(connection);
    this.#keeps = isKept;
    if (code === 204 || code === 304) {
      this.#part = "nothing";
    } else if (coding !== undefined) {
      if (coding.toLowerCase() !== "chunked" || !isCurrent) throw new MalformedAnswerError("a transfer coding that was not asked for");
      if (length !== undefined) throw new MalformedAnswerError("it is chunked, and says its length");
      this.#part = "chunk size";
    } else if (length === undefined) {
      this.#keeps = false;
      this.#part = "until it closes";
    } else {
      this.#missing = lengthOf(length);
      this.#part = this.#missing === 0 ? "nothing" : "length";
    }
  }

  #readChunkSize(text: string): void {
    const [, size] = CHUNK_SIZE.exec(text) ?? [];
    if (size === undefined || BREAKS.test(text)) throw new MalformedAnswerError("a chunk without a size");
    this.#missing = Number.parseInt(size, 16);
    this.#part = this.#missing === 0 ? "trailer" : "chunk";
  }

  #readTrailer(text: string): void {
    this.#trailerBytes += text.length;
    if (BREAKS.test(text)) throw new MalformedAnswerError("a trailer that is none");
    if (this.#trailerBytes > HEAD_BYTES_MAX) throw new MalformedAnswerError(`a trailer of more than ${HEAD_BYTES_MAX} bytes`);
    if (text === "") this.#part = "nothing";
    else throwIfFraming(headersOf([text]));
  }
}

function headersOf(lines: readonly string[]): Headers {
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    if (!FIELD_NAME.test(name)) throw new MalformedAnswerError("a line of its head is no header");
    const value = trimmed(line, colon + 1);
    const former = headers[name];
    if (former === undefined) headers[name] = value;
    else if (JOINED.has(name)) headers[name] = `${former}, ${value}`;
  }
  return headers;
}

/** Trailers are not kept. One that frames the response could be understood in two ways; Node's parser refuses it, too. */
function throwIfFraming(trailer: Headers): void {
  if (trailer["content-length"] !== undefined || trailer["transfer-encoding"] !== undefined)
    throw new MalformedAnswerError("a trailer that frames the response");
}

/** Without the blanks and tabs around it: other white space is part of a value. */
function trimmed(line: string, start: number): string {
  let [from, to] = [start, line.length];
  while (from < to && isBlank(line, from)) from++;
  while (from < to && isBlank(line, to - 1)) to--;
  return line.slice(from, to);
}

function isBlank(line: string, at: number): boolean {
  return line[at] === " " || line[at] === "\t";
}

/** A repeated one is joined with a comma, and no number. */
function lengthOf(text: string): number {
  if (!LENGTH.test(text)) throw new MalformedAnswerError("a length that is none");
  return Number(text);
}

/** Bytes that come in pieces, in one place: many small pieces would each cost more than they hold. */
class Bytes {
  /** As they came, while there is one piece. */
  #held: Buffer = Buffer.alloc(0);
  #length = 0;
  #isOwn = false;

  get length(): number {
    return this.#length;
  }

  push(bytes: Buffer, from: number, to: number): void {
    if (from >= to) return;
    if (this.#length === 0) {
      this.#held = bytes.subarray(from, to);
    } else {
      this.#makeRoom(to - from);
      bytes.copy(this.#held, this.#length, from, to);
    }
    this.#length += to - from;
  }

  text(): string {
    return this.#held.toString("utf8", 0, this.#length);
  }

  #makeRoom(more: number): void {
    const wanted = this.#length + more;
    if (this.#isOwn && wanted <= this.#held.length) return;
    const larger = Buffer.allocUnsafe(Math.max(wanted, 2 * this.#held.length));
    this.#held.copy(larger, 0, 0, this.#length);
    this.#held = larger;
    this.#isOwn = true;
  }
}
