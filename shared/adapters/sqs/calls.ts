/**
 * The four calls of SQS that run all day, as JSON over kept connections. The SDK's client does the same at two to three times the
 * CPU of a call and 400 KiB of every bundle; it stays for what is rare (queues are made and looked at), and as the reference that
 * the ports' suites run on, too.
 *
 * QC1 a call is tried up to three times: again when it got no answer in time, 5xx, 429 or a throttling error; never when its signal says no.
 * QC2 an error tells SQS's code and status, and quotes no body.
 * QC3 with an endpoint of one's own no call follows the host in a queue URL, or calls could leave for real AWS; one that speaks plain http
 *    is an emulator on this machine and gets made-up credentials, so that none are searched for.
 *
 * Source: AWS JSON 1.0 protocol; SQS API reference.
 */
import http from "node:http";
import https from "node:https";
import { setTimeout as after } from "node:timers/promises";

import type {
  ChangeMessageVisibilityBatchRequest,
  ChangeMessageVisibilityBatchResult,
  DeleteMessageBatchRequest,
  DeleteMessageBatchResult,
  ReceiveMessageRequest,
  ReceiveMessageResult,
  SendMessageBatchRequest,
  SendMessageBatchResult,
} from "@aws-sdk/client-sqs";
import { createSqsSigner } from "./signature.ts";
import type { SignerOptions } from "./signature.ts";

interface Actions {
  readonly SendMessageBatch: { readonly input: SendMessageBatchRequest; readonly output: SendMessageBatchResult };
  readonly ReceiveMessage: { readonly input: ReceiveMessageRequest; readonly output: ReceiveMessageResult };
  readonly DeleteMessageBatch: { readonly input: DeleteMessageBatchRequest; readonly output: DeleteMessageBatchResult };
  readonly ChangeMessageVisibilityBatch: {
    readonly input: ChangeMessageVisibilityBatchRequest;
    readonly output: ChangeMessageVisibilityBatchResult;
  };
}

export interface CallOptions {
  /** Of one try, from its start to the last byte of its answer. Default: longer than any long poll. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface SqsCalls {
  /** @throws {SqsError} when SQS refuses; what the connection or the signal said when there was no answer */
  call<A extends keyof Actions>(action: A, input: Actions[A]["input"], options?: CallOptions): Promise<Actions[A]["output"]>;
  /** Ends the connections. */
  close(): void;
}

/** SQS refused a call. Its name is SQS's code: `QueueDoesNotExist`. */
export class SqsError extends Error {
  /** Of HTTP. */
  readonly status: number;

  constructor(action: string, code: string, status: number) {
    super(`${action}: ${status}`);
    this.name = code;
    this.status = status;
  }
}

export interface SqsCallsOptions extends SignerOptions {
  /** Instead of the host in each queue URL. */
  readonly endpoint?: string;
}

const TRIES_MAX = 3;
const BACK_OFF_MS = 100;
const TIMEOUT_MS = 30_000;
const THROTTLED = /throttl|limit|slow.?down|too.?many/i;
const EMULATED: SignerOptions = { region: "us-east-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };

export function sqsCalls(options: SqsCallsOptions = {}): SqsCalls {
  const agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };
  const isEmulator = options.endpoint?.startsWith("http:") === true;
  const signed = createSqsSigner({ ...(isEmulator && EMULATED), ...options });

  async function once(action: string, queueUrl: string, body: string, { timeoutMs = TIMEOUT_MS, signal }: CallOptions): Promise<string> {
    const { protocol, hostname, port, host } = new URL(options.endpoint ?? queueUrl);
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
    async call<A extends keyof Actions>(action: A, input: Actions[A]["input"], callOptions: CallOptions = {}) {
      const body = JSON.stringify(input);
      for (let tries = 1; ; tries++) {
        try {
          // What SQS answers to this action, as its API reference has it.
          return JSON.parse(await once(action, input.QueueUrl ?? "", body, callOptions)) as Actions[A]["output"];
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
class SqsTimeoutError extends Error {
  override readonly name = "TimeoutError";
  readonly code = "ETIMEDOUT";
}

function answerTo(request: http.ClientRequest, action: string, body: string, timeoutMs: number, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => request.destroy(new SqsTimeoutError(`${action}: no answer within ${timeoutMs} ms`)), timeoutMs);
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
        else reject(new SqsError(action, codeIn(text), statusCode));
      });
    });
    request.end(body);
  });
}

/** `com.amazonaws.sqs#QueueDoesNotExist` in an error's `__type`. What answers without one is not SQS: a proxy, say. */
function codeIn(text: string): string {
  try {
    const { __type: type } = JSON.parse(text) as { readonly __type?: unknown };
    return typeof type === "string" ? (/[\w.]+$/.exec(type)?.[0] ?? "SqsError") : "SqsError";
  } catch {
    return "SqsError";
  }
}

function isPassing(error: unknown): boolean {
  if (error instanceof SqsError) return error.status >= 500 || error.status === 429 || THROTTLED.test(error.name);
  return error instanceof Error && "code" in error && typeof error.code === "string"; // of the connection
}
