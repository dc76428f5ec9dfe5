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
import { connect as connectTcp, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls, createSecureContext } from "node:tls";
import type { SecureContext, TLSSocket } from "node:tls";

import { AnswerReader, MalformedAnswerError } from "./http-answer.ts";
import type { Head } from "./http-answer.ts";

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

/** One server. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** Absent: in the clear. */
  readonly tls?: TlsOptions;
}

/** As node:tls has them. */
export interface TlsOptions {
  readonly ca?: string | Buffer | undefined;
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string | undefined;
}

export interface Exchanges {
  /**
   * @throws {MalformedAnswerError} when what came is no answer
   * @throws {Error} with the `code` of the connection's failure (ECONNRESET also where it was closed without one), what `late` made, or the
   *   signal's reason
   * @throws {TypeError} for a request that cannot be sent
   */
  ask(request: Request, bounds: Bounds): Promise<Answer>;
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
  const { host, port, tls } = server;
  const plainPort = tls === undefined ? 80 : 443;
  const authority = `${isIP(host) === 6 ? `[${host}]` : host}${port === plainPort ? "" : `:${port}`}`;
  const connections = new Set<Connection>();
  /** The last one that was used is used first, so that the others can end. */
  const idle: Connection[] = [];
  const open = tls === undefined ? () => connectTcp({ host, port }) : encrypted(host, port, tls);
  let isRetired = false;
  let isDestroyed = false;

  function take(): Connection {
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      if (last.reuse()) return last;
    }
    return openOne();
  }

  function openOne(): Connection {
    const connection: Connection = new Connection(open(), tls === undefined ? "connect" : "secureConnect", {
      idleMsMax,
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

  return {
    async ask(request, bounds) {
      const text = textOf(request, authority);
      bounds.signal?.throwIfAborted();
      if (isDestroyed) throw new Error("not sent: its connections have been ended");
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

function textOf({ method, target, headers, body }: Request, authority: string): string {
  if (!VISIBLE.test(target)) throw new TypeError("a path with a character that no request line may have");
  let text = `${method} ${target} HTTP/1.1\r\nhost: ${authority}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!FIELD_NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a header`);
    if (!FIELD_VALUE.test(value)) throw new TypeError(`the header ${name} has a character that none may have`);
    text += `${name}: ${value}\r\n`;
  }
  if (body === undefined) return WITHOUT_BODY.has(method) ? `${text}\r\n` : `${text}content-length: 0\r\n\r\n`;
  return `${text}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** One context for all connections: certificates are read once. A session is taken up again, which saves most of a handshake. */
function encrypted(host: string, port: number, tls: TlsOptions): () => TLSSocket {
  const { servername = isIP(host) === 0 ? host : undefined, rejectUnauthorized, ca, cert, key } = tls;
  let secureContext: SecureContext | undefined;
  let session: Buffer | undefined;
  return () => {
    secureContext ??= createSecureContext({ ca, cert, key });
    const socket = connectTls({
      ...{ host, port, secureContext, ALPNProtocols: ["http/1.1"] },
      ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
      ...(servername !== undefined && { servername }),
      ...(session !== undefined && { session }),
    });
    socket.on("session", (newest) => (session = newest));
    let isSecure = false;
    socket.once("secureConnect", () => (isSecure = true));
    socket.once("close", () => {
      if (!isSecure) session = undefined; // it may have been the reason
    });
    return socket;
  };
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
  readonly #socket: Socket;
  readonly #owner: Owner;
  #isReady = false;
  #isReused = false;
  /** To be written as soon as the connection stands, or has been looked at. */
  #pending: string | undefined;
  #call: Call | undefined;
  /** Until when it may be idle, by the clock on the wall: others stand still while a process is frozen. */
  #idleUntilMs = 0;
  #idleMsMax: number;

  constructor(socket: Socket, ready: "connect" | "secureConnect", owner: Owner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#idleMsMax = owner.idleMsMax;
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
    socket.on("close", () => {
      this.#lose(Object.assign(new Error("socket hang up"), { code: "ECONNRESET" }));
      owner.onEnd();
    });
  }

  /** Whether it may be used once more; ended otherwise. */
  reuse(): boolean {
    if (this.#socket.destroyed || Date.now() >= this.#idleUntilMs) {
      this.end();
      return false;
    }
    this.#socket.setTimeout(0);
    this.#socket.ref();
    this.#isReused = true;
    return true;
  }

  exchange(text: string, { timeoutMs, late, bytesMax, signal, onHead }: Bounds): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => this.#fail(signal?.reason);
      const timer = setTimeout(() => this.#fail(late()), timeoutMs);
      this.#call = { reader: new AnswerReader(bytesMax, (head) => onHead?.(head)), resolve, reject, timer, signal, onAbort };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#pending = text;
      if (this.#isReady) afterLooking(() => this.#write());
    });
  }

  #write(): void {
    if (this.#pending === undefined || this.#socket.destroyed) return;
    this.#socket.write(this.#pending);
    this.#pending = undefined;
  }

  end(): void {
    this.#socket.destroy();
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
    if (head === undefined) return; // there is no whole answer without
    const body = call.reader.text();
    this.#release(call);
    // A server that answers before it has read everything will not read the rest as what it is.
    const { destroyed, writableLength } = this.#socket;
    const isKept = keepsConnection && !destroyed && writableLength === 0 && this.#rest(head) && this.#owner.onIdle();
    if (!isKept) this.end();
    call.resolve({ ...head, body, isCut });
  }

  /** Whether the server lets it rest at all. */
  #rest({ headers }: Head): boolean {
    const hint = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(headers["keep-alive"] ?? "")?.[1];
    if (hint !== undefined) this.#idleMsMax = Math.min(this.#owner.idleMsMax, Number(hint) * 1_000 - HINT_MARGIN_MS);
    if (this.#idleMsMax <= 0) return false;
    this.#idleUntilMs = Date.now() + this.#idleMsMax;
    this.#socket.setTimeout(this.#idleMsMax);
    this.#socket.unref();
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
