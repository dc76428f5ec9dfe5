/** Decides whether a call is retried, as client-go's REST client does. */

/** The end of one attempt: the head of a response, or none. */
export type Ending =
  | { readonly kind: "answer"; readonly code: number; /** The Retry-After header, not parsed. */ readonly retryAfter: string | undefined }
  | { readonly kind: "noAnswer"; /** The code of the socket error. */ readonly errno: string | undefined };

/** Source: client-go rest/request.go NewRequest, maxRetries. */
const RETRIES_MAX = 10;
/** Wait after a reset connection of a read. Source: rest/with_retry.go retryAfterResponse. */
const RESET_WAIT_MS = 1_000;
const RESET = new Set(["ECONNRESET", "EPIPE"]);

/**
 * Returns the delay before the next attempt, or undefined if the ending is final. A 429 or 5xx with a Retry-After of whole seconds is
 * retried, and a GET whose connection was reset before the response. `retries` counts the retries so far.
 *
 * Source: client-go rest/with_retry.go IsNextRetry, checkWait; rest/request.go request (isErrRetryableFunc), retryAfterSeconds.
 */
export function retryAfterMs(method: string, ending: Ending, retries: number): number | undefined {
  if (retries >= RETRIES_MAX) return undefined;
  if (ending.kind === "noAnswer") return method === "GET" && RESET.has(ending.errno ?? "") ? RESET_WAIT_MS : undefined;
  if (ending.code !== 429 && ending.code < 500) return undefined;
  // Go's strconv.Atoi accepts only integers, not the date form of the header.
  if (ending.retryAfter === undefined || !/^[+-]?\d+$/.test(ending.retryAfter)) return undefined;
  return Math.max(0, Number(ending.retryAfter)) * 1_000;
}
