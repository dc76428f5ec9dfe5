/**
 * Watch streams: drain first, parse later. An API server under load closes watchers that read slowly (its buffers hold ten
 * events), so bytes are taken off the socket as they come and cut into lines only when the caller asks for them.
 */
import type { IncomingMessage } from "node:http";

import type { Resource } from "../../api/resources.ts";
import { UnansweredError } from "../../ports/errors.ts";
import type { KubeWatch, ListQuery, WatchQuery } from "../../ports/kube.ts";
import { unanswered } from "./client.ts";
import type { KubeClient } from "./client.ts";
import { createLineSplitter } from "./line-splitter.ts";
import { resourcePath } from "./path.ts";
import { asPage } from "./reader.ts";
import { isFailure, statusError } from "./status-error.ts";

/** Received and not yet asked for; above it the socket is left alone until half is consumed (informer §2.7). */
const BUFFER_BYTES_MAX = 64 * 1024 * 1024;
const INACTIVITY_MS = 100_000;
/** A page of a list, and the head of a watch's answer: the API server's own limit for a request. */
const LIST_TIMEOUT_MS = 60_000;
/** A first line that could be a Status instead of an event is only looked at below this length. */
const STATUS_LINE_MAX = 64 * 1024;

export function createWatch(
  client: KubeClient,
  options: { readonly inactivityMs?: number; readonly bufferBytesMax?: number } = {},
): KubeWatch<Resource> {
  const inactivityMs = options.inactivityMs ?? INACTIVITY_MS;
  const bufferBytesMax = options.bufferBytesMax ?? BUFFER_BYTES_MAX;

  return {
    async listPage(resource, query, signal) {
      const path = resourcePath(resource, "");
      const answer = await client.json({ method: "GET", path, query: listParameters(query), signal, timeoutMs: LIST_TIMEOUT_MS });
      if (isFailure(answer)) throw statusError(500, {}, JSON.stringify(answer));
      return asPage(answer);
    },

    async *watch(resource, query, signal) {
      const timeoutMs = Math.min(LIST_TIMEOUT_MS, inactivityMs);
      const path = resourcePath(resource, "");
      const response = await client.stream({ method: "GET", path, query: watchParameters(query), signal, timeoutMs });
      const splitter = createLineSplitter();
      let first = true;
      for await (const chunk of drain(response, signal, inactivityMs, bufferBytesMax)) {
        const lines = split(splitter, chunk);
        if (first && lines[0] !== undefined) {
          first = false;
          throwIfStatus(lines[0]);
        }
        if (lines.length > 0) yield lines;
      }
    },
  };
}

/** The chunks of `response`, read whether or not anyone asks, up to the bound. Ends the connection however it is left. */
async function* drain(
  response: IncomingMessage,
  signal: AbortSignal,
  inactivityMs: number,
  bytesMax: number,
): AsyncGenerator<Buffer, void, void> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let end: { readonly error?: unknown } | undefined;
  let wake: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;

  const finish = (reason: { readonly error?: unknown }): void => {
    end ??= reason;
    clearTimeout(timer);
    wake?.();
  };
  const arm = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      finish({ error: new UnansweredError(`no byte for ${inactivityMs} ms`) });
      response.destroy();
    }, inactivityMs);
  };
  const onAbort = (): void => {
    // What was received and not asked for is dropped: the caller is gone.
    chunks.length = 0;
    finish({ error: signal.reason });
    response.destroy();
  };

  response.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) {
      // Silence is our own doing now, so the inactivity timer rests.
      response.pause();
      clearTimeout(timer);
    } else {
      arm();
    }
    wake?.();
  });
  response.once("end", () => finish({}));
  response.once("error", (error) => finish({ error: unanswered(error) }));
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  if (end === undefined) arm();

  try {
    for (;;) {
      const chunk = chunks.shift();
      if (chunk !== undefined) {
        bytes -= chunk.length;
        if (response.isPaused() && bytes <= bytesMax / 2) {
          response.resume();
          arm();
        }
        yield chunk;
        continue;
      }
      if (end !== undefined) {
        if ("error" in end) throw end.error;
        return;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = undefined;
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    response.destroy();
  }
}

function split(splitter: ReturnType<typeof createLineSplitter>, chunk: Buffer): readonly string[] {
  try {
    return splitter.push(chunk);
  } catch (cause) {
    throw new UnansweredError("the stream holds a line that is too long", { cause });
  }
}

/** Some servers and proxies answer 200 and put the refusal where the first event should be (L2). */
function throwIfStatus(line: string): void {
  if (line.length > STATUS_LINE_MAX || !line.includes('"Status"')) return;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // Not ours to judge: the caller sees the line and drops the connection.
    return;
  }
  if (isFailure(value)) throw statusError(500, {}, line);
}

function listParameters(query: ListQuery): Readonly<Record<string, string | number | undefined>> {
  return {
    fieldSelector: query.fieldSelector,
    limit: query.limit,
    continue: query.continue,
    resourceVersion: query.resourceVersion,
    resourceVersionMatch: query.resourceVersionMatch,
  };
}

function watchParameters(query: WatchQuery): Readonly<Record<string, string | number | boolean | undefined>> {
  return {
    watch: true,
    fieldSelector: query.fieldSelector,
    resourceVersion: query.resourceVersion,
    allowWatchBookmarks: query.allowWatchBookmarks,
    timeoutSeconds: query.timeoutSeconds,
  };
}
