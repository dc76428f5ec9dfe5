/**
 * One HTTP/1.1 client for one API server: keep-alive connections, TLS material, credentials, time-outs, and nothing else.
 * (client-node opens a TLS connection per request and costs 2.1 MB of bundle: design decision 8.)
 */
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";

import { UnansweredError } from "../../ports/errors.ts";
import { VERSION } from "../../version.ts";
import type { KubeHttpConfig } from "./config.ts";
import { STATUS_BYTES_MAX, statusError } from "./status-error.ts";

/** Connections for calls; a slow-start batch of 500 creates queues on them. Watches have connections of their own. */
const CONNECTIONS_MAX = 32;
/** The API server closes idle connections after 90 s. Later than this, also after a frozen sandbox, ours are thrown away first. */
const IDLE_MS_MAX = 50_000;
const REQUEST_TIMEOUT_MS = 5_000;

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Absolute, encoded, without query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** For the whole call, from now to the last byte. Default: the request timeout. */
  readonly timeoutMs?: number;
}

export interface KubeClient {
  readonly requestTimeoutMs: number;
  readonly fieldManager: string;
  /**
   * The parsed answer of a call that succeeded.
   *
   * @throws {KubeApiError} when the server refused
   * @throws {UnansweredError} when no (whole) answer came; an aborted signal throws its own reason
   */
  json(call: Call): Promise<unknown>;
  /** A streaming answer once its status line says success; whoever gets it must destroy it. */
  stream(call: Call & { readonly signal: AbortSignal; readonly timeoutMs: number }): Promise<IncomingMessage>;
}

export function createClient(config: KubeHttpConfig): KubeClient {
  const base = new URL(config.server);
  const secure = base.protocol === "https:";
  const prefix = base.pathname.replace(/\/$/, "");
  const tls = {
    ca: config.ca,
    cert: config.cert,
    key: config.key,
    rejectUnauthorized: config.insecure !== true,
    ...(config.serverName === undefined ? {} : { servername: config.serverName }),
  };
  const pooling = { keepAlive: true, noDelay: true, scheduling: "lifo" } as const;
  const Agent = secure ? HttpsAgent : HttpAgent;
  const calls = new Agent({ ...pooling, ...tls, maxSockets: CONNECTIONS_MAX, timeout: IDLE_MS_MAX });
  const watches = new Agent({ ...pooling, ...tls, keepAlive: false });
  const requestTimeoutMs = config.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  const userAgent = `deltaloop/${VERSION} (${config.component})`;
  let lastCallMs = Date.now();

  return { requestTimeoutMs, fieldManager: config.fieldManager ?? `deltaloop-${config.component}`, json, stream };

  async function json(call: Call): Promise<unknown> {
    dropStaleConnections();
    const deadline = createDeadline(call.timeoutMs ?? requestTimeoutMs, call.signal);
    try {
      const response = await open(call, calls, deadline.signal);
      const body = await readText(response, deadline.signal);
      if (!isSuccess(response)) throw statusError(response.statusCode ?? 0, response.headers, body);
      return parse(body);
    } finally {
      deadline.clear();
    }
  }

  async function stream(call: Call & { readonly signal: AbortSignal; readonly timeoutMs: number }): Promise<IncomingMessage> {
    const deadline = createDeadline(call.timeoutMs, call.signal);
    try {
      const response = await open(call, watches, deadline.signal);
      if (isSuccess(response)) return response;
      throw statusError(response.statusCode ?? 0, response.headers, await readText(response, deadline.signal, STATUS_BYTES_MAX));
    } finally {
      deadline.clear();
    }
  }

  /** Resolves with the head of the answer. Until then `signal` destroys the request; afterwards that is the reader's part. */
  async function open(call: Call, agent: HttpAgent, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const token = await config.token?.();
    const headers: Record<string, string | number> = { accept: "application/json", "user-agent": userAgent };
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    if (body !== undefined) {
      headers["content-type"] = call.contentType ?? "application/json";
      headers["content-length"] = body.length;
    }
    signal.throwIfAborted();
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
  function dropStaleConnections(): void {
    const now = Date.now();
    if (now - lastCallMs > IDLE_MS_MAX) {
      for (const sockets of Object.values(calls.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
    }
    lastCallMs = now;
  }
}

/** `signal` fires when the caller's does, with its reason, or after `ms` with an UnansweredError. */
function createDeadline(ms: number, caller: AbortSignal | undefined): { readonly signal: AbortSignal; clear(): void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new UnansweredError(`no answer within ${ms} ms`)), ms);
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

async function readText(response: IncomingMessage, signal: AbortSignal, bytesMax = Infinity): Promise<string> {
  const onAbort = (): void => void response.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bytesMax) break;
    }
    return Buffer.concat(chunks).toString("utf8");
  } catch (error) {
    signal.throwIfAborted();
    throw unanswered(error);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

export function unanswered(cause: unknown): UnansweredError {
  return new UnansweredError(`no answer: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
}

/** A success whose body is no JSON says as little as none: something between us and the server answered. */
function parse(body: string): unknown {
  try {
    return JSON.parse(body);
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
