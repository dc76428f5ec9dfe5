/** Calls of a command at startup: which are retried and for how long, and the error if the command gives up. */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import type { Call, KubeCalls } from "../../../../shared/kube/http/calls.ts";
import { startupClient, StartupError } from "../../../../shared/kube/http/startup-client.ts";

const GET: Call = { method: "GET", path: "/version" };
const REVIEW: Call = { method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" };
const TOKEN: Call = { method: "POST", path: "/api/v1/namespaces/deltaloop/serviceaccounts/deltaloop-watcher/token" };
const CREATE: Call = { method: "POST", path: "/api/v1/namespaces" };
const refusal = (code: number, reason: string): KubeApiError => new KubeApiError({ code, reason, message: "secret", causes: undefined });
const lost = (code: string): UnansweredError => new UnansweredError("no answer", { cause: Object.assign(new Error("why"), { code }) });

interface Ended {
  readonly answer?: unknown;
  readonly thrown?: Error;
  readonly atMs: number;
}

/** A client that fails with `error` until `untilMs`. */
async function start(error: Error, { call = GET, untilMs = Infinity, timeoutMs = 60_000 } = {}) {
  const clock = createVirtualClock(0);
  const notices: string[] = [];
  let calls = 0;
  const client = startupClient<KubeCalls>(
    {
      ...{ requestTimeoutMs: 1, fieldManager: "test" },
      json: async ({ path }) => {
        if (path.endsWith("/selfsubjectreviews")) return { status: { userInfo: { username: "ada" } } };
        calls++;
        if (clock.now() < untilMs) throw error;
        return await Promise.resolve("answer");
      },
    },
    { timeoutMs, clock, onWaiting: (awaited) => notices.push(`${clock.now()}: ${awaited}`) },
  );
  const ended = client.json(call).then(
    (answer): Ended => ({ answer, atMs: clock.now() }),
    (thrown: Error): Ended => ({ thrown, atMs: clock.now() }),
  );
  await clock.advance(120_000);
  return { ...(await ended), calls, notices };
}

describe("a call of a starting command", () => {
  it.each([
    { title: "503", error: refusal(503, "ServiceUnavailable") },
    { title: "429", error: refusal(429, "TooManyRequests") },
    { title: "a refused connection", error: lost("ECONNREFUSED") },
    { title: "a closed connection", error: lost("ECONNRESET") },
    { title: "a host name that does not resolve yet", error: lost("ENOTFOUND") },
  ])("a call is retried after $title until it succeeds", async ({ error }) => {
    const { answer, notices } = await start(error, { untilMs: 20_000 });
    expect(answer).toBe("answer");
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatch(/^2000: GET \/version: \S/);
  });

  it("a call is retried with growing delays, and prints nothing in the first two seconds", async () => {
    const { calls, notices } = await start(refusal(503, "ServiceUnavailable"), { untilMs: 1_400 });
    expect([calls, notices]).toEqual([3, []]);
  });

  it.each([
    { title: "a read", call: GET, repeated: true },
    { title: "an access review", call: REVIEW, repeated: true },
    { title: "a token request", call: TOKEN, repeated: true },
    { title: "a create", call: CREATE, repeated: false },
  ])("a call that is $title is retried: $repeated", async ({ call, repeated }) => {
    const { calls } = await start(refusal(503, "ServiceUnavailable"), { call });
    expect(calls > 1).toBe(repeated);
  });

  it.each([
    { title: "401", error: refusal(401, "Unauthorized"), atMs: 0, says: /^GET \/version fails: 401 Unauthorized\. .*renew the token/ },
    { title: "an untrusted certificate", error: lost("UNABLE_TO_GET_ISSUER_CERT_LOCALLY"), atMs: 0, says: /certificate-authority/ },
    { title: "a certificate of another host", error: lost("ERR_TLS_CERT_ALTNAME_INVALID"), atMs: 0, says: /tls-server-name/ },
    {
      title: "403",
      error: refusal(403, "Forbidden"),
      atMs: 7_500,
      says: /^GET \/version fails for 8s: 403 Forbidden\. User ada lacks this permission: /,
    },
    {
      title: "503",
      error: refusal(503, "ServiceUnavailable"),
      atMs: 57_500,
      says: /fails for 58s: 503 ServiceUnavailable\. .*--startup-timeout/,
    },
  ])("gives up on $title after $atMs ms, with the remedy", async ({ error, atMs, says }) => {
    const ended = await start(error);
    expect(ended).toMatchObject({ atMs, thrown: expect.any(StartupError) as Error });
    expect(ended.thrown?.message).toMatch(says);
    expect(ended.thrown?.message).not.toContain("secret");
  });

  it("a call that gets no response is reported after two seconds, too", async () => {
    const clock = createVirtualClock(0);
    const notices: string[] = [];
    const json = async (): Promise<unknown> => await clock.after(10_000).then(() => "answer");
    const options = { timeoutMs: 60_000, clock, onWaiting: (awaited: string) => notices.push(`${clock.now()}: ${awaited}`) };
    const answer = startupClient<KubeCalls>({ requestTimeoutMs: 1, fieldManager: "test", json }, options).json(GET);
    await clock.advance(20_000);
    expect([await answer, notices]).toEqual(["answer", ["2000: GET /version: no answer yet"]]);
  });

  it("passes other errors of the API server to its caller unchanged", async () => {
    const error = refusal(404, "NotFound");
    expect(await start(error)).toMatchObject({ thrown: error, calls: 1 });
  });
});
