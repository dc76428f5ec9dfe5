/**
 * Incremental parser of one HTTP/1.1 response (RFC 9112). It rejects responses that two parsers could read differently.
 *
 * HA1 a body is framed by `Content-Length`, by chunked coding, or by the end of the connection; never by two of these.
 * HA2 interim responses (1xx) are skipped, at most five.
 * HA3 a head is at most 64 KiB, a chunk line 4 KiB; at most `bodyBytesMax` of the body are kept.
 * HA4 bytes after the response are an error, because no request is outstanding.
 */

/** Keys are lower-case. Of repeated headers the first one is used, as in Go and Node; repeated framing headers are joined with commas. */
export type Headers = Readonly<Record<string, string | undefined>>;

export interface Head {
  readonly code: number;
  readonly headers: Headers;
}

/** The received bytes are not an HTTP/1.1 response, or not a response to the request. */
export class MalformedAnswerError extends Error {
  override readonly name = "MalformedAnswerError";
  /** Code of a connection error. */
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
/** Control characters that a head or line must not contain: some parsers accept a line feed alone as a line end. */
const BREAKS = /\0|\r(?!\n)|(?<!\r)\n/;
const LENGTH = /^\d{1,15}$/;
const CHUNK_SIZE = /^0*([\da-f]{1,12})[ \t]*(?:;[ \t]*[\w!#$%&'*+\-.^`|~]+(?:=(?:[\w!#$%&'*+\-.^`|~]+|"[^"\\]*"))?[ \t]*)*$/i;

type Part = "head" | "length" | "chunk size" | "chunk" | "chunk end" | "trailer" | "until it closes" | "nothing";

export class AnswerReader {
  readonly #bodyBytesMax: number;
  readonly #onHead: (head: Head) => void;
  readonly #onBody: ((bytes: Buffer) => void) | undefined;
  #part: Part = "head";
  /** The received part of an incomplete head or line. */
  #begun: Buffer | undefined;
  #head: Head | undefined;
  #body = new Bytes();
  /** Remaining bytes of the body or chunk. */
  #missing = 0;
  #interims = 0;
  #trailerBytes = 0;
  #keeps = false;
  #isCut = false;

  /**
   * @param onHead receives the final head as soon as it is complete
   * @param onBody receives the body as it arrives; then the body is not buffered and `bodyBytesMax` has no effect
   */
  constructor(bodyBytesMax: number, onHead: (head: Head) => void, onBody?: (bytes: Buffer) => void) {
    this.#bodyBytesMax = bodyBytesMax;
    this.#onHead = onHead;
    this.#onBody = onBody;
  }

  /** The final head, if complete. */
  get head(): Head | undefined {
    return this.#head;
  }

  /** Returns the body up to `bodyBytesMax`. */
  bytes(): Buffer {
    return this.#body.bytes();
  }

  /** Whether the body exceeds `bodyBytesMax`; the rest is not read. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether the connection can be reused after the complete response. */
  get keepsConnection(): boolean {
    return this.#keeps && !this.#isCut;
  }

  /**
   * Returns whether the response is complete or cut.
   *
   * @throws {MalformedAnswerError}
   */
  push(bytes: Buffer): boolean {
    let at = 0;
    while (at < bytes.length) {
      if (this.#part === "nothing") throw new MalformedAnswerError("unexpected bytes after the response");
      at = this.#take(bytes, at);
      if (this.#isCut) return true;
    }
    return this.#part === "nothing";
  }

  /** Whether the response is complete, regardless of the connection. */
  get isWhole(): boolean {
    return this.#part === "nothing";
  }

  /** Handles the end of the connection. Returns whether the response is complete. */
  end(): boolean {
    return this.#part === "until it closes" || this.isWhole;
  }

  /** @returns the position after the consumed part */
  #take(bytes: Buffer, at: number): number {
    switch (this.#part) {
      case "head":
        return this.#takeHead(bytes, at);
      case "chunk size":
        return this.#until("\r\n", bytes, at, CHUNK_LINE_BYTES_MAX, (text) => this.#readChunkSize(text));
      case "chunk end":
        return this.#until("\r\n", bytes, at, CHUNK_LINE_BYTES_MAX, (text) => {
          if (text !== "") throw new MalformedAnswerError("a chunk exceeds its declared size");
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

  /** Rejects bytes that cannot start a head before the head is complete. Each byte is examined once. */
  #takeHead(bytes: Buffer, at: number): number {
    const next = this.#until(HEAD_END, bytes, at, HEAD_BYTES_MAX, (text) => this.#readHead(text));
    const begun = this.#begun;
    if (begun === undefined) return next;
    const start = begun.toString("latin1", 0, HEAD_BEGIN.length);
    const newest = begun.toString("latin1", Math.max(0, begun.length - (bytes.length - at) - 1));
    // Checks the new bytes and the preceding byte: a leading line feed was already checked, and a line feed may still follow a trailing
    // carriage return.
    if (!HEAD_BEGIN.startsWith(start) || BREAKS.test(newest.replace(/^\n/, "").replace(/\r$/, "")))
      throw new MalformedAnswerError("the response does not start with HTTP/1.1");
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

  /** Reads the text before `end`, or keeps an incomplete text until more bytes arrive. */
  #until(end: string, bytes: Buffer, at: number, bytesMax: number, read: (text: string) => void): number {
    const begun = this.#begun;
    const all = begun === undefined ? bytes : Buffer.concat([begun, bytes.subarray(at)]);
    const from = begun === undefined ? at : 0;
    // `end` may be split between the two buffers.
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
    if (status === null || BREAKS.test(text)) throw new MalformedAnswerError("the head is not valid HTTP/1.1");
    const code = Number(status[2]);
    const headers = headersOf(lines);
    if (code < 200) {
      if (code === 101) throw new MalformedAnswerError("the response switches protocols");
      if (++this.#interims > INTERIM_MAX) throw new MalformedAnswerError(`more than ${INTERIM_MAX} interim responses`);
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
      if (coding.toLowerCase() !== "chunked" || !isCurrent) throw new MalformedAnswerError("an unsupported transfer coding");
      if (length !== undefined) throw new MalformedAnswerError("both chunked coding and Content-Length");
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
    if (size === undefined || BREAKS.test(text)) throw new MalformedAnswerError("an invalid chunk size");
    this.#missing = Number.parseInt(size, 16);
    this.#part = this.#missing === 0 ? "trailer" : "chunk";
  }

  #readTrailer(text: string): void {
    this.#trailerBytes += text.length;
    if (BREAKS.test(text)) throw new MalformedAnswerError("an invalid trailer");
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
    if (!FIELD_NAME.test(name)) throw new MalformedAnswerError("an invalid header line");
    const value = trimmed(line, colon + 1);
    const former = headers[name];
    if (former === undefined) headers[name] = value;
    else if (JOINED.has(name)) headers[name] = `${former}, ${value}`;
  }
  return headers;
}

/**
 * Rejects a trailer with a framing header (Content-Length, Transfer-Encoding), because parsers disagree on it. Node's parser also rejects
 * it. Other trailers are dropped.
 */
function throwIfFraming(trailer: Headers): void {
  if (trailer["content-length"] !== undefined || trailer["transfer-encoding"] !== undefined)
    throw new MalformedAnswerError("the trailer contains a framing header");
}

/** Trims blanks and tabs only: other white space is part of a value. */
function trimmed(line: string, start: number): string {
  let [from, to] = [start, line.length];
  while (from < to && isBlank(line, from)) from++;
  while (from < to && isBlank(line, to - 1)) to--;
  return line.slice(from, to);
}

function isBlank(line: string, at: number): boolean {
  return line[at] === " " || line[at] === "\t";
}

/** Repeated headers are joined with commas, so the joined text is rejected as not a number. */
function lengthOf(text: string): number {
  if (!LENGTH.test(text)) throw new MalformedAnswerError("an invalid Content-Length");
  return Number(text);
}

/** Collects chunks in one buffer: many small buffers would cost more than their content. */
class Bytes {
  /** The first chunk without a copy, until a second chunk arrives. */
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;
  #isOwn = false;

  get length(): number {
    return this.#length;
  }

  push(bytes: Buffer, from: number, to: number): void {
    if (from >= to) return;
    if (this.#length === 0) {
      this.#buffer = bytes.subarray(from, to);
    } else {
      this.#makeRoom(to - from);
      bytes.copy(this.#buffer, this.#length, from, to);
    }
    this.#length += to - from;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #makeRoom(more: number): void {
    const wanted = this.#length + more;
    if (this.#isOwn && wanted <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(wanted, 2 * this.#buffer.length));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
    this.#isOwn = true;
  }
}
