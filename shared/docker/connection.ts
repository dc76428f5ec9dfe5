/** dockerode on a Unix socket: every call in its time, every refusal a CriError. */
import { Agent } from "node:http";

import Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { CriErrorCode } from "@deltaloop/node-agent/ports";

/** Node-agent §1. */
export const REQUEST_MS = 120_000;

export interface Connection {
  readonly docker: Docker;
  /** Calls under way fail. */
  close(): void;
}

/** @throws {TypeError} for any other kind of endpoint than `unix:///path` */
export function connect(endpoint: string): Connection {
  const socketPath = /^unix:\/\/(\/.+)$/.exec(endpoint)?.[1];
  if (socketPath === undefined) throw new TypeError(`a Docker endpoint is unix:///path/to.sock, not "${endpoint}"`);
  // A connection of its own for each call: one that was kept would break under the first call after the daemon's restart.
  const agent = new Agent({ keepAlive: false });
  // docker-modem's own options, which dockerode's types leave out. Without the last ones, environment variables
  // like DOCKER_HOST would override the configured socket.
  const modem: object = { agent, host: undefined, protocol: "http", timeout: undefined };
  return { docker: new Docker({ socketPath, ...modem }), close: () => agent.destroy() };
}

export interface CallOptions {
  /** Infinity: no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * One call of dockerode's, which is to pass the signal on as `abortSignal` where dockerode takes one; the time is kept anyway.
 * @throws {CriError} for everything but an answer
 */
export async function asked<T>(call: (signal: AbortSignal) => Promise<T>, options: CallOptions = {}): Promise<T> {
  const { timeoutMs = REQUEST_MS, signal } = options;
  const limits = [...(Number.isFinite(timeoutMs) ? [AbortSignal.timeout(timeoutMs)] : []), ...(signal === undefined ? [] : [signal])];
  const limit = AbortSignal.any(limits);
  if (signal?.aborted) throw new CriError("Canceled", "aborted before it was sent");
  const ended = new Promise<never>((_, reject) => {
    limit.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  try {
    return await Promise.race([call(limit), ended]);
  } catch (error) {
    if (error instanceof CriError) throw error;
    if (signal?.aborted) throw new CriError("Canceled", "aborted", { cause: error });
    if (limit.aborted) throw new CriError("DeadlineExceeded", `Docker did not answer within ${timeoutMs / 1000} s`, { cause: error });
    throw criError(error);
  }
}

/** Docker's own words without HTTP's around them. Source: moby api/swagger.yaml, docker-modem lib/modem.js buildPayload. */
function criError(error: unknown): CriError {
  const { statusCode, json, message = String(error), code } = error as Refusal;
  if (statusCode === undefined) return new CriError(code === undefined ? "Unknown" : "Unavailable", message, { cause: error });
  const said = typeof json === "object" && json !== null && "message" in json ? String(json.message) : message;
  return new CriError(CODES[statusCode] ?? "Unknown", said, { cause: error });
}

/** What docker-modem throws: an answer that is none has `statusCode`, a connection that broke `code`. */
interface Refusal {
  readonly statusCode?: number;
  readonly json?: unknown;
  readonly message?: string;
  readonly code?: string;
}

const CODES: Readonly<Record<number, CriErrorCode>> = {
  400: "InvalidArgument",
  401: "Unauthenticated",
  403: "PermissionDenied",
  404: "NotFound",
  409: "FailedPrecondition",
  501: "Unimplemented",
};

/** `undefined` instead of NotFound. */
export async function ifThere<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CriError && error.code === "NotFound") return undefined;
    throw error;
  }
}
