/**
 * AWS JSON over kept connections, for the few calls that run all day: SQS's, and reading secrets. An SDK's client does the same at two
 * to three times the CPU and hundreds of KiB of every bundle.
 *
 * QC1 a call is tried up to three times: again when it got no answer in time, 5xx, 429 or a throttling error; never when its signal says no.
 * QC2 an error tells the service's code and status, and quotes no body.
 * QC3 an endpoint of one's own that speaks plain http is an emulator on this machine and gets made-up credentials, so that none are
 *    searched for.
 *
 * Source: AWS JSON 1.0 and 1.1 protocols.
 */
import http from "node:http";
import https from "node:https";
import { setTimeout as after } from "node:timers/promises";

import { createAwsSigner } from "./aws-signature.ts";
import type { AwsService, SignerOptions } from "./aws-signature.ts";

export interface CallOptions {
  /** Of one try, from its start to the last byte of its answer. Default: longer than any long poll. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface AwsJson {
  /**
   * The parsed answer to `input`, which is sent to the endpoint of the options, else to the host of `url`.
   *
   * @throws {AwsError} when the service refuses; what the connection or the signal said when there was no answer
   */
  call(action: string, url: string, input: object, options?: CallOptions): Promise<unknown>;
  /** Ends the connections. */
  close(): void;
}

/** A service refused a call. Its name is the service's code: `QueueDoesNotExist`. */
export class AwsError extends Error {
  /** Of HTTP. */
  readonly status: number;

  constructor(action: string, code: string, status: number) {
    super(`${action}: ${status}`);
    this.name = code;
    this.status = status;
  }
}

export interface AwsJsonOptions extends SignerOptions {
  /** Instead of the host in each URL. */
  readonly endpoint?: string;
}

const TRIES_MAX = 3;
const BACK_OFF_MS = 100;
const TIMEOUT_MS = 30_000;
const THROTTLED = /throttl|limit|slow.?down|too.?many/i;
const EMULATED: SignerOptions = { region: "us-east-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };

export function awsJson(service: AwsService, options: AwsJsonOptions = {}): AwsJson {
  const agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };
  const isEmulator = options.endpoint?.startsWith("http:") === true;
  const signed = createAwsSigner(service, { ...(isEmulator && EMULATED), ...options });

  async function once(action: string, url: string, body: string, { timeoutMs = TIMEOUT_MS, signal }: CallOptions): Promise<string> {
    const { protocol, hostname, port, host } = new URL(options.endpoint ?? url);
    const headers = await signed(host, action, body);
    signal?.throwIfAborted(); // it may have been while we waited
    const isPlain = protocol === "http:";
    const request = (isPlain ? http : https).request({
      method: "POST",
      hostname,
      port,
      path: "/",
      agent: agents[isPlain ? "http:" : "https:"],
      headers: { ...headers, "content-length": Buffer.byteLength(body) },
    });
    return await answerTo(request, action, body, timeoutMs, signal);
  }

  return {
    async call(action, url, input, callOptions = {}) {
      const body = JSON.stringify(input);
      for (let tries = 1; ; tries++) {
        try {
          return JSON.parse(await once(action, url, body, callOptions)) as unknown;
        } catch (error) {
          if (tries >= TRIES_MAX || !isPassing(error)) throw error;
          await after(Math.random() * BACK_OFF_MS * 2 ** (tries - 1));
        }
      }
    },
    close() {
      agents["http:"].destroy();
      agents["https:"].destroy();
    },
  };
}

/** One try took longer than it may. */
class AwsTimeoutError extends Error {
  override readonly name = "TimeoutError";
  readonly code = "ETIMEDOUT";
}

function answerTo(request: http.ClientRequest, action: string, body: string, timeoutMs: number, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => request.destroy(new AwsTimeoutError(`${action}: no answer within ${timeoutMs} ms`)), timeoutMs);
    const abort = (): void => void request.destroy(signal?.reason as Error); // or whatever else the caller gave as its reason
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    const fail = (error: unknown): void => {
      settle();
      reject(signal?.aborted ? signal.reason : error);
    };
    signal?.addEventListener("abort", abort);
    request.on("error", fail);
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (text += part));
      response.on("error", fail);
      response.on("end", () => {
        settle();
        const { statusCode = 0 } = response;
        if (statusCode === 200) resolve(text);
        else reject(awsError(action, text, statusCode));
      });
    });
    request.end(body);
  });
}

/** What a service answered instead. */
export function awsError(action: string, body: string, status: number): AwsError {
  return new AwsError(action, codeIn(body), status);
}

/** `com.amazonaws.sqs#QueueDoesNotExist` in an error's `__type`. What answers without one is not the service: a proxy, say. */
function codeIn(text: string): string {
  try {
    const { __type: type } = JSON.parse(text) as { readonly __type?: unknown };
    return typeof type === "string" ? (/[\w.]+$/.exec(type)?.[0] ?? "AwsError") : "AwsError";
  } catch {
    return "AwsError";
  }
}

function isPassing(error: unknown): boolean {
  if (error instanceof AwsError) return error.status >= 500 || error.status === 429 || THROTTLED.test(error.name);
  return error instanceof Error && "code" in error && typeof error.code === "string"; // of the connection
}
