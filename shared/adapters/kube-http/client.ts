/**
 * One HTTP/1.1 client for one API server: keep-alive connections, TLS material, credentials, time-outs, patience, and nothing
 * else. (client-node opens a TLS connection per request and costs 2.1 MB of bundle: design decision 8.)
 */
import { request as httpRequest } from "node:http";
import type { Agent, ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";

import { setTimeout as sleep } from "node:timers/promises";

import { exactText, parseExact } from "../../api/exact-json.ts";
import { unlessAborted } from "../../ports/unless-aborted.ts";
import { AnswerTooLargeError, isTooLargeResourceVersion, NotSentError, UnansweredError } from "../../ports/errors.ts";
import { CALLS_AT_ONCE_MAX } from "../../ports/kube.ts";
import { patienceUntil } from "../../ports/patience.ts";
import type { Patience } from "../../ports/patience.ts";
import { QUEUE_TIMEOUT_MS, REQUEST_TIMEOUT_MS, RETRY_WAIT_MS_MAX } from "../../ports/times.ts";
import { VERSION } from "../../version.ts";
import { showsToken, TokenInClearError } from "./config.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";
import { createConnections, IDLE_MS_MAX } from "./connections.ts";
import { retryAfterMs } from "./retry.ts";
import type { Ending } from "./retry.ts";
import { linesOf } from "./lines.ts";
import { createSlots } from "./slots.ts";
import { STATUS_BYTES_MAX, statusError, unanswered } from "./status-error.ts";

/** A page of a list, and the head of a watch's answer: the API server's own limit for a request. */
export const LIST_TIMEOUT_MS = 60_000;
const INACTIVITY_MS = 100_000;
/**
 * Of one answer, as much as is read. A page of 500 pods is 5 MB. An object is 1.5 MB for etcd and up to 9 MB as JSON, where a control
 * character is six bytes; a text of more than 512 MiB cannot be made at all. While it is parsed an answer is there as bytes, as text (of
 * two bytes a character where one of them is beyond Latin-1) and as objects: of a function's 1,024 MB about 300.
 */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Absolute, encoded, without query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
  /** Default: application/json. */
  readonly accept?: string;
  readonly signal?: AbortSignal;
  /** For one sending, from its connection to the last byte. Default: the patience's, else the request timeout. */
  readonly timeoutMs?: number;
  readonly patience?: Patience;
  /** Sees the head of each answer, refusals too. */
  readonly onHead?: (headers: IncomingHttpHeaders) => void;
}

/** One API server as one component: what reader, writer and watch are made of. In process: shared/local/api-server. */
export interface KubeClient {
  readonly requestTimeoutMs: number;
  readonly fieldManager: string;
  /**
   * The parsed answer of a call that succeeded, after as many sendings as it took (KC4).
   *
   * @throws {KubeApiError} when the server refused
   * @throws {AnswerTooLargeError} when the answer is larger than 64 MiB; it is not asked for again
   * @throws {UnansweredError} when no (whole) answer came; an aborted signal throws its own reason
   * @throws {NotSentError} when it waited in vain for a connection or credentials
   */
  json(call: Call): Promise<unknown>;
  /** The lines of a streaming answer to a GET (KL2 to KL6). */
  lines(call: Pick<Call, "path" | "query"> & { readonly signal: AbortSignal }): AsyncIterable<readonly string[]>;
}

/** @throws {TokenInClearError} when the configuration has a token and the server is plain HTTP on another machine */
export function createClient(config: KubeHttpConfig): KubeClient {
  if (config.token !== undefined && showsToken(config.server)) throw new TokenInClearError(config.server);
  const base = new URL(config.server);
  const secure = base.protocol === "https:";
  const prefix = base.pathname.replace(/\/$/, "");
  const connect = createConnections(config);
  const slots = createSlots(CALLS_AT_ONCE_MAX);
  const requestTimeoutMs = config.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  const inactivityMs = config.inactivityMs ?? INACTIVITY_MS;
  const userAgent = config.userAgent ?? `deltaloop/${VERSION} (${config.component})`;
  let lastCallMs = Date.now();
  /** What the server has not accepted (401). */
  let refused: Identity | undefined;

  return { requestTimeoutMs, fieldManager: config.fieldManager ?? `deltaloop-${config.component}`, json, lines };

  async function json(call: Call): Promise<unknown> {
    const patience = call.patience ?? patienceUntil(Date, Date.now() + (config.waitMsMax ?? RETRY_WAIT_MS_MAX));
    let last: unknown;
    let earlierUnanswered = false;
    for (let retries = 0; ; retries++) {
      const sent = await sendInTurn(call, patience).catch((error: unknown) => {
        throw error instanceof NotSentError && retries > 0 ? last : error;
      });
      if (sent.kind === "success") return parse(sent.body);
      last = sent.kind === "noAnswer" ? sent.error : statusError(sent.code, sent.headers, sent.body, { earlierUnanswered });
      // Differs from client-go, which asks ten times more: whoever lists asks for another version at once (informer §2.4).
      if (isTooLargeResourceVersion(last)) throw last;
      const afterMs = retryAfterMs(call.method, sent, retries);
      if (afterMs === undefined || afterMs > Math.min(patience.waitMsMax(), RETRY_WAIT_MS_MAX)) throw last;
      config.metrics?.count("rest_client_request_retries_total", { code: codeOf(sent), verb: call.method, host: base.host });
      earlierUnanswered ||= sent.kind === "answer" && sent.code >= 500;
      await sleep(afterMs, undefined, call.signal && { signal: call.signal }).catch(() => call.signal?.throwIfAborted());
    }
  }

  /** Who calls, as it is now. */
  async function identityNow(signal: AbortSignal): Promise<Identity> {
    // Credentials may have to be fetched, and whoever brings them may hang.
    const token = await unlessAborted(config.token?.(refused?.token), signal);
    const certificate = await unlessAborted(config.certificate?.(refused?.certificate), signal);
    return { ...(token !== undefined && { token }), ...(certificate && { certificate }) };
  }

  /** Waits for a place among the calls on their way; the request's own time begins when it has one. */
  async function sendInTurn(call: Call, patience: Patience): Promise<Sent> {
    const waitMs = Math.min(patience.waitMsMax(), QUEUE_TIMEOUT_MS);
    const queueing = createDeadline(waitMs, call.signal, () => new NotSentError(`not sent within ${waitMs} ms`));
    let release: (() => void) | undefined;
    try {
      release = await slots.acquire(queueing.signal);
      const identity = await identityNow(queueing.signal);
      if (call.method !== "GET" && !patience.mayStart()) throw new NotSentError("not sent: its sender's time was over");
      queueing.clear();
      const { calls } = connect(identity.certificate);
      dropStaleConnections(calls);
      return await send(call, identity, calls, call.timeoutMs ?? patience.requestTimeoutMs ?? requestTimeoutMs);
    } finally {
      queueing.clear();
      release?.();
    }
  }

  async function send(call: Call, identity: Identity, calls: Agent, timeoutMs: number): Promise<Sent> {
    const deadline = createDeadline(timeoutMs, call.signal);
    const startedMs = performance.now();
    try {
      let response: IncomingMessage;
      try {
        response = await counted(call.method, open(call, calls, identity.token, deadline.signal));
      } catch (error) {
        return { kind: "noAnswer", error, errno: errnoOf(error) };
      }
      call.onHead?.(response.headers);
      const body = await readText(response, deadline.signal, ANSWER_BYTES_MAX, () => {
        if (isSuccess(response))
          throw new AnswerTooLargeError(`the answer to ${call.method} ${call.path} is larger than ${ANSWER_BYTES_MAX} bytes`);
      });
      if (isSuccess(response)) return { kind: "success", body };
      const { statusCode: code = 0, headers } = response;
      if (code === 401) refused = identity;
      return { kind: "answer", code, headers, body, retryAfter: headers["retry-after"] };
    } finally {
      deadline.clear();
      const seconds = (performance.now() - startedMs) / 1000;
      config.metrics?.observe("rest_client_request_duration_seconds", { verb: call.method, host: base.host }, seconds);
    }
  }

  /** Every answer by its code. Source: client-go rest/request.go updateRequestResultMetric. */
  async function counted(method: Call["method"], opening: Promise<IncomingMessage>): Promise<IncomingMessage> {
    let code = NO_ANSWER;
    try {
      const response = await opening;
      code = String(response.statusCode);
      return response;
    } finally {
      config.metrics?.count("rest_client_requests_total", { code, method, host: base.host });
    }
  }

  async function* lines({ signal, ...call }: Parameters<KubeClient["lines"]>[0]): AsyncGenerator<readonly string[]> {
    yield* linesOf(await openStream({ method: "GET", ...call }, signal), signal, inactivityMs);
  }

  /** A streaming answer once its status line says success. */
  async function openStream(call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const deadline = createDeadline(Math.min(LIST_TIMEOUT_MS, inactivityMs), signal);
    try {
      const identity = await identityNow(deadline.signal);
      const { watches } = connect(identity.certificate);
      const response = await counted(call.method, open(call, watches, identity.token, deadline.signal));
      if (isSuccess(response)) return response;
      if (response.statusCode === 401) refused = identity;
      throw statusError(response.statusCode ?? 0, response.headers, await readText(response, deadline.signal, STATUS_BYTES_MAX));
    } finally {
      deadline.clear();
    }
  }

  /** Resolves with the head of the answer. Until then `signal` destroys the request; afterwards that is the reader's part. */
  async function open(call: Call, agent: Agent, token: string | undefined, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const body = call.body === undefined ? undefined : Buffer.from(exactText(call.body));
    const headers: Record<string, string | number> = { accept: call.accept ?? "application/json", "user-agent": userAgent };
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    if (body !== undefined) {
      headers["content-type"] = call.contentType ?? "application/json";
      headers["content-length"] = body.length;
    }
    const options = { method: call.method, path: prefix + call.path + queryString(call.query), agent, headers };
    const request: ClientRequest = (secure ? httpsRequest : httpRequest)({
      host: base.hostname.replace(/^\[|\]$/g, ""),
      port: base.port,
      ...options,
    });
    return await new Promise<IncomingMessage>((resolve, reject) => {
      const onAbort = (): void => {
        request.destroy();
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      request.once("response", (response) => {
        signal.removeEventListener("abort", onAbort);
        resolve(response);
      });
      request.on("error", (error) => {
        signal.removeEventListener("abort", onAbort);
        reject(unanswered(error));
      });
      request.end(body);
    });
  }

  /** A function's sandbox may have been frozen for minutes: its timers did not run, but the server's did. */
  function dropStaleConnections(calls: Agent): void {
    const now = Date.now();
    if (now - lastCallMs > IDLE_MS_MAX) {
      for (const sockets of Object.values(calls.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
    }
    lastCallMs = now;
  }
}

/** With what a call is sent. */
interface Identity {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

/** What became of one sending. */
type Sent =
  | { readonly kind: "success"; readonly body: string }
  | (Ending & { readonly kind: "answer"; readonly headers: IncomingHttpHeaders; readonly body: string })
  | (Ending & { readonly kind: "noAnswer"; readonly error: unknown });

/** As client-go counts what no server has answered. */
const NO_ANSWER = "<error>";

function codeOf(sent: Exclude<Sent, { readonly kind: "success" }>): string {
  return sent.kind === "answer" ? String(sent.code) : NO_ANSWER;
}

/** Of the socket's error behind an UnansweredError. */
function errnoOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "code" in cause ? String(cause.code) : undefined;
}

/** `signal` fires when the caller's does, with its reason, or after `ms` with `late`. */
function createDeadline(
  ms: number,
  caller: AbortSignal | undefined,
  late: () => Error = () => new UnansweredError(`no answer within ${ms} ms`),
): { readonly signal: AbortSignal; clear(): void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(late()), ms);
  const onAbort = (): void => controller.abort(caller?.reason);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    clear() {
      clearTimeout(timer);
      caller?.removeEventListener("abort", onAbort);
    },
  };
}

/**
 * By events: an iterator over a stream costs three times as much, and nearly every answer is one chunk. Beyond `bytesMax` the rest is not
 * read, and unless `cutOff` throws, what came is the answer.
 */
function readText(response: IncomingMessage, signal: AbortSignal, bytesMax: number, cutOff?: () => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let isSettled = false;
    const settle = (act: () => void): void => {
      if (isSettled) return;
      isSettled = true;
      signal.removeEventListener("abort", onAbort);
      act();
    };
    const onAbort = (): void => {
      response.destroy();
      settle(() => reject(signal.reason as Error)); // or whatever else the caller gave as its reason
    };
    const end = (): void => settle(() => resolve(Buffer.concat(chunks).toString("utf8")));
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes <= bytesMax) return;
      response.destroy();
      try {
        cutOff?.();
        end();
      } catch (error) {
        chunks.length = 0;
        settle(() => reject(error as Error)); // `cutOff` throws nothing else
      }
    });
    response.once("end", end);
    // Both also after the end.
    response.on("error", (error) => settle(() => reject(unanswered(error))));
    response.once("close", () => settle(() => reject(unanswered("it broke off"))));
  });
}

/** A success whose body is no JSON says as little as none: something between us and the server answered. */
function parse(body: string): unknown {
  try {
    return parseExact(body);
  } catch (cause) {
    throw new UnansweredError("the answer is not JSON", { cause });
  }
}

function isSuccess(response: IncomingMessage): boolean {
  const code = response.statusCode ?? 0;
  return code >= 200 && code < 300;
}

function queryString(query: Call["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
