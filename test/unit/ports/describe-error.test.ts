// Error descriptions for logs, without text from API servers, webhooks or unparsed input.
import { expect, it } from "vitest";
import { aggregate } from "../../../shared/controllers/kit/errors.ts";
import { describeError } from "../../../shared/kube/client/describe-error.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";

const DENIAL = `admission webhook "policy.example.com" denied the request: TOKEN=s3cret`;
const denial = (reason = "Forbidden"): KubeApiError => new KubeApiError({ code: 403, reason, message: DENIAL });
const adoption = (name: string, cause: Error): Error => new Error(`can't adopt ${name}: ${cause.message}`, { cause });

function syntaxError(): unknown {
  try {
    return JSON.parse("{s3cret");
  } catch (error) {
    return error;
  }
}

it.each([
  { name: "an API server's error", error: denial(), want: "403 Forbidden" },
  { name: "an API server's error with a webhook's reason", error: denial("s3cret"), want: "403 for a reason of its own" },
  {
    name: "an error that quotes another error",
    error: new Error(`unable to delete pods: ${DENIAL}`, { cause: denial() }),
    want: "Error: unable to delete pods: 403 Forbidden",
  },
  {
    name: "an error that quotes an error that quotes another one",
    error: adoption("b", adoption("a", denial())),
    want: "Error: can't adopt b: Error: can't adopt a: 403 Forbidden",
  },
  {
    name: "several errors",
    error: aggregate([adoption("a", denial()), adoption("b", denial())]),
    want: "[can't adopt a: 403 Forbidden, can't adopt b: 403 Forbidden]",
  },
  { name: "several equal errors", error: aggregate([denial(), denial()]), want: "[403 Forbidden]" },
  { name: "a response that is not JSON", error: syntaxError(), want: "SyntaxError" },
  { name: "any other error", error: new Error("plain"), want: "Error: plain" },
  { name: "an error with a minified name", error: Object.assign(new Error("plain"), { name: "um" }), want: "Error: plain" },
  {
    name: "a missing response",
    error: new UnansweredError("no answer: reset", { cause: new Error("reset") }),
    want: "UnansweredError: no answer: reset",
  },
  { name: "a value that is not an error", error: "plain", want: "plain" },
])("describes $name without text from a server", ({ error, want }) => {
  expect(describeError(error)).toBe(want);
});
