// Answers of kube-apiserver v1.36.3 to the same requests: defaults, refusals, patches, deletions, scale, binding,
// quotas.
import { afterAll, expect, test } from "vitest";
import { setUp } from "./fixture.ts";
import { exchange, normalise, readExchanges, type Send } from "./upstream-answers.ts";

/** Only status and reason are compared here; each comment states the difference. */
const KNOWN_DIFFERENCES: Readonly<Record<string, string>> = {
  "d bad strategy": "upstream prints its internal Go struct",
  "d wrong kind": "upstream adds a Go conversion error",
  "patch uid": "upstream names the same cause twice",
  "fin add while deleting": "upstream names the same cause twice",
  "pod adopt 2": "upstream names the same cause four times",
  "pod spec change": "upstream adds a diff",
  "pod nodeName": "upstream adds a diff",
  "list bad label": "upstream names what it expected",
  "list bad continue": "upstream quotes the decoder",
};

const { server, clock } = setUp();
afterAll(() => server.close());
const uids = new Map<string, string>();

const send: Send = async ({ method, path, query, type, body }) => {
  const answering = server.request({ method, path, query: new URLSearchParams(query), headers: { "content-type": type }, body });
  // Waits for a future revision.
  if (query.includes("resourceVersion=99")) await clock.advance(3_000);
  const response = await answering;
  return { status: response.status, body: response.kind === "object" ? response.body : {} };
};

test.each(readExchanges())("answers like upstream: $name", async (one) => {
  const { status, answer } = await exchange(one, send, uids);
  const want = normalise(one.answer);
  if (KNOWN_DIFFERENCES[one.name] === undefined) expect({ status, answer }).toEqual({ status: one.status, answer: want });
  else expect({ status, reason: reasonOf(answer) }).toEqual({ status: one.status, reason: reasonOf(want) });
});

function reasonOf(answer: unknown): unknown {
  return typeof answer === "object" && answer !== null && "reason" in answer ? answer.reason : undefined;
}
