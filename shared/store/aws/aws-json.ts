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
import { setTimeout as after } from "node:timers/promises";

import { createAwsSigner } from "./aws-signature.ts";
import type { AwsService, SignerOptions } from "./aws-signature.ts";
import { createExchanges } from "@deltaloop/base/http";
import type { Exchanges } from "@deltaloop/base/http";

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
/** SQS keeps an idle connection for longer. */
const IDLE_MS_MAX = 50_000;
/** SQS's largest answer, ten messages of 1 MiB, whose text JSON may write six times as long; and what stands around them. */
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
    const late = (): Error => new AwsTimeoutError(`${action}: no answer within ${timeoutMs} ms`);
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

/** A SyntaxError quotes what it could not read. */
function parsed(action: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw awsError(action, "", 200);
  }
}

/** One try took longer than it may. */
class AwsTimeoutError extends Error {
  override readonly name = "TimeoutError";
  readonly code = "ETIMEDOUT";
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
