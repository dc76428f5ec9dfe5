/** Streamed responses of one API server, for watches. Each stream has its own connection. */
import { unlessAborted } from "@deltaloop/base";
import type { AnswerStream } from "@deltaloop/base/http";
import type { WatchFrame } from "../client/kube.ts";
import type { Access, RequestSpec } from "./access.ts";
import type { KubeHttpConfig } from "./config.ts";
import type { Connections } from "./connections.ts";
import { createDeadline, unansweredWithin } from "./deadline.ts";
import { drain, linesOf } from "./lines.ts";
import { isSuccess, NO_ANSWER, refusalText, STATUS_BYTES_MAX, statusError, unanswered } from "./status-error.ts";

/** Timeout of a list page, and of the head of a watch response: the API server's request limit. */
export const LIST_TIMEOUT_MS = 60_000;
const INACTIVITY_MS = 100_000;

export interface KubeStreams {
  /** The lines or frames of a streamed response to a GET (KL2 to KL6, KL9). */
  lines(
    call: Pick<RequestSpec, "path" | "query" | "accept" | "protobuf"> & { readonly signal: AbortSignal },
  ): AsyncIterable<readonly WatchFrame[]>;
}

export function createStreams(config: KubeHttpConfig, access: Access, exchangesOf: Connections): KubeStreams {
  const { inactivityMs = INACTIVITY_MS, readAheadBytesMax } = config;
  const reads = { inactivityMs, readAheadBytesMax };
  const headMs = Math.min(LIST_TIMEOUT_MS, inactivityMs);

  return { lines };

  async function* lines({ signal, ...call }: Parameters<KubeStreams["lines"]>[0]): AsyncGenerator<readonly WatchFrame[]> {
    yield* linesOf(await openStream(call, signal), signal, reads);
  }

  /** Resolves with the response once its status is a success. */
  async function openStream(spec: RequestSpec, signal: AbortSignal): Promise<AnswerStream> {
    const deadline = createDeadline(headMs, signal);
    try {
      const who = await unlessAborted(access.currentIdentity(), deadline.signal);
      const request = { method: "GET", target: access.targetOf(spec), headers: access.headersOf(spec, who) } as const;
      const bounds = { timeoutMs: headMs, late: () => unansweredWithin(headMs), signal: deadline.signal };
      const answer = await counted(exchangesOf(who.certificate).stream(request, bounds), deadline.signal);
      if (isSuccess(answer.code)) return answer;
      if (answer.code === 401) access.reject(who);
      throw statusError(answer.code, answer.headers, refusalText(answer.headers, await refusalIn(answer, deadline.signal), spec.protobuf));
    } finally {
      deadline.clear();
    }
  }

  /** Counts each response by its code. Source: client-go rest/request.go updateRequestResultMetric. */
  async function counted(opening: Promise<AnswerStream>, signal: AbortSignal): Promise<AnswerStream> {
    let code = NO_ANSWER;
    try {
      const answer = await opening;
      code = String(answer.code);
      return answer;
    } catch (error) {
      throw signal.aborted || error instanceof TypeError ? error : unanswered(error);
    } finally {
      config.metrics?.count("rest_client_requests_total", { code, method: "GET", host: config.metricsHost ?? access.base.host });
    }
  }

  async function refusalIn(answer: AnswerStream, signal: AbortSignal): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const take of drain(answer, signal, reads)) {
      const chunk = take();
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > STATUS_BYTES_MAX) break;
    }
    return Buffer.concat(chunks);
  }
}
