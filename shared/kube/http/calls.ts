/**
 * Calls to one API server with one response each: persistent connections, credentials, timeouts and a retry budget. (client-node opens a
 * TLS connection per request and adds 2.1 MB to a bundle: design decision 8.)
 */
import { setTimeout as sleep } from "node:timers/promises";

import {
  exactText,
  parseExact,
  unlessAborted,
  retryBudgetUntil,
  QUEUE_TIMEOUT_MS,
  REQUEST_TIMEOUT_MS,
  RETRY_WAIT_MS_MAX,
  createSlots,
} from "@deltaloop/base";
import { AnswerTooLargeError, isTooLargeResourceVersion, NotKubernetesError, NotSentError, UnansweredError } from "../client/errors.ts";
import { CALLS_AT_ONCE_MAX } from "../client/kube.ts";
import type { RetryBudget } from "@deltaloop/base";
import type { Answer, Head, Headers, Exchanges } from "@deltaloop/base/http";
import { createAccess } from "./access.ts";
import type { Access, RequestSpec, Identity } from "./access.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createConnections } from "./connections.ts";
import type { Connections } from "./connections.ts";
import { createDeadline, unansweredWithin } from "./deadline.ts";
import type { Deadline } from "./deadline.ts";
import { retryAfterMs } from "./retry.ts";
import type { Ending } from "./retry.ts";
import { isProtobuf, isSuccess, NO_ANSWER, refusalText, statusError, unanswered } from "./status-error.ts";

/**
 * Limit of a response. A page of 500 pods is 5 MB. An object is up to 1.5 MB in etcd and 9 MB as JSON, where a control character takes
 * six bytes. While it is parsed, a response exists as bytes, as text (two bytes per character beyond Latin-1) and as objects: about 300
 * of a function's 1,024 MB.
 */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

export interface Call extends RequestSpec {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly signal?: AbortSignal;
  /** Timeout of one attempt, from connecting to the last byte. Default: that of the retry budget, or else the request timeout. */
  readonly timeoutMs?: number;
  readonly retryBudget?: RetryBudget;
  /** Receives the head of each response, error responses included. */
  readonly onHead?: (headers: Headers) => void;
}

/** One API server as one component: the base of reader and writer. */
export interface KubeCalls {
  readonly requestTimeoutMs: number;
  readonly fieldManager: string;
  /**
   * The parsed response of a successful call, retried as needed (KC4).
   *
   * @throws {KubeApiError} when the server rejected the call
   * @throws {AnswerTooLargeError} when the response exceeds 64 MiB; it is not retried
   * @throws {UnansweredError} without a (complete) response; an aborted signal throws its reason
   * @throws {NotSentError} when no connection or credentials became available in time
   */
  json(call: Call): Promise<unknown>;
}

/** @throws {TokenInClearError} when the configuration has a token and the server is plain HTTP on another machine */
export function createCalls(
  config: KubeHttpConfig,
  access: Access = createAccess(config),
  exchangesOf: Connections = createConnections(config, access),
): KubeCalls {
  const { base } = access;
  const slots = createSlots(CALLS_AT_ONCE_MAX);
  const requestTimeoutMs = config.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;

  return { requestTimeoutMs, fieldManager: config.fieldManager ?? `deltaloop-${config.component}`, json };

  async function json(call: Call): Promise<unknown> {
    const retryBudget = call.retryBudget ?? retryBudgetUntil(Date, Date.now() + (config.waitMsMax ?? RETRY_WAIT_MS_MAX));
    let last: unknown;
    let earlierUnanswered = false;
    for (let retries = 0; ; retries++) {
      const sent = await sendInTurn(call, retryBudget).catch((error: unknown) => {
        throw error instanceof NotSentError && retries > 0 ? last : error;
      });
      if (sent.kind === "success") return decoded(call, sent.answer);
      last = sent.kind === "noAnswer" ? sent.error : statusError(sent.code, sent.headers, sent.body, { earlierUnanswered });
      // Differs from client-go, which retries ten times: here the caller lists again immediately, without this resourceVersion (informer
      // §2.4).
      if (isTooLargeResourceVersion(last)) throw last;
      const afterMs = retryAfterMs(call.method, sent, retries);
      if (afterMs === undefined || afterMs > Math.min(retryBudget.waitMsMax(), RETRY_WAIT_MS_MAX)) throw last;
      config.metrics?.count("rest_client_request_retries_total", {
        code: codeOf(sent),
        verb: call.method,
        host: config.metricsHost ?? base.host,
      });
      earlierUnanswered ||= sent.kind === "answer" && sent.code >= 500;
      await sleep(afterMs, undefined, call.signal && { signal: call.signal }).catch(() => call.signal?.throwIfAborted());
    }
  }

  /** Waits for a free slot; the timeout of the attempt starts after that. */
  async function sendInTurn(call: Call, retryBudget: RetryBudget): Promise<Sent> {
    call.signal?.throwIfAborted();
    const waitMs = Math.min(retryBudget.waitMsMax(), QUEUE_TIMEOUT_MS);
    const queueing = createQueueing(waitMs, call.signal);
    let release: (() => void) | undefined;
    try {
      release = slots.take() ?? (await slots.acquire(queueing.signal()));
      const now = access.currentIdentity();
      const who = now instanceof Promise ? await unlessAborted(now, queueing.signal()) : now;
      if (call.method !== "GET" && !retryBudget.mayStart()) throw new NotSentError("not sent: the caller's deadline has passed");
      queueing.clear();
      return await send(call, who, exchangesOf(who.certificate), call.timeoutMs ?? retryBudget.requestTimeoutMs ?? requestTimeoutMs);
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
      target: access.targetOf(call),
      headers: access.headersOf(call, who),
      ...(body !== undefined && { body }),
    };
    try {
      const answer = await calls.ask(request, {
        ...{ timeoutMs, late, bytesMax: ANSWER_BYTES_MAX, onHead },
        ...(call.signal && { signal: call.signal }),
      });
      const { code: status, headers } = answer;
      if (isSuccess(status)) {
        if (!answer.isCut) return { kind: "success", answer };
        throw new AnswerTooLargeError(`the response to ${call.method} ${call.path} is larger than ${ANSWER_BYTES_MAX} bytes`);
      }
      if (status === 401) access.reject(who);
      const text = refusalText(headers, answer.bytes, call.protobuf);
      return { kind: "answer", code: status, headers, body: text, retryAfter: headers["retry-after"] };
    } catch (error) {
      call.signal?.throwIfAborted();
      if (error instanceof TypeError || error instanceof AnswerTooLargeError) throw error;
      config.onNoAnswer?.();
      const cause = error instanceof UnansweredError ? error : unanswered(error);
      // A call is not retried once its response has begun.
      if (code !== NO_ANSWER) throw cause;
      return { kind: "noAnswer", error: cause, errno: errnoOf(error) };
    } finally {
      config.metrics?.count("rest_client_requests_total", { code, method: call.method, host: config.metricsHost ?? base.host });
      const seconds = (performance.now() - startedMs) / 1000;
      config.metrics?.observe(
        "rest_client_request_duration_seconds",
        { verb: call.method, host: config.metricsHost ?? base.host },
        seconds,
      );
    }
  }
}

/** Outcome of one attempt. */
type Sent =
  | { readonly kind: "success"; readonly answer: Answer }
  | (Ending & { readonly kind: "answer"; readonly headers: Headers; readonly body: string })
  | (Ending & { readonly kind: "noAnswer"; readonly error: unknown });

function codeOf(sent: Exclude<Sent, { readonly kind: "success" }>): string {
  return sent.kind === "answer" ? String(sent.code) : NO_ANSWER;
}

/** The code of a socket error. */
function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

/** A deadline for queueing, created lazily: most calls do not wait. */
function createQueueing(ms: number, caller: AbortSignal | undefined): { signal(): AbortSignal; clear(): void } {
  let deadline: Deadline | undefined;
  return {
    signal: () => (deadline ??= createDeadline(ms, caller, () => new NotSentError(`not sent within ${ms} ms`))).signal,
    clear: () => deadline?.clear(),
  };
}

/** A success that cannot be decoded counts as no response: it comes from a proxy in front of the server. */
function decoded({ protobuf }: Call, answer: Answer): unknown {
  const isJson = protobuf === undefined || !isProtobuf(answer.headers);
  try {
    return isJson ? parseExact(answer.body) : protobuf.success(answer.bytes);
  } catch (cause) {
    throw new NotKubernetesError(`the response is not ${isJson ? "JSON" : "protobuf"}`, { cause });
  }
}
