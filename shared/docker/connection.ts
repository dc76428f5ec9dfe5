/** A dockerode client on a Unix socket, with deadlines and CriErrors. */
import { Agent } from "node:http";

import Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { CriErrorCode } from "@deltaloop/node-agent/ports";

/** Default deadline (node-agent §1). */
export const REQUEST_MS = 120_000;

export interface Connection {
  readonly docker: Docker;
  /** Closes the connection; pending calls fail. */
  close(): void;
}

/** @throws {TypeError} unless the endpoint is `unix:///path` */
export function connect(endpoint: string): Connection {
  const socketPath = /^unix:\/\/(\/.+)$/.exec(endpoint)?.[1];
  if (socketPath === undefined) throw new TypeError(`invalid Docker endpoint "${endpoint}": use unix:///path/to.sock`);
  // No keep-alive: after a restart of the daemon, the first call on a kept connection would fail.
  const agent = new Agent({ keepAlive: false });
  // docker-modem options that dockerode's types lack. `host`, `protocol` and `timeout` are set, because docker-modem would otherwise take
  // them from environment variables such as DOCKER_HOST.
  const modem: object = { agent, host: undefined, protocol: "http", timeout: undefined };
  return { docker: new Docker({ socketPath, ...modem }), close: () => agent.destroy() };
}

export interface CallOptions {
  /** Infinity means no deadline. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Runs one dockerode call with a deadline. `call` should pass the signal on as `abortSignal` where dockerode supports it.
 * @throws {CriError} for every failure
 */
export async function callDocker<T>(call: (signal: AbortSignal) => Promise<T>, options: CallOptions = {}): Promise<T> {
  const { timeoutMs = REQUEST_MS, signal } = options;
  const limits = [...(Number.isFinite(timeoutMs) ? [AbortSignal.timeout(timeoutMs)] : []), ...(signal === undefined ? [] : [signal])];
  const limit = AbortSignal.any(limits);
  if (signal?.aborted) throw new CriError("Canceled", "aborted before the request was sent");
  const ended = new Promise<never>((_, reject) => {
    limit.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  try {
    return await Promise.race([call(limit), ended]);
  } catch (error) {
    if (error instanceof CriError) throw error;
    if (signal?.aborted) throw new CriError("Canceled", "aborted", { cause: error });
    if (limit.aborted) throw new CriError("DeadlineExceeded", `no response from Docker within ${timeoutMs / 1000} s`, { cause: error });
    throw criError(error);
  }
}

/** Uses Docker's own message without docker-modem's prefix. Source: moby api/swagger.yaml, docker-modem lib/modem.js buildPayload. */
function criError(error: unknown): CriError {
  const { statusCode, json, message = String(error), code } = error as ModemError;
  if (statusCode === undefined) return new CriError(code === undefined ? "Unknown" : "Unavailable", message, { cause: error });
  const text = typeof json === "object" && json !== null && "message" in json ? String(json.message) : message;
  return new CriError(CODES[statusCode] ?? "Unknown", text, { cause: error });
}

/** An error of docker-modem: `statusCode` for an error response, `code` for a broken connection. */
interface ModemError {
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

/** Inspects a container; returns `undefined` if it does not exist. */
export async function inspectContainer(docker: Docker, id: string): Promise<Docker.ContainerInspectInfo | undefined> {
  return await ifExists(callDocker((abortSignal) => docker.getContainer(id).inspect({ abortSignal })));
}

/** Converts NotFound to `undefined`. */
export async function ifExists<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CriError && error.code === "NotFound") return undefined;
    throw error;
  }
}
