// Whether a failed call may have been executed.
import { describe, expect, it } from "vitest";

import { isUnanswered, KubeApiError, NotSentError, UnansweredError } from "../../../shared/kube/client/errors.ts";

const answer = (code: number, message: string, more: { readonly earlierUnanswered?: boolean } = {}): KubeApiError =>
  new KubeApiError({ code, reason: "InternalError", message, ...more });
const AWAY =
  'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://x": connection refused';

describe("[replicaset 126] isUnanswered", () => {
  it.each<readonly [string, unknown, boolean]>([
    ["no answer", new UnansweredError("reset"), true],
    ["not sent", new NotSentError("no connection"), false],
    ["refused", answer(403, "forbidden"), false],
    ["refused, and an earlier sending was not", answer(409, "exists", { earlierUnanswered: true }), true],
    ["500", answer(500, "Internal error occurred: etcdserver: request timed out"), true],
    ["504", answer(504, "Timeout: request did not complete within requested timeout"), true],
    ["an unavailable webhook", answer(500, AWAY), false],
    ["an unavailable webhook, and an earlier sending was not answered", answer(500, AWAY, { earlierUnanswered: true }), true],
    ["a webhook that refuses with its own status", answer(500, 'admission webhook "policy.example.com" denied the request: no'), false],
    [
      "a webhook that refuses without a message",
      answer(503, 'admission webhook "policy.example.com" denied the request without explanation'),
      false,
    ],
    ["a quota that was not evaluated in time", answer(500, "Internal error occurred: resource quota evaluation timed out"), false],
    ["a text that merely mentions a webhook", answer(500, 'Internal error occurred: etcd says: failed calling webhook "x"'), true],
  ])("%s", (_, error, expected) => expect(isUnanswered(error)).toBe(expected));
});
