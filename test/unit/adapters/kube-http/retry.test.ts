/**
 * Which requests are retried and after which delay; the cases follow client-go's rest/request_test.go and with_retry_test.go row by row.
 */
import { describe, expect, it } from "vitest";

import { retryAfterMs, type Ending } from "../../../../shared/kube/http/retry.ts";

const answer = (code: number, retryAfter?: string): Ending => ({ kind: "answer", code, retryAfter });
const noAnswer = (errno?: string): Ending => ({ kind: "noAnswer", errno });

describe("retryAfterMs", () => {
  it.each<readonly [name: string, method: string, ending: Ending, want: number | undefined]>([
    ["waits for the Retry-After of a 429", "POST", answer(429, "7"), 7_000],
    ["retries immediately if Retry-After is 0", "PATCH", answer(429, "0"), 0],
    ["retries immediately if Retry-After is negative", "DELETE", answer(429, "-1"), 0],
    ["waits for the Retry-After of any 5xx", "POST", answer(500, "2"), 2_000],
    ["waits for the Retry-After of a 503 to a read", "GET", answer(503, "1"), 1_000],
    ["does not retry a 429 without Retry-After", "GET", answer(429), undefined],
    ["does not retry a 500 without Retry-After", "POST", answer(500), undefined],
    ["ignores a Retry-After that is a date", "GET", answer(429, "Fri, 31 Dec 1999 23:59:59 GMT"), undefined],
    ["ignores a fractional Retry-After", "GET", answer(429, "1.5"), undefined],
    ["does not retry another status, even with Retry-After", "POST", answer(409, "1"), undefined],
    ["retries a read after 1 s if its connection was reset", "GET", noAnswer("ECONNRESET"), 1_000],
    ["retries a read after 1 s if its connection broke while the request was written", "GET", noAnswer("EPIPE"), 1_000],
    ["does not retry a write whose connection was reset", "POST", noAnswer("ECONNRESET"), undefined],
    ["does not retry a read whose connection was refused", "GET", noAnswer("ECONNREFUSED"), undefined],
    ["does not retry a read that timed out", "GET", noAnswer(), undefined],
  ])("%s", (_name, method, ending, want) => {
    expect(retryAfterMs(method, ending, 0)).toBe(want);
  });

  it("retries at most ten times", () => {
    expect(retryAfterMs("POST", answer(429, "1"), 9)).toBe(1_000);
    expect(retryAfterMs("POST", answer(429, "1"), 10)).toBeUndefined();
    expect(retryAfterMs("GET", noAnswer("ECONNRESET"), 10)).toBeUndefined();
  });
});
