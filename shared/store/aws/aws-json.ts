/**
 * AWS JSON protocol over keep-alive connections, for SQS calls and reading secrets. An SDK client needs two to three times the CPU and
 * adds hundreds of KiB to each bundle.
 *
 * QC1 a call is sent up to three times: it is retried after a timeout, 5xx, 429 or a throttling error, unless its signal has aborted.
 * QC2 an error has the service's code and status, and quotes no body.
 * QC3 a custom endpoint with plain http is a local emulator and gets dummy credentials, so that no credential chain is searched.
 *
 * Source: AWS JSON 1.0 and 1.1 protocols.
 */
import { setTimeout as after } from "node:timers/promises";

import { createAwsSigner } from "./aws-signature.ts";
import type { AwsService, SignerOptions } from "./aws-signature.ts";
import { createExchanges } from "@deltaloop/base/http";
import type { Exchanges } from "@deltaloop/base/http";

export interface CallOptions {
  /** Timeout of one attempt, from its start to the last byte of the response. Default: longer than any long poll. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface AwsJson {
  /**
   * Sends `input` to the endpoint of the options, or else to the host of `url`, and returns the parsed response.
   *
   * @throws {AwsError} if the service returns an error. Without a response, throws the connection's error or the signal's reason.
   */
  call(action: string, url: string, input: object, options?: CallOptions): Promise<unknown>;
  /** Ends the connections. */
  close(): void;
}

/** An error that a service returned. `name` is the service's error code: `QueueDoesNotExist`. */
export class AwsError extends Error {
  /** HTTP status. */
  readonly status: number;

  constructor(action: string, code: string, status: number) {
    super(`${action}: ${status}`);
    this.name = code;
    this.status = status;
  }
}

export interface AwsJsonOptions extends SignerOptions {
  /** Replaces the host in each URL. */
  readonly endpoint?: string;
}

const TRIES_MAX = 3;
const BACK_OFF_MS = 100;
const TIMEOUT_MS = 30_000;
/** Shorter than the time for which SQS keeps an idle connection open. */
const IDLE_MS_MAX = 50_000;
/** Largest response of SQS: an envelope with ten messages of 1 MiB, each of which JSON escapes may enlarge sixfold. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
const THROTTLED = /throttl|limit|slow.?down|too.?many/i;
const EMULATED: SignerOptions = { region: "us-east-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };

export function awsJson(service: AwsService, options: AwsJsonOptions = {}): AwsJson {
  const servers = new Map<string, Exchanges>();
  const isEmulator = options.endpoint?.startsWith("http:") === true;
  const signed = createAwsSigner(service, { ...(isEmulator && EMULATED), ...options });

  function exchangesWith({ protocol, hostname, port, origin }: URL): Exchanges {
    const isPlain = protocol === "http:";
    const host = hostname.replace(/^\[|\]$/g, "");
    const made =
      servers.get(origin) ??
      createExchanges(
        { host, port: port === "" ? (isPlain ? 80 : 443) : Number(port), ...(!isPlain && { tls: {} }) },
        { idleMsMax: IDLE_MS_MAX },
      );
    servers.set(origin, made);
    return made;
  }

  async function once(action: string, url: string, body: string, { timeoutMs = TIMEOUT_MS, signal }: CallOptions): Promise<string> {
    const server = new URL(options.endpoint ?? url);
    const { host: _host, ...headers } = await signed(server.host, action, body);
    const late = (): Error => new AwsTimeoutError(`${action}: no response within ${timeoutMs} ms`);
    const answer = await exchangesWith(server)
      .ask({ method: "POST", target: "/", headers, body }, { timeoutMs, late, bytesMax: ANSWER_BYTES_MAX, ...(signal && { signal }) })
      .catch((error: unknown) => {
        signal?.throwIfAborted();
        throw error;
      });
    if (answer.code !== 200) throw awsError(action, answer.body, answer.code);
    return answer.body;
  }

  return {
    async call(action, url, input, callOptions = {}) {
      const body = JSON.stringify(input);
      for (let tries = 1; ; tries++) {
        try {
          return parsed(action, await once(action, url, body, callOptions));
        } catch (error) {
          if (tries >= TRIES_MAX || !isPassing(error)) throw error;
          await after(Math.random() * BACK_OFF_MS * 2 ** (tries - 1));
        }
      }
    },
    close() {
      for (const server of servers.values()) server.destroy();
    },
  };
}

/** Drops the SyntaxError's text, because it quotes its input. */
function parsed(action: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw awsError(action, "", 200);
  }
}

/** One attempt exceeded its timeout. */
class AwsTimeoutError extends Error {
  override readonly name = "TimeoutError";
  readonly code = "ETIMEDOUT";
}

/** Builds the error from a service's error response. */
export function awsError(action: string, body: string, status: number): AwsError {
  return new AwsError(action, codeIn(body), status);
}

/** `com.amazonaws.sqs#QueueDoesNotExist` in an error's `__type`. A response without it is from a proxy, not the service. */
function codeIn(text: string): string {
  try {
    const { __type: type } = JSON.parse(text) as { readonly __type?: unknown };
    return typeof type === "string" ? (/[\w.]+$/.exec(type)?.[0] ?? "AwsError") : "AwsError";
  } catch {
    return "AwsError";
  }
}

/** Whether a retry may succeed (QC1). */
export function isPassing(error: unknown): boolean {
  if (error instanceof AwsError) return error.status >= 500 || error.status === 429 || THROTTLED.test(error.name);
  return error instanceof Error && "code" in error && typeof error.code === "string"; // a connection error
}
