/**
 * A gRPC connection over a Unix socket, with deadlines and typed errors. It reconnects after a restart of the runtime. CRI calls are
 * unary, so Node's HTTP/2 suffices.
 *
 *     request   HEADERS, DATA <0> <length> <message>      response   HEADERS, DATA <0> <length> <message>, HEADERS grpc-status
 *
 * Source: grpc doc/PROTOCOL-HTTP2.md, for every limit, header and code here.
 */
import { connect as connectHttp2, constants } from "node:http2";
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { connect as connectSocket } from "node:net";

import { CRI_ERROR_CODES, CriError } from "../ports/cri-error.ts";
import type { CriErrorCode } from "../ports/cri-error.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { Method } from "./load.ts";

/** Upstream's limit for CRI responses (node-agent §17). Source: cri-client pkg/utils.go maxMsgSize. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
/** HTTP/2 flow-control window, large enough for a complete list of a full node; the default is 64 KiB. */
const WINDOW_BYTES = 1024 * 1024;
/**
 * Memory of a session above which Node rejects calls. The limit is high, because each call is bounded and sync iterations limit the
 * number of calls.
 */
const SESSION_MIB_MAX = 4_096;
/** Length of the message prefix: the compression flag and the message length. */
const PREFIX_BYTES = 5;
/** Maximum number of digits in `grpc-timeout`. */
const DIGITS_MAX = 8;
/**
 * Maximum delay of a Node.js timer; a longer timer fires immediately. A call with a longer grace period ends early, and its caller retries.
 */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** HTTP status of every gRPC response, regardless of its grpc-status. */
const OK = 200;
/** gRPC status by HTTP/2 reset code; any other reset code is Internal. */
const CODE_OF_RESET: Readonly<Record<number, CriErrorCode>> = {
  [constants.NGHTTP2_REFUSED_STREAM]: "Unavailable",
  [constants.NGHTTP2_CANCEL]: "Canceled",
  [constants.NGHTTP2_ENHANCE_YOUR_CALM]: "ResourceExhausted",
  [constants.NGHTTP2_INADEQUATE_SECURITY]: "PermissionDenied",
};

export interface CallOptions {
  /** If absent, there is no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface Connection {
  /** @throws {CriError} for every failure */
  call<T>(method: Method<T>, request: object, options: CallOptions): Promise<T>;
  close(): void;
}

export function connect(socketPath: string): Connection {
  let held: ClientHttp2Session | undefined;
  let calls = 0;

  /**
   * Returns the current connection if it is alive, or else a new one. Connecting to a Unix socket is cheap, so retries have no back-off.
   */
  function session(): ClientHttp2Session {
    if (held !== undefined && !held.closed && !held.destroyed) return held;
    const opened = connectHttp2("http://localhost", {
      createConnection: () => connectSocket(socketPath),
      settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      maxSessionMemory: SESSION_MIB_MAX,
    });
    opened.on("connect", () => opened.setLocalWindowSize(WINDOW_BYTES));
    opened.on("error", () => undefined); // calls on the connection report this error
    held = opened;
    return opened;
  }

  return {
    async call(method, request, options) {
      if (options.signal?.aborted) throw new CriError("Canceled", "aborted before the request was sent");
      const message = framed(method.encode(request));
      const on = session();
      calls++;
      on.ref();
      try {
        return read(method, await exchange(on, method.path, message, options));
      } finally {
        calls--;
        if (calls === 0) held?.unref(); // an idle connection must not keep the process alive
      }
    },
    close: () => held?.destroy(),
  };
}

function read<T>({ decode }: Method<T>, answer: Buffer): T {
  try {
    return decode(answer);
  } catch (error) {
    throw new CriError("Internal", `failed to decode the runtime's response: ${messageOf(error)}`, { cause: error });
  }
}

function framed(message: Uint8Array): Buffer {
  if (message.length > MESSAGE_BYTES_MAX) throw new CriError("ResourceExhausted", `request of ${message.length} bytes is too long`);
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame.writeUInt8(0);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** @returns the response message @throws {CriError} */
function exchange(session: ClientHttp2Session, path: string, frame: Buffer, { timeoutMs, signal }: CallOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let stream: ClientHttp2Stream;
    try {
      stream = session.request({
        [constants.HTTP2_HEADER_METHOD]: "POST",
        [constants.HTTP2_HEADER_PATH]: path,
        "content-type": "application/grpc",
        te: "trailers",
        ...(timeoutMs !== undefined && { "grpc-timeout": timeoutHeader(timeoutMs) }),
      });
    } catch (error) {
      session.close(); // the session was closed after `session()` checked it
      return reject(new CriError("Unavailable", messageOf(error), { cause: error }));
    }
    const chunks: Buffer[] = [];
    let received = 0;
    let headers: IncomingHttpHeaders = {};
    let failure: CriError | undefined;
    const forget = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    };
    /** Rejects immediately, because a hung runtime may never close the stream. */
    const give = (code: CriErrorCode, text: string): void => {
      forget();
      reject((failure ??= new CriError(code, text)));
      stream.close(constants.NGHTTP2_CANCEL);
    };
    const onAbort = (): void => give("Canceled", "aborted by the caller");
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => give("DeadlineExceeded", `no response within ${timeoutMs} ms`), Math.min(timeoutMs, TIMER_MS_MAX));
    signal?.addEventListener("abort", onAbort, { once: true });
    const add = (more: IncomingHttpHeaders): void => void (headers = { ...headers, ...more });
    stream.on("response", add); // a trailers-only response has no other headers
    stream.on("trailers", add);
    stream.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received > MESSAGE_BYTES_MAX + PREFIX_BYTES) give("ResourceExhausted", `the response exceeds ${MESSAGE_BYTES_MAX} bytes`);
      else chunks.push(chunk);
    });
    // ERR_HTTP2_STREAM_ERROR is a reset by the runtime; any other error concerns the connection.
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ERR_HTTP2_OUT_OF_STREAMS") session.close(); // the next call opens another session
      if (error.code !== "ERR_HTTP2_STREAM_ERROR") failure ??= new CriError("Unavailable", error.message, { cause: error });
    });
    stream.on("close", () => {
      forget();
      try {
        if (failure !== undefined) throw failure;
        const { "grpc-status": status, "grpc-message": text = "" } = headers;
        if (status === undefined) throw withoutStatus(session, stream, headers);
        if (status !== "0") throw refusal(Number(status), String(text));
        resolve(unframed(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, received)));
      } catch (error) {
        reject(error as CriError); // the code above and `unframed` throw only CriErrors
      }
    });
    stream.end(frame);
  });
}

/** gRPC allows eight digits at most, so a timeout of more than a day is sent in seconds. */
function timeoutHeader(ms: number): string {
  const whole = String(Math.ceil(ms));
  return whole.length <= DIGITS_MAX ? `${whole}m` : `${Math.min(Math.ceil(ms / 1000), 10 ** DIGITS_MAX - 1)}S`;
}

function unframed(frame: Buffer): Buffer {
  if (frame.length < PREFIX_BYTES) throw new CriError("Internal", "the runtime responded without a message");
  const length = frame.readUInt32BE(1);
  // Requests offer no compression, so a compressed response is invalid.
  if (frame[0] !== 0) throw new CriError("Internal", "the runtime's response is compressed");
  if (frame.length !== PREFIX_BYTES + length) throw new CriError("Internal", "the runtime's response is not exactly one message");
  return frame.subarray(PREFIX_BYTES);
}

/** Maps a gRPC status code to an error. OK is 0, and an unlisted code is Unknown. */
function refusal(code: number, message: string): CriError {
  return new CriError(CRI_ERROR_CODES[code - 1] ?? "Unknown", unescaped(message));
}

function withoutStatus(session: ClientHttp2Session, { rstCode }: ClientHttp2Stream, headers: IncomingHttpHeaders): CriError {
  if (session.closed || session.destroyed) return new CriError("Unavailable", "the connection to the runtime was closed");
  const http = Number(headers[":status"] ?? OK);
  if (http !== OK) return new CriError("Unknown", `the runtime responded with HTTP status ${http}`);
  return new CriError(CODE_OF_RESET[rstCode ?? 0] ?? "Internal", `the runtime ended the call without a status (reset code ${rstCode})`);
}

/** Decodes a status message: gRPC percent-encodes the bytes that a header cannot hold. */
function unescaped(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
