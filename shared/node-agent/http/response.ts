/**
 * Reads one HTTP/1 response to a GET. It accepts and rejects the same responses as Go's net/http, because people test their probe
 * endpoints with the kubelet. Responses of the API server are read by the stricter shared/base/http instead.
 *
 * RR1 lines end in a line feed, with or without a carriage return; chunk lines need both.
 * RR2 interim responses are skipped, except 101. All response heads together are at most 1 MiB; there are at most 100 interim responses.
 * RR3 a body is framed by chunked coding, by Content-Length, or by the end of the connection, in this order.
 * RR4 a response or body that ends prematurely is an error.
 *
 * Source: Go net/http/response.go ReadResponse, transfer.go readTransfer, internal/chunked.go; Go net/textproto/reader.go ReadMIMEHeader.
 */

export interface Response {
  readonly status: number;
  /** Returns the first value of a header. `name` must be in lower case. */
  header(name: string): string | undefined;
  /** The body. Iteration throws {Error} if the body is malformed or incomplete. */
  readonly body: AsyncIterable<Buffer>;
}

/** Differs from upstream's limit of 10 MiB, which every probe of a node might hold in memory. */
const HEAD_BYTES_MAX = 1024 * 1024;
/** Maximum number of interim responses. Differs from upstream, which limits their total size. */
const INTERIM_MAX = 100;
const CHUNK_LINE_BYTES_MAX = 4096;
const TRAILER_BYTES_MAX = 4096;
/** Maximum overhead of chunk lines, as in Go. */
const CHUNK_EXCESS_MAX = 16 * 1024;
const LENGTH_MAX = 2n ** 63n - 1n;

const FIELD_NAME = /^[\w!#$%&'*+\-.^`|~ ]+$/;
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const FRAMING: ReadonlySet<string> = new Set(["transfer-encoding", "trailer", "content-length"]);

type Headers = ReadonlyMap<string, readonly string[]>;

/** @throws {Error} when the response is not HTTP/1 */
export async function readResponse(chunks: AsyncIterable<Buffer>): Promise<Response> {
  const bytes = new Bytes(chunks);
  for (let interims = 0; interims <= INTERIM_MAX; interims++) {
    const { status, isCurrent } = statusOf(await bytes.line());
    const headers = await readHeaders(bytes);
    const body = bodyOf(bytes, headers, { status, isCurrent });
    if (status < 100 || status > 199 || status === 101) return { status, header: (name) => headers.get(name)?.[0], body };
  }
  throw new Error("too many 1xx informational responses");
}

function statusOf(line: string): { readonly status: number; readonly isCurrent: boolean } {
  const [, major, minor, code = ""] = /^HTTP\/(\d)\.(\d) +([^ ]*)/.exec(line) ?? [];
  if (major === undefined || !/^(?:\d{3}|\+\d\d|-00)$/.test(code))
    throw new Error(`malformed HTTP response ${JSON.stringify(line.slice(0, 80))}`);
  // Go accepts 0.0 as the version.
  return { status: Math.abs(Number(code)), isCurrent: major > "1" || (major === "1" && minor !== "0") || `${major}${minor}` === "00" };
}

async function readHeaders(bytes: Bytes): Promise<Headers> {
  const headers = new Map<string, string[]>();
  if (isBlank(await bytes.peek(1))) throw new Error("malformed MIME header initial line");
  for (let line = await bytes.line(); line !== ""; line = await bytes.line()) {
    const colon = line.indexOf(":");
    let field = trimmed(line);
    while (isBlank(await bytes.peek(1))) field += ` ${trimmed(await bytes.line())}`;
    const name = line.slice(0, Math.max(0, colon));
    const value = trimmed(field.slice(colon + 1));
    if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) throw new Error("malformed MIME header line");
    // In Go, a name with a space is the name of another header, not an error.
    const key = name.toLowerCase();
    const values = headers.get(key);
    if (values === undefined) headers.set(key, [value]);
    else values.push(value);
  }
  return headers;
}

interface Version {
  readonly status: number;
  /** Whether the version is HTTP/1.1 or later. */
  readonly isCurrent: boolean;
}

function bodyOf(bytes: Bytes, headers: Headers, { status, isCurrent }: Version): AsyncIterable<Buffer> {
  const codings = isCurrent ? (headers.get("transfer-encoding") ?? []) : [];
  const isChunked = codings.length > 0;
  if (isChunked && (codings.length > 1 || codings[0]?.toLowerCase() !== "chunked")) throw new Error("unsupported transfer encoding");
  const length = lengthOf(headers.get("content-length") ?? []);
  if (isChunked) checkTrailer(headers.get("trailer") ?? []);
  if (status === 204 || status === 304 || (status >= 100 && status <= 199)) return exactly(bytes, 0);
  if (isChunked) return chunked(bytes);
  return length === undefined ? untilEnd(bytes) : exactly(bytes, length);
}

function lengthOf([first, ...others]: readonly string[]): number | undefined {
  if (first === undefined) return undefined;
  const [, digits] = /^0*(\d{1,19})$/.exec(first) ?? [];
  if (digits === undefined || BigInt(digits) > LENGTH_MAX) throw new Error("bad Content-Length");
  if (others.some((other) => other !== first)) throw new Error("multiple Content-Length headers");
  return Number(digits);
}

function checkTrailer(values: readonly string[]): void {
  const names = values.flatMap((value) => value.split(",")).map((name) => trimmed(name).toLowerCase());
  if (names.some((name) => FRAMING.has(name))) throw new Error("bad trailer key");
}

async function* exactly(bytes: Bytes, length: number): AsyncGenerator<Buffer, void> {
  for (let missing = length; missing > 0;) {
    const piece = await bytes.some(missing);
    if (piece.length === 0) throw new Error("unexpected EOF");
    missing -= piece.length;
    yield piece;
  }
}

async function* untilEnd(bytes: Bytes): AsyncGenerator<Buffer, void> {
  for (let piece = await bytes.some(Infinity); piece.length > 0; piece = await bytes.some(Infinity)) yield piece;
}

async function* chunked(bytes: Bytes): AsyncGenerator<Buffer, void> {
  let excess = 0;
  for (;;) {
    const line = await bytes.chunkLine();
    const size = sizeOf(line);
    if (size === 0) break;
    excess = Math.max(0, excess + line.length + 2 - 16 - 2 * size);
    if (excess > CHUNK_EXCESS_MAX) throw new Error("chunked encoding contains too much non-data");
    yield* exactly(bytes, size);
    if ((await bytes.peek(2)) !== "\r\n") throw new Error("malformed chunked encoding");
    bytes.take(2);
  }
  if ((await bytes.peek(2)) === "\r\n") return;
  if (!(await bytes.has("\r\n\r\n", TRAILER_BYTES_MAX))) throw new Error("suspiciously long trailer after chunked body");
  await readHeaders(bytes);
}

function sizeOf(line: string): number {
  const [, size] = /^([\da-f]{1,16})(?:;|[ \t]*$)/i.exec(line) ?? [];
  if (size === undefined) throw new Error("invalid chunk length");
  return Number.parseInt(size, 16);
}

function isBlank(text: string): boolean {
  return text === " " || text === "\t";
}

/** Trims only spaces and tabs. A regular expression would take quadratic time. */
function trimmed(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && isBlank(text.charAt(from))) from++;
  while (from < to && isBlank(text.charAt(to - 1))) to--;
  return text.slice(from, to);
}

/** The bytes of a connection, in the order in which they arrive. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);
  #headBytes = 0;

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  take(size: number): Buffer {
    const taken = this.#held.subarray(0, size);
    this.#held = this.#held.subarray(size);
    return taken;
  }

  /** Returns the next bytes as text without consuming them; fewer than `size` bytes only at the end of the connection. */
  async peek(size: number): Promise<string> {
    while (this.#held.length < size && (await this.#receive()));
    return this.#held.toString("latin1", 0, size);
  }

  /** Returns at most `size` bytes; returns none only at the end of the connection. */
  async some(size: number): Promise<Buffer> {
    await this.peek(1);
    return this.take(Math.min(size, this.#held.length));
  }

  /** Returns a line of a response head, without its line ending. */
  async line(): Promise<string> {
    const line = await this.#line(HEAD_BYTES_MAX - this.#headBytes);
    this.#headBytes += line.length;
    return line.slice(0, line.endsWith("\r\n") ? -2 : -1);
  }

  async chunkLine(): Promise<string> {
    const line = await this.#line(CHUNK_LINE_BYTES_MAX);
    if (line.indexOf("\r") !== line.length - 2) throw new Error("invalid line end in a chunk line");
    return line.slice(0, -2);
  }

  /** Whether `text` occurs within the next `bytesMax` bytes. */
  async has(text: string, bytesMax: number): Promise<boolean> {
    return (await this.#find(text, bytesMax)) !== -1;
  }

  async #line(bytesMax: number): Promise<string> {
    const at = await this.#find("\n", bytesMax);
    if (at !== -1) return this.take(at + 1).toString("latin1");
    throw new Error(this.#held.length < bytesMax ? "unexpected EOF" : "response headers or chunk line too long");
  }

  async #find(text: string, bytesMax: number): Promise<number> {
    for (let from = 0; ;) {
      const at = this.#held.indexOf(text, from, "latin1");
      if (at !== -1) return at + text.length <= bytesMax ? at : -1;
      from = Math.max(0, this.#held.length - text.length + 1);
      if (this.#held.length >= bytesMax || !(await this.#receive())) return -1;
    }
  }

  async #receive(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    if (done === true) return false;
    this.#held = this.#held.length === 0 ? value : Buffer.concat([this.#held, value]);
    return true;
  }
}
