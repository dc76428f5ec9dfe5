// Recorded responses of kube-apiserver v1.37.2 to server-side applies and other writes, with managed fields, compared with ours.
import { afterAll, expect, test } from "vitest";
import { isObject, type Json } from "../../../../shared/base/json.ts";
import { setUp } from "./fixture.ts";
import { exchange, normalise, readApplies, type Send } from "./upstream-answers.ts";

const { server } = setUp({ managedFields: true });
afterAll(() => server.close());
const uids = new Map<string, string>();

const send: Send = async ({ method, path, query, type, accept, body }) => {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = { "content-type": type, accept, "user-agent": "record-upstream-answers" };
  const response = await server.request({ method, path, query: new URLSearchParams(query), headers, body: text });
  return { status: response.status, body: response.kind === "object" ? response.body : {} };
};

test.each(readApplies())("responds like upstream: $name", async (one) => {
  const { status, answer } = await exchange(one, send, uids, true);
  expect({ status, answer: sorted(answer) }).toEqual({ status: one.status, answer: sorted(normalise(one.answer, true)) });
});

/** Upstream's causes of a conflict are in the order of a Go map. */
function sorted(answer: Json): Json {
  if (!isObject(answer) || !isObject(answer["details"]) || !Array.isArray(answer["details"]["causes"])) return answer;
  const causes = answer["details"]["causes"].toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return { ...answer, details: { ...answer["details"], causes } };
}
