// Whether a failed call may have been executed.
import { describe, expect, it } from "vitest";

import { isUnanswered, KubeApiError, NotSentError, UnansweredError } from "../../../shared/kube/client/errors.ts";

const answer = (code: number, message: string, more: { readonly earlierUnanswered?: boolean } = {}): KubeApiError =>
  new KubeApiError({ code, reason: "InternalError", message, ...more });
const AWAY =
  'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://x": connection refused';

describe("[replicaset 126] isUnanswered", () => {
  it.each<readonly [string, unknown, boolean]>([
    ["a request without a response", new UnansweredError("reset"), true],
    ["a request that was not sent", new NotSentError("no connection"), false],
    ["a rejected request", answer(403, "forbidden"), false],
    ["a rejected request that had been sent before without a response", answer(409, "exists", { earlierUnanswered: true }), true],
    ["a 500 response", answer(500, "Internal error occurred: etcdserver: request timed out"), true],
    ["a 504 response", answer(504, "Timeout: request did not complete within requested timeout"), true],
    ["an unavailable webhook", answer(500, AWAY), false],
    [
      "an unavailable webhook, after the request had been sent before without a response",
      answer(500, AWAY, { earlierUnanswered: true }),
      true,
    ],
    ["a webhook that denies with its own status", answer(500, 'admission webhook "policy.example.com" denied the request: no'), false],
    [
      "a webhook that denies without a message",
      answer(503, 'admission webhook "policy.example.com" denied the request without explanation'),
      false,
    ],
    ["a quota that was not evaluated in time", answer(500, "Internal error occurred: resource quota evaluation timed out"), false],
    ["a message that merely mentions a webhook", answer(500, 'Internal error occurred: etcd says: failed calling webhook "x"'), true],
  ])("isUnanswered for %s", (_, error, expected) => expect(isUnanswered(error)).toBe(expected));
});
