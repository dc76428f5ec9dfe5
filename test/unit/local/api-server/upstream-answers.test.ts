// Recorded responses of kube-apiserver v1.37.2, compared with ours: defaults, rejections, patches, deletions, scale, binding, quotas.
import { afterAll, expect, test } from "vitest";
import { setUp } from "./fixture.ts";
import { exchange, isWordedOtherwise, normalise, readExchanges, type Send } from "./upstream-answers.ts";

const { server, clock } = setUp();
afterAll(() => server.close());
const uids = new Map<string, string>();

const send: Send = async ({ method, path, query, type, accept, body: given }) => {
  const isProtobuf = type === "application/vnd.kubernetes.protobuf";
  const body = Buffer.isBuffer(given) ? (isProtobuf ? given : given.toString()) : given === undefined ? undefined : JSON.stringify(given);
  const answering = server.request({ method, path, query: new URLSearchParams(query), headers: { "content-type": type, accept }, body });
  // Advances the clock for a request that waits for a future resourceVersion.
  if (query.includes("resourceVersion=99")) await clock.advance(3_000);
  const response = await answering;
  return { status: response.status, body: response.kind === "object" ? response.body : {} };
};

test.each(readExchanges())("responds like upstream: $name", async (one) => {
  const { status, answer } = await exchange(one, send, uids);
  const want = normalise(one.answer);
  if (!isWordedOtherwise(one)) expect({ status, answer }).toEqual({ status: one.status, answer: want });
  else expect({ status, reason: reasonOf(answer) }).toEqual({ status: one.status, reason: reasonOf(want) });
});

function reasonOf(answer: unknown): unknown {
  return typeof answer === "object" && answer !== null && "reason" in answer ? answer.reason : undefined;
}
