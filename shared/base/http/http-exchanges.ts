/**
 * HTTP/1.1 client for one server with persistent connections. It sends nothing before the peer is verified, and does not reuse a
 * connection that received unexpected bytes.
 *
 * HX1 a call owns its connection until its response is complete; there is no queue and no pipelining.
 * HX2 a call ends with the complete response or with an error, which also closes the connection. A complete response wins over a
 *    simultaneous abort or connection error, unless more bytes followed it by the time it is read. The same applies to a response that
 *    arrived while the process was frozen.
 * HX3 a connection is closed, not reused, when its idle time is over, also after the process was frozen.
 * HX4 a value that would break out of its line (a token with a line feed) is rejected before anything is sent, and is not quoted.
 * HX5 before a connection is reused, pending input (bytes or an end) is detected; then the call uses a new connection. A GET whose reused
 *    connection fails later, before a response head, is retried once on a new one. No other request that may have been sent is repeated.
 *
 * node:http needs 1.6 to 2 times the CPU (`npm run bench -- --only http`).
 *
 * Source of HX5: Go's net/http transport.go shouldRetryRequest, isReplayable. Differs from Go: pending input is checked before the
 * write, and a GET is also retried after bytes that are not a response.
 */
import { isIP } from "node:net";
import type { Socket } from "node:net";

import { afterPoll, inputDeadline } from "../system/after-poll.ts";
import { AnswerReader, MalformedAnswerError } from "./http-answer.ts";
import type { Head } from "./http-answer.ts";
import { openerOf } from "./http-connect.ts";
import type { Opened, Opener, Proxy, Server } from "./http-connect.ts";

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, encoded. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Answer extends Head {
  /** As text; decoded on each access. */
  readonly body: string;
  readonly bytes: Buffer;
  /** Whether the body exceeds `bytesMax`; `body` and `bytes` are then its first part. */
  readonly isCut: boolean;
}

export interface Bounds {
  /** Timeout of the whole call, from connecting to the last byte of the response. */
  readonly timeoutMs: number;
  /** Creates the error of a call that exceeds `timeoutMs`. */
  readonly late: () => Error;
  /** Limit of the response body. */
  readonly bytesMax: number;
  /** Aborts the call with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Receives the response head as soon as it is complete. */
  readonly onHead?: (head: Head) => void;
}

/** Bounds of a streamed response; they apply until its head is complete. */
export type StreamBounds = Pick<Bounds, "timeoutMs" | "late" | "signal">;

/** A response whose body is passed on as it arrives. Its connection is not shared. */
export interface AnswerStream extends Head {
  /** Passes on the body from its first byte. May be called only once. */
  read(sink: StreamSink): void;
  pause(): void;
  resume(): void;
  /** Ends the connection. */
  destroy(): void;
}

export interface StreamSink {
  onBytes(bytes: Buffer): void;
  /** Called once, with an error unless the response is complete. */
  onEnd(end: { readonly error?: unknown }): void;
}

export interface Exchanges {
  /**
   * @throws {MalformedAnswerError} for bytes that are not a response
   * @throws {Error} with the `code` of the connection failure (ECONNRESET also for a close without an error), the error of `late`, or the
   *   signal's reason
   * @throws {TypeError} for a request that cannot be sent
   */
  ask(request: Request, bounds: Bounds): Promise<Answer>;
  /** Resolves with the head. Throws as `ask` does; later errors reach the sink. */
  stream(request: Request, bounds: StreamBounds): Promise<AnswerStream>;
  /** Starts no new calls: closes idle connections now and busy connections after their response. */
  retire(): void;
  /** Closes all connections. */
  destroy(): void;
}

/**
 * Margin subtracted from the server's idle timeout (`Keep-Alive: timeout=5`), so that no request is sent while the server closes the
 * connection.
 */
const HINT_MARGIN_MS = 1_000;
/** Interval of keep-alive probes, which detect a lost peer. Go's and Node's clients use the same interval. */
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
  /** A stack, because reusing the most recent connection lets the others expire. */
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
    if (isDestroyed) throw new Error("not sent: the client is closed");
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

/** A proxy that forwards clear-text requests gets the absolute URL. */
function requestText({ method, target, headers, body }: Request, authority: string, proxy: Proxy | undefined): string {
  if (!VISIBLE.test(target)) throw new TypeError("the path contains an invalid character");
  const url = proxy === undefined ? target : `http://${authority}${target}`;
  let text = `${method} ${url} HTTP/1.1\r\nhost: ${authority}\r\n`;
  if (proxy?.authorization !== undefined) text += `proxy-authorization: ${proxy.authorization}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!FIELD_NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid header name`);
    if (!FIELD_VALUE.test(value)) throw new TypeError(`the header ${name} contains an invalid character`);
    text += `${name}: ${value}\r\n`;
  }
  if (body === undefined) return WITHOUT_BODY.has(method) ? `${text}\r\n` : `${text}content-length: 0\r\n\r\n`;
  return `${text}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** A reused connection was lost before the response head. */
class StaleConnectionError extends Error {
  override readonly name = "StaleConnectionError";
  /** Whether the server may have received part of the request. */
  readonly isSent: boolean;

  constructor(isSent: boolean, cause: unknown) {
    super("lost as it was used again", { cause });
    this.isSent = isSent;
  }
}

interface Owner {
  readonly idleMsMax: number;
  /** Called when the connection becomes idle. Returns whether the connection is kept. */
  readonly onIdle: () => boolean;
  readonly onEnd: () => void;
}

/** The call that owns a connection. */
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
  /** Request to write once the connection is ready, or has been checked for pending input. */
  #pending: string | undefined;
  #call: Call | undefined;
  /** Wall-clock expiry of the idle time: monotonic clocks stop while a process is frozen. */
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

  /** Returns whether the connection can be reused; closes it otherwise. */
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
      const timer = inputDeadline(() => this.#call === call && this.#fail(late()), timeoutMs);
      const call: Call = { reader: new AnswerReader(bytesMax, (head) => onHead?.(head)), resolve, reject, timer, signal, onAbort };
      this.#begin(text, call);
    });
  }

  stream(text: string, { timeoutMs, late, signal }: StreamBounds): Promise<AnswerStream> {
    return new Promise((resolve, reject) => {
      const body = new StreamedBody();
      const onAbort = (): void => this.#fail(signal?.reason);
      let hasHead = false;
      const timer = inputDeadline(() => hasHead || this.#fail(late()), timeoutMs);
      const onHead = (head: Head): void => {
        hasHead = true;
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
    if (this.#isReady) afterPoll(() => this.#write());
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
      this.end(); // unsolicited bytes
      return;
    }
    try {
      if (!call.reader.push(bytes)) return;
      if (call.reader.isCut) this.#answer(call);
      // Deferred until all input of this poll and the write callback of the request have been handled.
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
    if (head === undefined || socket === undefined) return; // a complete response always has a head
    const bytes = call.reader.bytes();
    this.#release(call);
    // A server that responds early may not read the rest of the request as its body.
    const isWritten = !socket.destroyed && socket.writableLength === 0;
    const isKept = keepsConnection && isWritten && this.#rest(head, socket) && this.#owner.onIdle();
    if (!isKept) this.end();
    call.resolve({
      ...head,
      bytes,
      isCut,
      get body() {
        return bytes.toString();
      },
    });
  }

  /** Starts the idle period. Returns false if the server's keep-alive hint leaves no idle time. */
  #rest({ headers }: Head, socket: Socket): boolean {
    const hint = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(headers["keep-alive"] ?? "")?.[1];
    if (hint !== undefined) this.#idleMsMax = Math.min(this.#owner.idleMsMax, Number(hint) * 1_000 - HINT_MARGIN_MS);
    if (this.#idleMsMax <= 0) return false;
    this.#idleUntilMs = Date.now() + this.#idleMsMax;
    socket.setTimeout(this.#idleMsMax);
    socket.unref();
    return true;
  }

  /** Fails the call because the connection is unusable. */
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

/** A streamed body, which buffers chunks until the reader attaches. */
class StreamedBody {
  #chunks: Buffer[] = [];
  #end: { readonly error?: unknown } | undefined;
  #sink: StreamSink | undefined;

  push(bytes: Buffer): void {
    if (this.#sink === undefined) this.#chunks.push(bytes);
    else this.#sink.onBytes(bytes);
  }

  end(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#sink?.onEnd(end);
  }

  read(sink: StreamSink): void {
    this.#sink = sink;
    for (const bytes of this.#chunks.splice(0)) sink.onBytes(bytes);
    if (this.#end !== undefined) sink.onEnd(this.#end);
  }
}
