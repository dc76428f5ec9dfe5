/**
 * One HTTP/1.1 client for one API server: keep-alive connections, TLS material, credentials, time-outs, patience, and nothing
 * else. (client-node opens a TLS connection per request and costs 2.1 MB of bundle: design decision 8.)
 */
import { request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
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
import type { Head, Headers } from "../http-answer.ts";
import type { Exchanges } from "../http-exchanges.ts";
import { createConnections } from "./connections.ts";
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
  readonly onHead?: (headers: Headers) => void;
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

  /** Who calls, as it is now: credentials may have to be fetched, and whoever brings them may hang. */
  function identityNow(): Identity | Promise<Identity> {
    const { token, certificate } = config;
    if (certificate === undefined) {
      const now = token?.(refused?.token);
      return now instanceof Promise ? now.then((text) => identity(text, undefined)) : identity(now, undefined);
    }
    const both = Promise.all([brought(() => token?.(refused?.token)), brought(() => certificate(refused?.certificate))]);
    return both.then(([newest, own]) => identity(newest, own));
  }

  /** Waits for a place among the calls on their way; the request's own time begins when it has one. */
  async function sendInTurn(call: Call, patience: Patience): Promise<Sent> {
    call.signal?.throwIfAborted();
    const waitMs = Math.min(patience.waitMsMax(), QUEUE_TIMEOUT_MS);
    const queueing = createQueueing(waitMs, call.signal);
    let release: (() => void) | undefined;
    try {
      release = slots.take() ?? (await slots.acquire(queueing.signal()));
      const now = identityNow();
      const who = now instanceof Promise ? await unlessAborted(now, queueing.signal()) : now;
      if (call.method !== "GET" && !patience.mayStart()) throw new NotSentError("not sent: its sender's time was over");
      queueing.clear();
      return await send(call, who, connect(who.certificate).calls, call.timeoutMs ?? patience.requestTimeoutMs ?? requestTimeoutMs);
    } finally {
      queueing.clear();
      release?.();
    }
  }

  async function send(call: Call, who: Identity, calls: Exchanges, timeoutMs: number): Promise<Sent> {
    const startedMs = performance.now();
    let code = NO_ANSWER;
    const onHead = (head: Head): void => {
      code = String(head.code);
      call.onHead?.(head.headers);
    };
    const late = (): Error => unansweredWithin(timeoutMs);
    const body = call.body === undefined ? undefined : exactText(call.body);
    const request = {
      method: call.method,
      target: prefix + call.path + queryString(call.query),
      headers: headersOf(call, who.token),
      ...(body !== undefined && { body }),
    };
    try {
      const answer = await calls.ask(request, {
        ...{ timeoutMs, late, bytesMax: ANSWER_BYTES_MAX, onHead },
        ...(call.signal && { signal: call.signal }),
      });
      const { code: status, headers, body: text } = answer;
      if (isSuccess(status)) {
        if (!answer.isCut) return { kind: "success", body: text };
        throw new AnswerTooLargeError(`the answer to ${call.method} ${call.path} is larger than ${ANSWER_BYTES_MAX} bytes`);
      }
      if (status === 401) refused = who;
      return { kind: "answer", code: status, headers, body: text, retryAfter: headers["retry-after"] };
    } catch (error) {
      call.signal?.throwIfAborted();
      if (error instanceof TypeError || error instanceof AnswerTooLargeError) throw error;
      const cause = error instanceof UnansweredError ? error : unanswered(error);
      // Of what had begun to be answered nothing is sent again.
      if (code !== NO_ANSWER) throw cause;
      return { kind: "noAnswer", error: cause, errno: errnoOf(error) };
    } finally {
      config.metrics?.count("rest_client_requests_total", { code, method: call.method, host: base.host });
      const seconds = (performance.now() - startedMs) / 1000;
      config.metrics?.observe("rest_client_request_duration_seconds", { verb: call.method, host: base.host }, seconds);
    }
  }

  function headersOf(call: Pick<Call, "accept" | "body" | "contentType">, token: string | undefined): Record<string, string> {
    const headers: Record<string, string> = { accept: call.accept ?? "application/json", "user-agent": userAgent };
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    if (call.body !== undefined) headers["content-type"] = call.contentType ?? "application/json";
    return headers;
  }

  async function* lines({ signal, ...call }: Parameters<KubeClient["lines"]>[0]): AsyncGenerator<readonly string[]> {
    yield* linesOf(await openStream({ method: "GET", ...call }, signal), signal, inactivityMs);
  }

  /** A streaming answer once its status line says success. */
  async function openStream(call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const deadline = createDeadline(Math.min(LIST_TIMEOUT_MS, inactivityMs), signal);
    try {
      const who = await unlessAborted(identityNow(), deadline.signal);
      const response = await counted(call.method, open(call, who, deadline.signal));
      if (isSuccess(response.statusCode)) return response;
      if (response.statusCode === 401) refused = who;
      throw statusError(response.statusCode ?? 0, response.headers, await readText(response, deadline.signal));
    } finally {
      deadline.clear();
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

  /** Resolves with the head of the answer. Until then `signal` destroys the request; afterwards that is the reader's part. */
  async function open(call: Call, { token, certificate }: Identity, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const request: ClientRequest = (secure ? httpsRequest : httpRequest)({
      host: base.hostname.replace(/^\[|\]$/g, ""),
      port: base.port,
      method: call.method,
      path: prefix + call.path + queryString(call.query),
      agent: connect(certificate).watches,
      headers: headersOf(call, token),
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
      request.end();
    });
  }
}

/** With what a call is sent. */
interface Identity {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

/** Of one that throws the other is waited for all the same. */
async function brought<T>(bring: () => T | Promise<T>): Promise<T> {
  return await bring();
}

function identity(token: string | undefined, certificate: ClientCertificate | undefined): Identity {
  return { ...(token !== undefined && { token }), ...(certificate && { certificate }) };
}

/** What became of one sending. */
type Sent =
  | { readonly kind: "success"; readonly body: string }
  | (Ending & { readonly kind: "answer"; readonly headers: Headers; readonly body: string })
  | (Ending & { readonly kind: "noAnswer"; readonly error: unknown });

/** As client-go counts what no server has answered. */
const NO_ANSWER = "<error>";

function codeOf(sent: Exclude<Sent, { readonly kind: "success" }>): string {
  return sent.kind === "answer" ? String(sent.code) : NO_ANSWER;
}

/** Of a socket's error. */
function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

function unansweredWithin(ms: number): UnansweredError {
  return new UnansweredError(`no answer within ${ms} ms`);
}

/** A deadline for waiting in turn, made when there is something to wait for: mostly there is not. */
function createQueueing(ms: number, caller: AbortSignal | undefined): { signal(): AbortSignal; clear(): void } {
  let deadline: ReturnType<typeof createDeadline> | undefined;
  return {
    signal: () => (deadline ??= createDeadline(ms, caller, () => new NotSentError(`not sent within ${ms} ms`))).signal,
    clear: () => deadline?.clear(),
  };
}

/** `signal` fires when the caller's does, with its reason, or after `ms` with `late`. */
function createDeadline(
  ms: number,
  caller: AbortSignal | undefined,
  late: () => Error = () => unansweredWithin(ms),
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

/** Of a refusal, as much as is read. By events: an iterator over a stream costs three times as much. */
function readText(response: IncomingMessage, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onAbort = (): void => {
      response.destroy();
      reject(signal.reason as Error); // or whatever else the caller gave as its reason
    };
    const end = (): void => resolve(Buffer.concat(chunks).toString("utf8"));
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes <= STATUS_BYTES_MAX) return;
      response.destroy();
      end();
    });
    response.once("end", end);
    // Both also after the end.
    response.on("error", (error) => reject(unanswered(error)));
    response.once("close", () => {
      signal.removeEventListener("abort", onAbort);
      reject(unanswered("it broke off"));
    });
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

function isSuccess(code = 0): boolean {
  return code >= 200 && code < 300;
}

function queryString(query: Call["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
