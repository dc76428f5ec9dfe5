/**
 * Which requests are retried and after which delay; the cases follow client-go's rest/request_test.go and with_retry_test.go row by row.
 */
import { describe, expect, it } from "vitest";

import { retryAfterMs, type Ending } from "../../../../shared/kube/http/retry.ts";

const answer = (code: number, retryAfter?: string): Ending => ({ kind: "answer", code, retryAfter });
const noAnswer = (errno?: string): Ending => ({ kind: "noAnswer", errno });

describe("retryAfterMs", () => {
  it.each<readonly [name: string, method: string, ending: Ending, want: number | undefined]>([
    ["waits as long as a 429 says", "POST", answer(429, "7"), 7_000],
    ["goes on at once when it says 0", "PATCH", answer(429, "0"), 0],
    ["goes on at once when it says less than 0", "DELETE", answer(429, "-1"), 0],
    ["waits as long as any 5xx says", "POST", answer(500, "2"), 2_000],
    ["waits as long as a 503 says, for a read too", "GET", answer(503, "1"), 1_000],
    ["passes a 429 on that does not say how long", "GET", answer(429), undefined],
    ["passes a 500 on that does not say how long", "POST", answer(500), undefined],
    ["takes no date", "GET", answer(429, "Fri, 31 Dec 1999 23:59:59 GMT"), undefined],
    ["takes no fraction", "GET", answer(429, "1.5"), undefined],
    ["passes other refusals on, whatever they say", "POST", answer(409, "1"), undefined],
    ["repeats a read whose connection was reset, after 1 s", "GET", noAnswer("ECONNRESET"), 1_000],
    ["repeats a read that could not be written to its connection", "GET", noAnswer("EPIPE"), 1_000],
    ["does not repeat a write whose connection was reset", "POST", noAnswer("ECONNRESET"), undefined],
    ["does not repeat a read that was refused a connection", "GET", noAnswer("ECONNREFUSED"), undefined],
    ["does not repeat a read that ran out of time", "GET", noAnswer(), undefined],
  ])("%s", (_name, method, ending, want) => {
    expect(retryAfterMs(method, ending, 0)).toBe(want);
  });

  it("retries at most ten times", () => {
    expect(retryAfterMs("POST", answer(429, "1"), 9)).toBe(1_000);
    expect(retryAfterMs("POST", answer(429, "1"), 10)).toBeUndefined();
    expect(retryAfterMs("GET", noAnswer("ECONNRESET"), 10)).toBeUndefined();
  });
});
