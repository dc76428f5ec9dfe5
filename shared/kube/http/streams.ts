/**
 * Streaming answers of one API server: what a watch is made of. One connection each, by node:http and node:https: what a stream costs is its
 * bytes.
 */
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";

import { unlessAborted } from "@deltaloop/base";
import type { Access, Asked, Identity } from "./access.ts";
import type { KubeHttpConfig } from "./config.ts";
import { perCertificate } from "./connections.ts";
import { createDeadline } from "./deadline.ts";
import { linesOf } from "./lines.ts";
import { isSuccess, NO_ANSWER, STATUS_BYTES_MAX, statusError, unanswered } from "./status-error.ts";

/** A page of a list, and the head of a watch's answer: the API server's own limit for a request. */
export const LIST_TIMEOUT_MS = 60_000;
const INACTIVITY_MS = 100_000;

export interface KubeStreams {
  /** The lines of a streaming answer to a GET (KL2 to KL6). */
  lines(call: Pick<Asked, "path" | "query"> & { readonly signal: AbortSignal }): AsyncIterable<readonly string[]>;
}

export function createStreams(config: KubeHttpConfig, access: Access): KubeStreams {
  const { base } = access;
  const secure = base.protocol === "https:";
  const Agent = secure ? HttpsAgent : HttpAgent;
  const agentOf = perCertificate(config, (tls) => new Agent({ ...tls, keepAlive: false }));
  const inactivityMs = config.inactivityMs ?? INACTIVITY_MS;

  return { lines };

  async function* lines({ signal, ...call }: Parameters<KubeStreams["lines"]>[0]): AsyncGenerator<readonly string[]> {
    yield* linesOf(await openStream(call, signal), signal, inactivityMs);
  }

  /** A streaming answer once its status line says success. */
  async function openStream(asked: Asked, signal: AbortSignal): Promise<IncomingMessage> {
    const deadline = createDeadline(Math.min(LIST_TIMEOUT_MS, inactivityMs), signal);
    try {
      const who = await unlessAborted(access.identityNow(), deadline.signal);
      const response = await counted(open(asked, who, deadline.signal));
      if (isSuccess(response.statusCode)) return response;
      if (response.statusCode === 401) access.refuse(who);
      throw statusError(response.statusCode ?? 0, response.headers, await readText(response, deadline.signal));
    } finally {
      deadline.clear();
    }
  }

  /** Every answer by its code. Source: client-go rest/request.go updateRequestResultMetric. */
  async function counted(opening: Promise<IncomingMessage>): Promise<IncomingMessage> {
    let code = NO_ANSWER;
    try {
      const response = await opening;
      code = String(response.statusCode);
      return response;
    } finally {
      config.metrics?.count("rest_client_requests_total", { code, method: "GET", host: base.host });
    }
  }

  /** Resolves with the head of the answer. Until then `signal` destroys the request; afterwards that is the reader's part. */
  async function open(asked: Asked, who: Identity, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const request: ClientRequest = (secure ? httpsRequest : httpRequest)({
      host: base.hostname.replace(/^\[|\]$/g, ""),
      port: base.port,
      path: access.targetOf(asked),
      agent: agentOf(who.certificate),
      headers: access.headersOf(asked, who),
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
