/**
 * Would catch: access without authorization, by certificate, token, path or upgrade; responses that differ from upstream's; a token in a
 * log; and connections that remain after the server has stopped.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as tlsConnect } from "node:tls";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { subresourcesOf } from "../../../../shared/node-agent/server/authorization.ts";
import { KubeApiError } from "../../../../shared/kube/client/errors.ts";
import type { Certificate, Pki } from "../../../envtest/pki.ts";
import { eventually } from "../../../support/e2e.ts";
import { createTestPki, startFixture, TOKEN } from "./fixture.ts";
import type { Fixture, Review } from "./fixture.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const LOGS = "/containerLogs/shop/web/main";
const EXEC = "/exec/shop/web/main?command=true&output=1";

let ca: { readonly pki: Pki; remove(): void };
let stranger: { readonly pki: Pki; remove(): void };
let tls: { readonly cert: string; readonly key: string };
let client: Certificate;
let fixture: Fixture;

beforeAll(async () => {
  [ca, stranger] = await Promise.all([createTestPki(), createTestPki()]);
  const server = await ca.pki.serverCertificate();
  tls = { cert: server.certificate, key: server.key };
  client = await ca.pki.clientCertificate("bob", ["ops", "night shift"]);
});
afterAll(() => {
  ca?.remove();
  stranger?.remove();
});
afterEach(() => fixture?.stop());

async function start(): Promise<Fixture> {
  fixture = await startFixture({ tls, clientCa: ca.pki.ca });
  return fixture;
}

const asked = ({ reviews }: Fixture, kind: Review["kind"]): readonly object[] =>
  reviews.filter((each) => each.kind === kind).map(({ spec }) => spec);

describe("authentication", () => {
  it("rejects a request without certificate and token on every path and method", async () => {
    const { ask, upgrade, reviews } = await start();
    for (const path of [LOGS, EXEC, "/pods", "/healthz", "/attach/shop/web/main", "/nothing", "/"])
      expect(await ask(path, { token: null }), path).toEqual({ code: 401, body: "Unauthorized" });
    expect(await ask("/pods", { token: null, headers: { authorization: "Basic YTpi" } })).toMatchObject({ code: 401 });
    expect(await ask("/pods", { token: "" })).toMatchObject({ code: 401 });
    expect((await upgrade(EXEC, { token: null })).answer.statusCode).toBe(401);
    expect(reviews).toEqual([]);
  });

  it("returns the subject of a certificate signed by the configured CA, with its groups and extra fields", async () => {
    await start();
    expect(await fixture.ask("/pods", { token: null, certificate: client })).toMatchObject({ code: 200 });
    expect(asked(fixture, "TokenReview")).toEqual([]);
    expect(asked(fixture, "SubjectAccessReview")).toEqual([
      {
        user: "bob",
        groups: ["ops", "night shift", "system:authenticated"],
        extra: { "authentication.kubernetes.io/credential-id": [expect.stringMatching(/^X509SHA256=[0-9a-f]{64}$/u)] },
        resourceAttributes: { verb: "get", version: "v1", resource: "nodes", subresource: "pods", name: "n1" },
      },
    ]);
  });

  it("rejects a certificate of another CA, one without a name, and an expired one", async () => {
    const { ask, script } = await start();
    const foreign = await stranger.pki.clientCertificate("bob", ["system:masters"]);
    const nameless = await ca.pki.clientCertificate("", ["system:masters"]);
    expect(await ask("/pods", { token: null, certificate: foreign })).toMatchObject({ code: 401 });
    expect(await ask("/pods", { token: null, certificate: nameless })).toMatchObject({ code: 401 });
    script.skewMs = 31 * DAY_MS;
    expect(await ask("/pods", { token: null, certificate: client })).toMatchObject({ code: 401 });
  });

  it("rejects a resumed TLS session without a client certificate, even if TLS reports it as verified", async () => {
    const { port } = await start();
    const target = { host: "127.0.0.1", port, rejectUnauthorized: false };
    const ask = (session?: Buffer): Promise<{ readonly reused: boolean; readonly text: string; readonly session: Buffer }> =>
      new Promise((resolve, reject) => {
        const socket = tlsConnect({ ...target, ...(session && { session }) });
        let [text, reused] = ["", false];
        let next: Buffer = Buffer.alloc(0);
        socket.once("secureConnect", () => (reused = socket.isSessionReused()));
        socket.on("session", (ticket: Buffer) => (next = ticket)).once("error", reject);
        socket.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        socket.once("close", () => resolve({ reused, text, session: next }));
        socket.write("GET /pods HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n");
      });
    const first = await ask();
    const second = await ask(first.session);
    expect(second.reused).toBe(true);
    expect([first, second].map(({ text }) => text.split("\r\n")[0])).toEqual(["HTTP/1.1 401 Unauthorized", "HTTP/1.1 401 Unauthorized"]);
  });

  it("rejects certificates without a configured CA", async () => {
    fixture = await startFixture({ tls });
    expect(await fixture.ask("/pods", { token: null, certificate: client })).toMatchObject({ code: 401 });
  });

  it("returns the user from a TokenReview, caches it for two minutes, and never logs the token", async () => {
    const { ask, script, log } = await start();
    for (const token of [TOKEN, TOKEN, "wrong", "wrong"])
      expect(await ask(LOGS, { token }), token).toMatchObject({ code: token === TOKEN ? 200 : 401 });
    expect(asked(fixture, "TokenReview")).toEqual([{ token: TOKEN }, { token: "wrong" }]);
    expect(asked(fixture, "SubjectAccessReview")).toEqual([
      {
        user: "alice",
        uid: "7",
        groups: ["dev", "system:authenticated"],
        extra: { scope: ["x"] },
        resourceAttributes: { verb: "get", version: "v1", resource: "nodes", subresource: "proxy", name: "n1" },
      },
    ]);
    script.skewMs += 2 * MINUTE_MS;
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
    expect(asked(fixture, "TokenReview")).toHaveLength(3);
    expect(JSON.stringify(log.lines)).not.toMatch(/t0ken|wrong/u);
  });

  it("[node-agent 500] reviews unknown tokens in a separate queue, and drops a review when its client disconnects", async () => {
    const { ask, open, script } = await start();
    const answers: (() => void)[] = [];
    const { review } = script;
    script.review = (one) => {
      if (one.kind !== "TokenReview" || one.spec["token"] === TOKEN) return review(one);
      return new Promise((resolve) => void answers.push(() => resolve(review(one))));
    };
    const goes = new AbortController();
    const strangers = Array.from({ length: 100 }, (_none, index) => open("/pods", { token: `t${index}`, signal: goes.signal }));
    const ends = Promise.allSettled(strangers);
    await eventually("some of them are asked for", () => answers.length > 0);
    await sleep(300);
    expect(answers.length).toBe(8);
    expect(await ask("/pods", { token: null, certificate: client })).toMatchObject({ code: 200 });
    goes.abort();
    await ends;
    await sleep(200); // until the server has noticed it, too
    for (const give of answers) give();
    expect(await ask("/pods")).toMatchObject({ code: 200 });
    expect(answers.length).toBe(8);
  });

  it("[node-agent 500] sends at most 8 TokenReviews for 50 concurrent requests with one token", async () => {
    const { ask, script } = await start();
    const { review } = script;
    script.review = async (one) => {
      await sleep(100);
      return review(one);
    };
    const codes = await Promise.all(Array.from({ length: 50 }, async () => (await ask("/pods")).code));
    expect(codes).toEqual(Array(50).fill(200));
    expect(asked(fixture, "TokenReview").length).toBeLessThanOrEqual(8);
  });

  it("rejects a token whose TokenReview fails, and reviews it again for the next request", async () => {
    const { ask, script } = await start();
    const { review } = script;
    script.review = () => {
      throw new KubeApiError({ code: 403, reason: "Forbidden", message: "not you" });
    };
    expect(await ask(LOGS)).toMatchObject({ code: 401 });
    script.review = review;
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
  });
});

describe("authorization", () => {
  const rights: readonly { readonly path: string; readonly want: readonly string[] }[] = [
    { path: "/containerLogs/a/b/c", want: ["proxy"] },
    { path: "/exec/a/b/c", want: ["proxy"] },
    { path: "/pods", want: ["pods", "proxy"] },
    { path: "/pods/", want: ["pods", "proxy"] },
    { path: "/podsandmore", want: ["proxy"] },
    { path: "/runningpods/", want: ["pods", "proxy"] },
    { path: "/healthz", want: ["healthz", "proxy"] },
    { path: "/healthz/syncloop", want: ["healthz", "proxy"] },
    { path: "/configz", want: ["configz", "proxy"] },
    { path: "/flagz", want: ["configz"] },
    { path: "/statusz", want: ["statusz"] },
    { path: "/stats/summary", want: ["stats"] },
    { path: "/metrics/resource", want: ["metrics"] },
    { path: "/logs/", want: ["log"] },
    { path: "/checkpoint/a/b/c", want: ["checkpoint"] },
    { path: "/", want: ["proxy"] },
  ];
  it.each(rights)("requires one of the permissions $want on the node for $path", ({ path, want }) =>
    expect(subresourcesOf(path)).toEqual(want),
  );

  it("denies with upstream's message, and caches a denial for 30 s and an approval for 5 min", async () => {
    const { ask, upgrade, script } = await start();
    const { review } = script;
    script.review = (each) => (each.kind === "TokenReview" ? review(each) : { allowed: false });
    const forbidden = (verb: string, subresources: string): object => ({
      code: 403,
      body: `Forbidden (user=alice, verb=${verb}, resource=nodes, subresource(s)=[${subresources}])\n`,
    });
    expect(await ask(LOGS)).toEqual(forbidden("get", "proxy"));
    expect(await ask("/pods")).toEqual(forbidden("get", "pods proxy"));
    expect(await ask(EXEC, { method: "POST" })).toEqual(forbidden("create", "proxy"));
    // A WebSocket upgrade is a GET request, but it runs a command.
    const upgraded = (await upgrade(EXEC)).answer;
    expect(upgraded.statusCode).toBe(403);
    expect(await ask(EXEC)).toEqual(forbidden("create", "proxy"));
    const questions = (): number => asked(fixture, "SubjectAccessReview").length;
    // Three reviews: get proxy, get pods, create proxy. The second review of each is answered from the cache.
    expect(questions()).toBe(3);
    script.review = review;
    script.skewMs += 29_000;
    expect(await ask(LOGS)).toMatchObject({ code: 403 });
    script.skewMs += 2_000;
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
    expect(questions()).toBe(4);
    script.skewMs += 4 * MINUTE_MS;
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
    expect(questions()).toBe(4);
    script.skewMs += 2 * MINUTE_MS;
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
    expect(questions()).toBe(5);
  });

  it("returns 500 if the SubjectAccessReview request fails, and 403 if the review both allows and denies", async () => {
    const { ask, script } = await start();
    const { review } = script;
    script.review = (each) => {
      if (each.kind === "TokenReview") return review(each);
      throw new KubeApiError({ code: 403, reason: "Forbidden", message: "no" });
    };
    expect(await ask(LOGS)).toEqual({ code: 500, body: "Authorization error (user=alice, verb=get, resource=nodes, subresource=proxy)" });
    script.review = (each) => (each.kind === "TokenReview" ? review(each) : { allowed: true, denied: true });
    expect(await ask(LOGS)).toMatchObject({ code: 403 });
  });

  it("retries a SubjectAccessReview that returns 503", async () => {
    const { ask, script } = await start();
    const { review } = script;
    let failures = 1;
    script.review = (each) => {
      if (failures-- > 0) throw new KubeApiError({ code: 503, reason: "ServiceUnavailable" });
      return review(each);
    };
    expect(await ask(LOGS)).toMatchObject({ code: 200 });
  });

  it("authorizes the normalized path that it serves, however the request writes it", async () => {
    const { ask, script } = await start();
    const { review } = script;
    script.review = (each) =>
      each.kind === "TokenReview"
        ? review(each)
        : { allowed: (each.spec["resourceAttributes"] as { subresource: string }).subresource === "pods" }; // the review of a resource
    expect(await ask("/pods")).toMatchObject({ code: 200 });
    for (const path of [
      "/pods/../containerLogs/shop/web/main",
      "/pods/%2e%2e/containerLogs/shop/web/main",
      "/%63ontainerLogs/shop/web/main",
    ])
      expect(await ask(path), path).toMatchObject({ code: 403 });
    expect(await ask("/pods/..%2fcontainerLogs/shop/web/main")).toMatchObject({ code: 404 });
  });
});

describe("the paths", () => {
  it("returns 404 for unknown paths, and 405 for wrong methods", async () => {
    const { ask } = await start();
    for (const path of [
      "/",
      "/nothing",
      "/pods/x",
      "/exec/shop/web",
      "/exec/shop//main",
      "/containerLogs/shop/web/u1/main",
      "/configz/x",
      "/runningpods/x",
      "/healthz/other",
    ])
      expect(await ask(path), path).toMatchObject({ code: 404 });
    expect(await ask("/pods", { method: "POST" })).toMatchObject({ code: 405 });
    expect(await ask(LOGS, { method: "POST" })).toMatchObject({ code: 405 });
    expect(await ask(EXEC, { method: "PUT" })).toMatchObject({ code: 405 });
    expect(await ask("/exec/%ff/web/main")).toMatchObject({ code: 400 });
    expect(await ask("/run/shop/web/main?cmd=id")).toMatchObject({ code: 405 });
    expect(await ask("/portForward/shop/web/u1/main")).toMatchObject({ code: 404 });
  });

  it("/configz returns the agent's options, and /runningpods the pods in the runtime [node-agent 305] [node-agent 306]", async () => {
    const { ask } = await start();
    expect(JSON.parse((await ask("/configz")).body)).toEqual({ kubeletconfig: { kind: "KubeletConfiguration", maxPods: 110 } });
    for (const path of ["/runningpods", "/runningpods/"])
      expect(JSON.parse((await ask(path)).body), path).toEqual({ kind: "PodList", apiVersion: "v1", metadata: {}, items: [] });
    expect(await ask("/runningpods/", { method: "POST" })).toMatchObject({ code: 405 });
  });

  it("returns all statistics, or only CPU and memory [node-agent 308]", async () => {
    const { ask, script } = await start();
    const path = "/stats/summary";
    expect(await ask(path)).toEqual({ code: 200, body: '{"asked":{"onlyCpuAndMemory":false}}' });
    expect(await ask(path, { method: "POST" })).toMatchObject({ code: 200 });
    expect(await ask(`${path}?only_cpu_and_memory=true`)).toEqual({ code: 200, body: '{"asked":{"onlyCpuAndMemory":true}}' });
    expect(await ask("/stats/")).toMatchObject({ code: 404 });
    script.containerState = "unavailable";
    expect(await ask(path)).toEqual({ code: 500, body: "Internal Error: nobody answers" });
  });

  it("returns the agent's health", async () => {
    const { ask, script } = await start();
    expect(await ask("/healthz")).toEqual({ code: 200, body: "ok" });
    expect(await ask("/healthz?verbose")).toEqual({ code: 200, body: "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n" });
    script.lastLoopMs = Date.now() - 4 * MINUTE_MS;
    expect(await ask("/healthz/syncloop")).toEqual({ code: 200, body: "ok" });
    script.lastLoopMs -= 2 * MINUTE_MS;
    expect(await ask("/healthz/syncloop")).toEqual({ code: 500, body: "internal server error: sync Loop took longer than expected\n" });
    expect(await ask("/healthz")).toEqual({ code: 500, body: "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n" });
    expect(await ask("/healthz/ping")).toEqual({ code: 200, body: "ok" });
  });

  it("lists the pods with their statuses", async () => {
    const { ask } = await start();
    const { code, body } = await ask("/pods");
    expect([code, JSON.parse(body)]).toEqual([
      200,
      {
        kind: "PodList",
        apiVersion: "v1",
        metadata: {},
        items: [expect.objectContaining({ metadata: { name: "web", namespace: "shop", uid: "u1" } })],
      },
    ]);
  });
});

describe("the server", () => {
  it("creates a self-signed certificate for the node and its address", async () => {
    fixture = await startFixture();
    const socket = tlsConnect({ host: "127.0.0.1", port: fixture.port, rejectUnauthorized: false });
    await once(socket, "secureConnect");
    const { subjectaltname, subject } = socket.getPeerCertificate();
    socket.destroy();
    expect(subjectaltname).toBe("DNS:n1, IP Address:127.0.0.1");
    expect(subject.CN).toMatch(/^n1@\d+$/u);
  });

  it("reports the remedy if openssl is missing", async () => {
    const path = process.env["PATH"];
    process.env["PATH"] = "/nonexistent";
    try {
      await expect(startFixture()).rejects.toThrow(/--tls-cert-file and --tls-private-key-file\): command not found/u);
    } finally {
      process.env["PATH"] = path;
    }
  });

  it("reports that the port is in use", async () => {
    const { port } = await start();
    await expect(startFixture({ tls, port })).rejects.toThrow(`EADDRINUSE: address already in use 127.0.0.1:${port}`);
  });

  it("[node-agent 496] closes only a connection that pipelines an upgrade request after an unanswered request", async () => {
    const { port, ask, script } = await start();
    const { review } = script;
    const asked = Promise.withResolvers<void>();
    script.review = (one) => {
      if (one.spec["token"] !== "slow") return review(one);
      asked.resolve();
      return new Promise(() => undefined);
    };
    const socket = tlsConnect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    const closed = new Promise((resolve) => void socket.on("error", () => undefined).once("close", resolve));
    await once(socket, "secureConnect");
    const plain = "GET /pods HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer slow\r\n\r\n";
    socket.write(`${plain}GET /pods HTTP/1.1\r\nHost: n1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`);
    await asked.promise;
    await closed;
    expect((await ask("/healthz")).code).toBe(200);
  });

  it("closes every connection when it stops, whether idle, incomplete or streaming", async () => {
    const { port, open, stop } = await start();
    const raw = connect(port, "127.0.0.1");
    await once(raw, "connect");
    const idle = tlsConnect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    await once(idle, "secureConnect");
    const following = await open(`${LOGS}?follow=true`);
    const ends = [raw, idle, following].map(
      (each) => new Promise((resolve) => void each.on("error", () => undefined).once("close", resolve)),
    );
    await stop();
    following.resume();
    await expect(Promise.all(ends)).resolves.toHaveLength(3);
    await stop(); // a second stop has no effect
  });
});

describe("metrics", () => {
  it("[node-agent §15] two paths serve metrics to clients that may read nodes/metrics", async () => {
    const { ask, reviews } = await start();
    expect(await ask("/metrics")).toEqual({ code: 200, body: "figures 1\n" });
    expect(await ask("/metrics/resource")).toMatchObject({
      code: 200,
      body: expect.stringContaining("node_cpu_usage_seconds_total 2 1000\n"),
    });
    expect(reviews.flatMap(({ spec }) => spec["resourceAttributes"] ?? [])).toEqual([
      { verb: "get", version: "v1", resource: "nodes", subresource: "metrics", name: "n1" },
    ]);
    expect(await ask("/metrics/cadvisor")).toMatchObject({ code: 404 });
    expect(await ask("/metrics", { method: "POST" })).toMatchObject({ code: 405 });
  });
});
