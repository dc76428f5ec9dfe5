/**
 * A streamed response as lines, or as protobuf frames. An API server under load closes slow watchers (its buffers hold ten events), so bytes
 * are read from the socket as they arrive and split only on demand.
 */
import type { AnswerStream } from "@deltaloop/base/http";
import { UnansweredError } from "../client/errors.ts";
import type { WatchFrame } from "../client/kube.ts";
import { createFrameSplitter } from "./frame-splitter.ts";
import { createLineSplitter } from "./line-splitter.ts";
import { isFailure, isProtobuf, statusError, unanswered } from "./status-error.ts";

/** Default of `readAheadBytesMax`. */
const READ_AHEAD_BYTES_MAX = 64 * 1024 * 1024;
/** Maximum length of a first line that is checked for a Status. */
const STATUS_LINE_MAX = 64 * 1024;

export interface ReadOptions {
  /** Time without a byte after which the stream is aborted (KL5). */
  readonly inactivityMs: number;
  /** Limit of buffered bytes; above it the socket is paused until half is consumed (informer §2.7). */
  readonly readAheadBytesMax?: number | undefined;
}

/**
 * Yields complete lines or frames in order, grouped as received (KL2 to KL6). Closes the connection when the consumer stops.
 *
 * A generator and its consumer keep the last group until the next one arrives, which on a quiet watch may take minutes: for each cluster the
 * end of its lists. So a group is emptied when the next one is requested.
 */
export async function* linesOf(response: AnswerStream, signal: AbortSignal, options: ReadOptions): AsyncGenerator<readonly WatchFrame[]> {
  const splitter: Splitter = isProtobuf(response.headers) ? createFrameSplitter() : createLineSplitter();
  let first = true;
  for await (const take of drain(response, signal, options)) {
    const lines = split(splitter, take);
    if (first && lines[0] !== undefined) {
      first = false;
      if (typeof lines[0] === "string") throwIfStatus(lines[0]);
    }
    if (lines.length === 0) continue;
    yield lines;
    lines.length = 0;
  }
}

/** Takes the next chunk; there is one whenever `drain` yields. */
type Take = () => Buffer;

/** Yields once for each chunk of `response`, read ahead of the consumer up to the limit. The chunk itself would be kept like a group of lines. */
export async function* drain(response: AnswerStream, signal: AbortSignal, options: ReadOptions): AsyncGenerator<Take, void, void> {
  const { inactivityMs, readAheadBytesMax = READ_AHEAD_BYTES_MAX } = options;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isPaused = false;
  let end: { readonly error?: unknown } | undefined;
  let wake: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;

  const finish = (reason: { readonly error?: unknown }): void => {
    end ??= reason;
    clearTimeout(timer);
    wake?.();
  };
  const arm = (): void => {
    if (timer) return void timer.refresh();
    timer = setTimeout(() => {
      finish({ error: new UnansweredError(`no data for ${inactivityMs} ms`) });
      response.destroy();
    }, inactivityMs);
  };
  const onAbort = (): void => {
    // The consumer has stopped, so the buffered chunks are dropped.
    chunks.length = 0;
    finish({ error: signal.reason });
    response.destroy();
  };

  const onBytes = (chunk: Buffer): void => {
    if (end !== undefined) return;
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > readAheadBytesMax) {
      // While paused no bytes are expected, so the inactivity timer stops.
      isPaused = true;
      response.pause();
      clearTimeout(timer);
      timer = undefined; // a cleared timer cannot be refreshed
    } else {
      arm();
    }
    wake?.();
  };
  const take = (): Buffer => {
    const chunk = chunks.shift() ?? EMPTY;
    bytes -= chunk.length;
    if (isPaused && bytes <= readAheadBytesMax / 2) {
      isPaused = false;
      response.resume();
      arm();
    }
    return chunk;
  };
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  if (end === undefined) arm();
  response.read({ onBytes, onEnd: (ending) => finish("error" in ending ? { error: unanswered(ending.error) } : {}) });

  try {
    for (;;) {
      if (chunks.length > 0) {
        yield take;
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

const EMPTY = Buffer.alloc(0);

interface Splitter {
  push(chunk: Buffer): WatchFrame[];
}

/** Not asynchronous, so that no suspended function keeps the chunk. */
function split(splitter: Splitter, take: Take): WatchFrame[] {
  try {
    return splitter.push(take());
  } catch (cause) {
    throw new UnansweredError("the stream contains an event that is too long", { cause });
  }
}

/** Some servers and proxies return 200 and a Status as first line (KL2). */
function throwIfStatus(line: string): void {
  if (line.length > STATUS_LINE_MAX || !line.includes('"Status"')) return;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // The consumer receives the undecodable line and drops the connection.
    return;
  }
  if (isFailure(value)) throw statusError(500, {}, line);
}
