/**
 * Requests and answers of HTTP/1.1 with one server, over connections that are kept: one exchange at a time on each, nothing of a request
 * before the peer is verified, and no second use of a connection that did anything unasked.
 *
 * HX1 a call has its own connection until its answer is whole; there is no queue here, and no pipelining.
 * HX2 a call ends with the whole answer, or with what broke it off; then its connection is ended, too. An answer that is whole counts, also
 *    when its call is given up or its connection breaks at that moment; not where more has come behind it by the time that it is read.
 * HX3 a connection that has been idle for longer than it may is ended, not used; also after this process was frozen meanwhile.
 * HX4 what would break out of its line (a token with a line feed) is refused before anything is sent, and not quoted.
 * HX5 of a connection that was used before, what has come by the time that a call takes it, an end or more bytes, is seen before anything is
 *    sent there. Then nothing is, and the call goes on with a new connection. What is lost later, before it has a head of an answer, goes on
 *    with a new one, too, once, where it is a GET: the end may have been on its way. Nothing else that may have been sent is sent again.
 *
 * node:http does the same at 1.6 to 2 times the CPU (`npm run bench -- --only http`).
 *
 * The words are those of RFC 9110. Source of HX5: Go's net/http transport.go shouldRetryRequest, isReplayable. Differs from Go: it looks
 * before it writes, and tries a GET again, too, that met bytes which are no answer.
 */
import { isIP } from "node:net";
import type { Socket } from "node:net";

import { AnswerReader, MalformedAnswerError } from "./http-answer.ts";
import type { Head } from "./http-answer.ts";
import { openerOf } from "./http-connect.ts";
import type { Opened, Opener, Proxy, Server } from "./http-connect.ts";

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, encoded. */
  readonly target: string;
  /** Without Host and Content-Length. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Answer extends Head {
  /** As UTF-8. */
  readonly body: string;
  /** Whether the body was longer than may be read; then it is as much of it. */
  readonly isCut: boolean;
}

export interface Bounds {
  /** From the connection to the last byte of the answer. */
  readonly timeoutMs: number;
  /** What a call fails with that takes longer. */
  readonly late: () => Error;
  /** Of the body. */
  readonly bytesMax: number;
  /** Ends the call, with its reason. */
  readonly signal?: AbortSignal;
  /** Told of the head as soon as it is there, if there is one. */
  readonly onHead?: (head: Head) => void;
}

/** Bounds of a streamed answer: they end with its head. */
export type StreamBounds = Pick<Bounds, "timeoutMs" | "late" | "signal">;

/** An answer whose body is passed on as it arrives. Its connection is used for nothing else. */
export interface AnswerStream extends Head {
  /** Passes on the body from its first byte. Call it once. */
  read(sink: StreamSink): void;
  pause(): void;
  resume(): void;
  /** Ends the connection. */
  destroy(): void;
}

export interface StreamSink {
  onBytes(bytes: Buffer): void;
  /** Called once; with the error unless the answer is whole. */
  onEnd(end: { readonly error?: unknown }): void;
}

export interface Exchanges {
  /**
   * @throws {MalformedAnswerError} when what came is no answer
   * @throws {Error} with the `code` of the connection's failure (ECONNRESET also where it was closed without one), what `late` made, or the
   *   signal's reason
   * @throws {TypeError} for a request that cannot be sent
   */
  ask(request: Request, bounds: Bounds): Promise<Answer>;
  /** Resolves with the head. Errors as those of `ask`; later ones reach the sink. */
  stream(request: Request, bounds: StreamBounds): Promise<AnswerStream>;
  /** Nothing begins any more: ends what is idle now, and what is at work after its answer. */
  retire(): void;
  /** Ends what is idle and what is at work. */
  destroy(): void;
}

/** A hint of the server's (`Keep-Alive: timeout=5`) is shortened by this: a request must not cross the end on its way. */
const HINT_MARGIN_MS = 1_000;
/** As Go's and Node's clients have it: a peer that is gone is noticed. */
const PROBE_AFTER_MS = 30_000;
const VISIBLE = /^[\x21-\x7e]+$/;
const WITHOUT_BODY: ReadonlySet<string> = new Set(["GET", "DELETE"]);
const FIELD_NAME = /^[\w-]+$/;
const FIELD_VALUE = /^[\t\x20-\x7e]*$/;

export function createExchanges(server: Server, { idleMsMax }: { readonly idleMsMax: number }): Exchanges {
  const { host, port, tls, proxy } = server;
  const plainPort = tls === undefined ? 80 : 443;
  const authority = `${isIP(host) === 6 ? `[${host}]` : host}${port === plainPort ? "" : `:${port}`}`;
  const connections = new Set<Connection>();
  /** The last one that was used is used first, so that the others can end. */
  const idle: Connection[] = [];
  const open = openerOf(server, authority);
  const textOf = (request: Request): string => requestText(request, authority, tls === undefined ? proxy : undefined);
  let isRetired = false;
  let isDestroyed = false;

  function take(): Connection {
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      if (last.reuse()) return last;
    }
    return openOne();
  }

  function openOne(isKept = true): Connection {
    const connection: Connection = new Connection(open, {
      idleMsMax: isKept ? idleMsMax : 0,
      onIdle: () => !isRetired && idle.push(connection) > 0,
      onEnd: () => {
        connections.delete(connection);
        const at = idle.indexOf(connection);
        if (at !== -1) idle.splice(at, 1);
      },
    });
    connections.add(connection);
    return connection;
  }

  function sendable(request: Request, { signal }: StreamBounds): string {
    const text = textOf(request);
    signal?.throwIfAborted();
    if (isDestroyed) throw new Error("not sent: its connections have been ended");
    return text;
  }

  return {
    async ask(request, bounds) {
      const text = sendable(request, bounds);
      const startedMs = performance.now();
      try {
        return await take().exchange(text, bounds);
      } catch (error) {
        if (!(error instanceof StaleConnectionError)) throw error;
        if (isDestroyed || (error.isSent && request.method !== "GET")) throw error.cause;
        bounds.signal?.throwIfAborted();
        return await openOne().exchange(text, { ...bounds, timeoutMs: bounds.timeoutMs - (performance.now() - startedMs) });
      }
    },
    async stream(request, bounds) {
      return await openOne(false).stream(sendable(request, bounds), bounds);
    },
    retire() {
      isRetired = true;
      for (const connection of idle.splice(0)) connection.end();
    },
    destroy() {
      [isRetired, isDestroyed] = [true, true];
      for (const connection of connections) connection.end();
    },
  };
}

/** A proxy that forwards requests in the clear gets the whole URL. */
function requestText({ method, target, headers, body }: Request, authority: string, proxy: Proxy | undefined): string {
  if (!VISIBLE.test(target)) throw new TypeError("a path with a character that no request line may have");
  const url = proxy === undefined ? target : `http://${authority}${target}`;
  let text = `${method} ${url} HTTP/1.1\r\nhost: ${authority}\r\n`;
  if (proxy?.authorization !== undefined) text += `proxy-authorization: ${proxy.authorization}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!FIELD_NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a header`);
    if (!FIELD_VALUE.test(value)) throw new TypeError(`the header ${name} has a character that none may have`);
    text += `${name}: ${value}\r\n`;
  }
  if (body === undefined) return WITHOUT_BODY.has(method) ? `${text}\r\n` : `${text}content-length: 0\r\n\r\n`;
  return `${text}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** A connection that had been used before was lost before it had a head of an answer to the call that took it. */
class StaleConnectionError extends Error {
  override readonly name = "StaleConnectionError";
  /** Whether the server may have any of the request. */
  readonly isSent: boolean;

  constructor(isSent: boolean, cause: unknown) {
    super("lost as it was used again", { cause });
    this.isSent = isSent;
  }
}

/** Once the loop has polled for what has come: the first may run in the turn that is at work already. */
function afterLooking(then: () => void): void {
  setImmediate(() => setImmediate(then));
}

interface Owner {
  readonly idleMsMax: number;
  /** Whether it is kept. */
  readonly onIdle: () => boolean;
  readonly onEnd: () => void;
}

/** A call that has this connection. */
interface Call {
  readonly reader: AnswerReader;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
  readonly signal: AbortSignal | undefined;
  readonly onAbort: () => void;
}

class Connection {
  readonly #owner: Owner;
  readonly #opening = new AbortController();
  #socket: Socket | undefined;
  #isReady = false;
  #isReused = false;
  /** To be written as soon as the connection stands, or has been looked at. */
  #pending: string | undefined;
  #call: Call | undefined;
  /** Until when it may be idle, by the clock on the wall: others stand still while a process is frozen. */
  #idleUntilMs = 0;
  #idleMsMax: number;

  constructor(open: Opener, owner: Owner) {
    this.#owner = owner;
    this.#idleMsMax = owner.idleMsMax;
    const opened = open(this.#opening.signal);
    if (!(opened instanceof Promise)) this.#attach(opened);
    else
      opened.then(
        (socket) => this.#attach(socket),
        (error: unknown) => this.#close(error),
      );
  }

  #attach({ socket, ready }: Opened): void {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, PROBE_AFTER_MS);
    socket.once(ready, () => {
      this.#isReady = true;
      this.#write();
    });
    socket.on("data", (bytes: Buffer) => this.#read(bytes));
    socket.on("timeout", () => this.end());
    socket.on("end", () => this.#ended());
    socket.on("error", (error) => this.#lose(error));
    socket.on("close", () => this.#close(Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })));
    if (this.#opening.signal.aborted) socket.destroy();
  }

  #close(error: unknown): void {
    this.#lose(error);
    this.#owner.onEnd();
  }

  /** Whether it may be used once more; ended otherwise. */
  reuse(): boolean {
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed || Date.now() >= this.#idleUntilMs) {
      this.end();
      return false;
    }
    socket.setTimeout(0);
    socket.ref();
    this.#isReused = true;
    return true;
  }

  exchange(text: string, { timeoutMs, late, bytesMax, signal, onHead }: Bounds): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => this.#fail(signal?.reason);
      const timer = setTimeout(() => this.#fail(late()), timeoutMs);
      this.#begin(text, { reader: new AnswerReader(bytesMax, (head) => onHead?.(head)), resolve, reject, timer, signal, onAbort });
    });
  }

  stream(text: string, { timeoutMs, late, signal }: StreamBounds): Promise<AnswerStream> {
    return new Promise((resolve, reject) => {
      const body = new StreamedBody();
      const onAbort = (): void => this.#fail(signal?.reason);
      const timer = setTimeout(() => this.#fail(late()), timeoutMs);
      const onHead = (head: Head): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#socket?.pause();
        const resume = (): unknown => this.#socket?.resume();
        resolve({
          ...head,
          read(sink) {
            body.read(sink);
            resume();
          },
          pause: () => this.#socket?.pause(),
          resume,
          destroy: () => this.end(),
        });
      };
      const fail = (error: unknown): void => {
        body.end({ error });
        reject(error);
      };
      const reader = new AnswerReader(0, onHead, (bytes) => body.push(bytes));
      this.#begin(text, { reader, resolve: () => body.end({}), reject: fail, timer, signal, onAbort });
    });
  }

  #begin(text: string, call: Call): void {
    this.#call = call;
    call.signal?.addEventListener("abort", call.onAbort, { once: true });
    this.#pending = text;
    if (this.#isReady) afterLooking(() => this.#write());
  }

  #write(): void {
    if (this.#pending === undefined || this.#socket === undefined || this.#socket.destroyed) return;
    this.#socket.write(this.#pending);
    this.#pending = undefined;
  }

  end(): void {
    this.#opening.abort();
    this.#socket?.destroy();
  }

  #read(bytes: Buffer): void {
    const call = this.#call;
    if (call === undefined || this.#pending !== undefined) {
      this.end(); // nobody asked
      return;
    }
    try {
      if (!call.reader.push(bytes)) return;
      if (call.reader.isCut) this.#answer(call);
      // Behind all that has come with these bytes; and a request's own write is told to be over only then.
      else setImmediate(() => this.#call === call && this.#answer(call));
    } catch (error) {
      this.#lose(error);
    }
  }

  #ended(): void {
    const call = this.#call;
    if (call?.reader.end() === true) this.#answer(call);
    this.end();
  }

  #answer(call: Call): void {
    const { head, keepsConnection, isCut } = call.reader;
    const socket = this.#socket;
    if (head === undefined || socket === undefined) return; // there is no whole answer without
    const body = call.reader.text();
    this.#release(call);
    // A server that answers before it has read everything will not read the rest as what it is.
    const isWritten = !socket.destroyed && socket.writableLength === 0;
    const isKept = keepsConnection && isWritten && this.#rest(head, socket) && this.#owner.onIdle();
    if (!isKept) this.end();
    call.resolve({ ...head, body, isCut });
  }

  /** Whether the server lets it rest at all. */
  #rest({ headers }: Head, socket: Socket): boolean {
    const hint = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(headers["keep-alive"] ?? "")?.[1];
    if (hint !== undefined) this.#idleMsMax = Math.min(this.#owner.idleMsMax, Number(hint) * 1_000 - HINT_MARGIN_MS);
    if (this.#idleMsMax <= 0) return false;
    this.#idleUntilMs = Date.now() + this.#idleMsMax;
    socket.setTimeout(this.#idleMsMax);
    socket.unref();
    return true;
  }

  /** The connection is of no use any more. */
  #lose(error: unknown): void {
    const isStale = this.#isReused && this.#call?.reader.head === undefined;
    this.#fail(isStale ? new StaleConnectionError(this.#pending === undefined, error) : error);
  }

  #fail(error: unknown): void {
    const call = this.#call;
    if (call === undefined) return;
    if (call.reader.isWhole && !(error instanceof MalformedAnswerError)) {
      this.#answer(call);
      return;
    }
    this.#release(call);
    this.end();
    call.reject(error);
  }

  #release({ timer, signal, onAbort }: Call): void {
    this.#call = undefined;
    this.#pending = undefined;
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** A body on its way: what arrives before its reader does is kept. */
class StreamedBody {
  #held: Buffer[] = [];
  #end: { readonly error?: unknown } | undefined;
  #sink: StreamSink | undefined;

  push(bytes: Buffer): void {
    if (this.#sink === undefined) this.#held.push(bytes);
    else this.#sink.onBytes(bytes);
  }

  end(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#sink?.onEnd(end);
  }

  read(sink: StreamSink): void {
    this.#sink = sink;
    for (const bytes of this.#held.splice(0)) sink.onBytes(bytes);
    if (this.#end !== undefined) sink.onEnd(this.#end);
  }
}
