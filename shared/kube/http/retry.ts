/** When a call is sent again, as client-go's rest client decides it. */

/** How one sending ended: with an answer's head, or without. */
export type Ending =
  | { readonly kind: "answer"; readonly code: number; /** The header as it came. */ readonly retryAfter: string | undefined }
  | { readonly kind: "noAnswer"; /** Of the socket's error. */ readonly errno: string | undefined };

/** Source: client-go rest/request.go NewRequest, maxRetries. */
const RETRIES_MAX = 10;
/** What stands for Retry-After when a read lost its connection. Source: rest/with_retry.go retryAfterResponse. */
const RESET_WAIT_MS = 1_000;
const RESET = new Set(["ECONNRESET", "EPIPE"]);

/**
 * How long to wait before the next sending, or undefined when the ending is final: 429 and every 5xx with a Retry-After of
 * whole seconds, and of a GET also a connection that was reset before it answered. `retries` is how often it was sent again so
 * far.
 *
 * Source: client-go rest/with_retry.go IsNextRetry, checkWait; rest/request.go request (isErrRetryableFunc), retryAfterSeconds.
 */
export function retryAfterMs(method: string, ending: Ending, retries: number): number | undefined {
  if (retries >= RETRIES_MAX) return undefined;
  if (ending.kind === "noAnswer") return method === "GET" && RESET.has(ending.errno ?? "") ? RESET_WAIT_MS : undefined;
  if (ending.code !== 429 && ending.code < 500) return undefined;
  // What Go's strconv.Atoi takes; the date form is none.
  if (ending.retryAfter === undefined || !/^[+-]?\d+$/.test(ending.retryAfter)) return undefined;
  return Math.max(0, Number(ending.retryAfter)) * 1_000;
}
