/** kube-http against a server that misbehaves on purpose: silence, resets, truncated lines, unusual rejections, Retry-After. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { afterEach, expect, it, vi } from "vitest";

import { createClient } from "../../shared/kube/http/client.ts";
import { TokenInClearError, type KubeHttpConfig } from "../../shared/kube/http/config.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import {
  AnswerTooLargeError,
  isGone,
  isTooManyRequests,
  isUnanswered,
  KubeApiError,
  NotSentError,
  UnansweredError,
} from "../../shared/kube/client/errors.ts";
import { CALLS_AT_ONCE_MAX } from "../../shared/kube/client/kube.ts";
import type { WatchFrame } from "../../shared/kube/client/kube.ts";
import { retryBudgetUntil } from "../../shared/base/retry-budget.ts";
import type { RetryBudget } from "../../shared/base/retry-budget.ts";
import { VERSION } from "../../shared/base/version.ts";
import { POD_FIELDS } from "../../shared/kube/strip/pod-fields.ts";
import { encodeEvent, encodeList, encodeObject, framed } from "../support/protobuf-encoder.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** Uses the default timeouts, far above what a busy machine needs, except in tests of timeouts. */
async function stub(
  listener: RequestListener,
  options: Pick<KubeHttpConfig, "requestTimeoutMs" | "inactivityMs" | "waitMsMax" | "token"> = {},
): Promise<ReturnType<typeof createKubeHttp>> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return createKubeHttp({
    server: `http://127.0.0.1:${port}/k8s/clusters/c1/`,
    component: "replicaset",
    token: () => Promise.resolve("secret"),
    ...options,
  });
}

it.each([
  { server: "https://k8s:6443", refused: false },
  { server: "http://127.0.0.1:8080", refused: false },
  { server: "http://127.1:8080", refused: false },
  { server: "http://localhost:8080/k8s", refused: false },
  { server: "http://[::1]:8080", refused: false },
  { server: "http://k8s:8080", refused: true },
  { server: "http://10.0.0.1", refused: true },
  { server: "http://127.0.0.1.example.com", refused: true },
  { server: "http://localhost.example.com", refused: true },
  { server: "http://[::2]:8080", refused: true },
  { server: "http://0.0.0.0:8080", refused: true },
])("rejects a configuration with a token for $server: $refused", ({ server, refused }) => {
  const client = (token?: () => string) => () => createKubeHttp({ server, component: "replicaset", ...(token && { token }) });
  expect(client()).not.toThrow();
  if (refused) expect(client(() => "secret")).toThrow(TokenInClearError);
  else expect(client(() => "secret")).not.toThrow();
});

it("rejects an http:// server that would receive a token, without quoting the credentials in its URL", () => {
  const server = "http://user:hunter2@k8s:8080/path";
  expect(() => createKubeHttp({ server, component: "replicaset", token: () => "secret" })).toThrow(
    "http://k8s:8080 is neither encrypted nor on this machine, so no token is sent to it: use https://",
  );
});

const WATCH = { resourceVersion: "5", allowWatchBookmarks: true, timeoutSeconds: 300 };
const POD = { metadata: { name: "p", uid: "u", resourceVersion: "7" } };

it("sends user agent, credentials, impersonation and timeout", async () => {
  const seen: { readonly method: string | undefined; readonly url: string | undefined; readonly body: string }[] = [];
  const kube = await stub((request, response) => {
    expect(request.headers).toMatchObject({ authorization: "Bearer secret", "user-agent": `deltaloop/${VERSION} (replicaset)` });
    void readBody(request).then((body) => {
      seen.push({ method: request.method, url: request.url, body });
      json(response, 200, POD);
    });
  });
  await kube.get("pods", "shop", "p");
  await kube.create({ resource: "pods", namespace: "shop", body: { a: 1 } });
  await kube.patch({
    resource: "replicasets",
    namespace: "shop",
    name: "r",
    subresource: "status",
    type: "application/merge-patch+json",
    body: {},
  });
  await kube.delete({ resource: "pods", namespace: "shop", name: "p", preconditions: { uid: "u" } });
  await kube.get("namespaces", "", "kube-system");
  const base = "/k8s/clusters/c1";
  const writing = "?fieldManager=deltaloop-replicaset&timeout=12s";
  expect(seen).toEqual([
    { method: "GET", url: `${base}/api/v1/namespaces/shop/pods/p?timeout=12s`, body: "" },
    { method: "POST", url: `${base}/api/v1/namespaces/shop/pods${writing}`, body: '{"a":1}' },
    { method: "PATCH", url: `${base}/apis/apps/v1/namespaces/shop/replicasets/r/status${writing}`, body: "{}" },
    {
      method: "DELETE",
      url: `${base}/api/v1/namespaces/shop/pods/p?timeout=12s`,
      body: '{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"}}',
    },
    { method: "GET", url: `${base}/api/v1/namespaces/kube-system?timeout=12s`, body: "" },
  ]);
});

it("passes the token that was last rejected with 401 to the token source, for calls and watches", async () => {
  const asked: (string | undefined)[] = [];
  const tokens = ["one", "two", "three"];
  let good = "two";
  const kube = await stub(
    (request, response) => {
      if (request.headers.authorization === `Bearer ${good}`) json(response, 200, POD);
      else json(response, 401, { kind: "Status", code: 401, reason: "Unauthorized" });
    },
    {
      token: (refused) => {
        asked.push(refused);
        if (refused === tokens[0]) tokens.shift();
        return tokens[0] ?? "";
      },
    },
  );
  const get = (): Promise<unknown> => kube.get("pods", "shop", "p");
  const watch = async (): Promise<void> => {
    for await (const _lines of kube.watch("pods", WATCH, new AbortController().signal));
  };
  expect(await failure(get())).toMatchObject({ code: 401, reason: "Unauthorized" });
  await get();
  good = "three";
  expect(await failure(watch())).toMatchObject({ code: 401 });
  await watch();
  expect(asked).toEqual([undefined, "one", "one", "two"]);
});

it("KL1 sends a watcher's list and watch with the caller's parameters only", async () => {
  const urls: (string | undefined)[] = [];
  const kube = await stub((request, response) => {
    urls.push(request.url);
    json(response, 200, { metadata: { resourceVersion: "5" }, items: null });
  });
  const signal = new AbortController().signal;
  expect(await kube.listPage("pods", {}, signal)).toEqual({ resourceVersion: "5", items: [] });
  await kube.listPage("deployments", { limit: 500, resourceVersion: "10", resourceVersionMatch: "NotOlderThan" }, signal);
  for await (const _lines of kube.watch("pods", WATCH, signal));
  expect(urls).toEqual([
    "/k8s/clusters/c1/api/v1/pods",
    "/k8s/clusters/c1/apis/apps/v1/deployments?limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan",
    "/k8s/clusters/c1/api/v1/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=300",
  ]);
});

it("KC1 derives a reason for an error response without a Status, and keeps Retry-After", async () => {
  const listener: RequestListener = (_request, response) => void response.writeHead(429, { "retry-after": "7" }).end("slow down");
  const kube = await stub(listener, { waitMsMax: 6_999 });
  const error = await failure(kube.get("pods", "shop", "p"));
  expect(isTooManyRequests(error)).toBe(true);
  expect(error).toMatchObject({ reason: "TooManyRequests", retryAfterSeconds: 7 });
});

it("KC2 restarts a list whose continue token expired, without mixing snapshots", async () => {
  let lists = 0;
  const kube = await stub((request, response) => {
    const token = new URL(request.url ?? "", "http://x").searchParams.get("continue");
    if (token === "old") return json(response, 410, { kind: "Status", code: 410, reason: "Expired" });
    if (token === "new") return json(response, 200, { metadata: { resourceVersion: "9" }, items: [POD] });
    lists++;
    json(response, 200, { metadata: { resourceVersion: "8", continue: lists === 1 ? "old" : "new" }, items: [POD] });
  });
  expect((await kube.list("pods", "shop")).items).toHaveLength(2);
  expect(lists).toBe(2);
});

it("KC2 fails at once if a list is rejected for another reason", async () => {
  let lists = 0;
  const kube = await stub((_request, response) => {
    lists++;
    json(response, 403, { kind: "Status", code: 403, reason: "Forbidden" });
  });
  expect(await failure(kube.list("pods", "shop"))).toMatchObject({ code: 403 });
  expect(lists).toBe(1);
});

it("KC3 KW2 reports a call without a complete response as unanswered", async () => {
  const kube = await stub(
    (request, response) => {
      if (request.method === "GET") response.writeHead(200).write('{"metadata":');
    },
    { requestTimeoutMs: 200 },
  );
  const startedAt = performance.now();
  for (const call of [kube.create({ resource: "pods", namespace: "shop", body: {} }), kube.get("pods", "shop", "p")]) {
    expect(isUnanswered(await failure(call))).toBe(true);
  }
  expect(performance.now() - startedAt).toBeLessThan(3_000);
});

/** Sends data until the client has read enough and disconnects. */
function withoutEnd(response: ServerResponse): void {
  const chunk = Buffer.alloc(1024 * 1024, "secret");
  response.writeHead(200, { "content-type": "application/json" });
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on("drain", more);
  more();
}

it("KC6 [informer T112] aborts an endless response at 64 MiB, reports the call without quoting the response, and does not retry", async () => {
  let [calls, closed] = [0, 0];
  const kube = await stub((_, response) => {
    calls++;
    response.once("close", () => closed++);
    withoutEnd(response);
  });
  for (const call of [() => kube.get("pods", "shop", "p"), () => kube.create({ resource: "pods", namespace: "shop", body: {} })]) {
    const error = await failure(call());
    expect(error).toBeInstanceOf(AnswerTooLargeError);
    expect(isUnanswered(error)).toBe(true); // a write may have been executed
    expect(String(error)).toMatch(/the response to (GET|POST) \/api\/v1\/namespaces\/shop\/pods(\/p)? is larger than 67108864 bytes$/);
  }
  expect(calls).toBe(2);
  await vi.waitFor(() => expect(closed).toBe(2));
});

it("KC6 [informer T112] reads a list whose pages are too large completely in smaller pages", async () => {
  const limits: number[] = [];
  const kube = await stub((request, response) => {
    const { searchParams } = new URL(request.url ?? "", "http://server");
    limits.push(Number(searchParams.get("limit")));
    if (limits.length < 3) withoutEnd(response);
    else if (searchParams.has("continue")) json(response, 200, { metadata: { resourceVersion: "7" }, items: [POD] });
    else json(response, 200, { metadata: { resourceVersion: "7", continue: "next" }, items: [POD, POD] });
  });
  expect((await kube.list("pods", "shop")).items).toHaveLength(3);
  expect(limits).toEqual([500, 250, 125, 125]);
});

it("KW2 KW3 reports a write on a reset connection as unanswered, and does not send it again", async () => {
  let calls = 0;
  const kube = await stub((request) => {
    calls++;
    request.socket.destroy();
  });
  expect(await failure(kube.create({ resource: "pods", namespace: "shop", body: {} }))).toBeInstanceOf(UnansweredError);
  expect(calls).toBe(1);
});

it("KW1 keeps the causes of a Status", async () => {
  const causes = [{ reason: "NamespaceTerminating", message: "going", field: "metadata.namespace" }];
  const kube = await stub((_request, response) => {
    json(response, 403, {
      kind: "Status",
      status: "Failure",
      code: 403,
      reason: "Forbidden",
      message: "no",
      details: { causes, retryAfterSeconds: 2 },
    });
  });
  const error = await failure(kube.create({ resource: "pods", namespace: "shop", body: {} }));
  expect(error).toMatchObject({ code: 403, reason: "Forbidden", message: "no", retryAfterSeconds: 2, causes });
});

it("returns no object for a delete whose response is a Status", async () => {
  const kube = await stub((_request, response) => json(response, 200, { kind: "Status", status: "Success" }));
  expect(await kube.delete({ resource: "replicasets", namespace: "shop", name: "r", preconditions: { uid: "u" } })).toBeUndefined();
});

it("passes the head of each response to the caller, including error responses", async () => {
  const server = createServer((_, response) => response.writeHead(403, { date: "Sun, 01 Mar 2026 10:00:00 GMT" }).end("{}"));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const dates: (string | undefined)[] = [];
  const client = createClient({ server: `http://127.0.0.1:${port}`, component: "doctor" });
  const call = client.json({ method: "GET", path: "/version", onHead: ({ date }) => void dates.push(date) });
  await expect(call).rejects.toThrow(KubeApiError);
  expect(dates).toEqual(["Sun, 01 Mar 2026 10:00:00 GMT"]);
});

it("KL2 throws a KubeApiError for an error Status in the body of a 200, for a list and for a watch", async () => {
  const kube = await stub((_request, response) =>
    json(response, 200, { kind: "Status", status: "Failure", code: 410, reason: "Expired" }, "\n"),
  );
  const signal = new AbortController().signal;
  expect(isGone(await failure(kube.listPage("pods", {}, signal)))).toBe(true);
  expect(isGone(await failure(drain(kube.watch("pods", WATCH, signal))))).toBe(true);
});

it("KL2 throws a KubeApiError for an HTTP error status code", async () => {
  const kube = await stub((_request, response) => json(response, 403, { kind: "Status", code: 403, reason: "Forbidden" }));
  expect(await failure(drain(kube.watch("pods", WATCH, new AbortController().signal)))).toBeInstanceOf(KubeApiError);
});

const PODS = ["a", "b"].map((name) => ({
  metadata: { name, namespace: "shop", uid: name, resourceVersion: "7" },
  spec: { hostname: "skipped" },
}));
const READ = PODS.map(({ metadata }) => ({ metadata: expect.objectContaining(metadata) }));

/** Serves protobuf to a client that accepts it, as an API server does. */
function protobuf(response: ServerResponse, code: number, bytes: Buffer, type = ""): void {
  response.writeHead(code, { "content-type": `application/vnd.kubernetes.protobuf${type}` }).end(bytes);
}

it("KL9 asks for protobuf first when the caller names the fields, and only then", async () => {
  const accepted: unknown[] = [];
  const kube = await stub((request, response) => {
    accepted.push(request.headers.accept);
    json(response, 200, { metadata: { resourceVersion: "9" }, items: PODS });
  });
  const signal = new AbortController().signal;
  expect((await kube.listPage("pods", { fields: POD_FIELDS }, signal)).items).toEqual(PODS);
  await kube.listPage("pods", {}, signal);
  await kube.newestVersion("pods", {}, signal);
  await drain(kube.watch("pods", { ...WATCH, fields: POD_FIELDS }, signal));
  const both = "application/vnd.kubernetes.protobuf,application/json";
  expect(accepted).toEqual([both, "application/json", "application/json", both]);
});

it("KL9 decodes a page of protobuf to the caller's fields", async () => {
  const kube = await stub((_request, response) =>
    protobuf(response, 200, encodeList("Pod", { resourceVersion: "9", continue: "next" }, PODS)),
  );
  const page = await kube.listPage("pods", { fields: POD_FIELDS }, new AbortController().signal);
  expect(page).toMatchObject({ resourceVersion: "9", continue: "next", items: READ });
  expect(JSON.stringify(page)).not.toContain("skipped");
});

it("KL9 yields the frames of a protobuf stream as they arrive, and drops a partial one at its end", async () => {
  const events = PODS.map((pod) => encodeEvent("ADDED", "Pod", pod));
  const kube = await stub((_request, response) => {
    const bytes = Buffer.concat([...events.map(framed), Buffer.from([0, 0, 1])]);
    response.writeHead(200, { "content-type": "application/vnd.kubernetes.protobuf;stream=watch" }).write(bytes.subarray(0, 9));
    setTimeout(() => response.end(bytes.subarray(9)), 30);
  });
  const groups = await drain(kube.watch("pods", { ...WATCH, fields: POD_FIELDS }, new AbortController().signal));
  expect(groups.flat()).toEqual(events);
});

it("KL2 reads a rejection in protobuf", async () => {
  const status = { status: "Failure", code: 410, reason: "Expired", message: "too old", details: { retryAfterSeconds: 3 } };
  const kube = await stub((_request, response) => protobuf(response, 410, encodeObject("Status", status)));
  const signal = new AbortController().signal;
  for (const refused of [
    kube.listPage("pods", { fields: POD_FIELDS }, signal),
    drain(kube.watch("pods", { ...WATCH, fields: POD_FIELDS }, signal)),
  ])
    expect(await failure(refused)).toMatchObject({ code: 410, reason: "Expired", message: "too old", retryAfterSeconds: 3 });
});

it("KL9 reports protobuf that cannot be decoded as no response of an API server, and a rejection by its code", async () => {
  let code = 200;
  const kube = await stub((_request, response) => protobuf(response, code, Buffer.from("<html>")));
  const page = (): Promise<unknown> => failure(kube.listPage("pods", { fields: POD_FIELDS }, new AbortController().signal));
  expect(await page()).toMatchObject({ name: "NotKubernetesError", cause: { name: "MalformedProtobufError" } });
  code = 403;
  expect(await page()).toMatchObject({ code: 403, reason: "Forbidden" });
});

it("KL3 groups whole lines as they arrived, and drops the partial tail [informer T23]", async () => {
  const kube = await stub((_request, response) => {
    const bytes = Buffer.from('{"a":"🙂"}\n{"b":1}\n{"c":"ü"}\n{"torn');
    const inSmile = bytes.indexOf(0xf0) + 2;
    response.writeHead(200).write(bytes.subarray(0, inSmile));
    setTimeout(() => response.write(bytes.subarray(inSmile, inSmile + 14)), 30);
    setTimeout(() => response.end(bytes.subarray(inSmile + 14)), 60);
  });
  expect(await drain(kube.watch("pods", WATCH, new AbortController().signal))).toEqual([['{"a":"🙂"}', '{"b":1}'], ['{"c":"ü"}']]);
});

it("KL4 yields the complete lines of a broken connection, and then reports it as unanswered", async () => {
  const kube = await stub((request, response) => {
    response.writeHead(200).write('{"a":1}\n{"to');
    setTimeout(() => request.socket.destroy(), 30);
  });
  const groups: (readonly WatchFrame[])[] = [];
  const broken = failure(drain(kube.watch("pods", WATCH, new AbortController().signal), groups));
  expect(await broken).toBeInstanceOf(UnansweredError);
  expect(groups).toEqual([['{"a":1}']]);
});

it("KL5 aborts a silent stream, and restarts the timer with every chunk [informer T20] [informer T21]", async () => {
  const kube = await stub(
    (_request, response) => {
      response.writeHead(200).flushHeaders();
      for (const delay of [250, 500, 750]) setTimeout(() => response.write('{"a":1}\n'), delay);
    },
    { inactivityMs: 600 },
  );
  const groups: (readonly WatchFrame[])[] = [];
  expect(await failure(drain(kube.watch("pods", WATCH, new AbortController().signal), groups))).toBeInstanceOf(UnansweredError);
  expect(groups).toHaveLength(3);
});

it("KL5 ends a watch after 100 s of silence by default [informer T20] [informer T21]", async () => {
  const kube = await stub((_request, response) => void response.writeHead(200).write('{"a":1}\n'));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const stream = kube.watch("pods", WATCH, new AbortController().signal)[Symbol.asyncIterator]();
    expect(await stream.next()).toEqual({ done: false, value: ['{"a":1}'] });
    let ended: unknown;
    const ending = failure(Promise.resolve(stream.next())).then((error) => (ended = error));
    await vi.advanceTimersByTimeAsync(99_999);
    expect(ended).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(await ending).toMatchObject({ message: "no data for 100000 ms" });
  } finally {
    vi.useRealTimers();
  }
});

it("KL6 closes the connection on an abort, even while no line is requested", async () => {
  let closed: Promise<void> | undefined;
  const kube = await stub((request, response) => {
    closed = new Promise((resolve) => request.socket.once("close", () => resolve()));
    response.writeHead(200).write('{"a":1}\n');
  });
  const controller = new AbortController();
  const stream = kube.watch("pods", WATCH, controller.signal)[Symbol.asyncIterator]();
  expect(await stream.next()).toEqual({ done: false, value: ['{"a":1}'] });
  controller.abort(new Error("enough"));
  await closed;
  expect(await failure(Promise.resolve(stream.next()))).toMatchObject({ message: "enough" });
});

it("drains a stream without a reader, and delivers everything to a slow reader", async () => {
  let drained: (() => void) | undefined;
  const allSent = new Promise<void>((resolve) => {
    drained = resolve;
  });
  const line = `${JSON.stringify({ text: "x".repeat(1023 * 64) })}\n`;
  const kube = await stub((_request, response) => {
    response.writeHead(200);
    for (let index = 0; index < 256; index++) response.write(line);
    response.end(() => drained?.());
  });
  const stream = kube.watch("pods", WATCH, new AbortController().signal)[Symbol.asyncIterator]();
  let count = (await stream.next()).value.length;
  await allSent;
  for (let group = await stream.next(); group.done !== true; group = await stream.next()) count += group.value.length;
  expect(count).toBe(256);
});

/** Rejects each path the given number of times, then responds normally. */
function refusing(times: number, refuse: (response: ServerResponse) => void): RequestListener & { readonly calls: () => number } {
  let calls = 0;
  const listener: RequestListener = (_request, response) => (calls++ < times ? refuse(response) : json(response, 200, POD));
  return Object.assign(listener, { calls: () => calls });
}

const busy = (code: number, retryAfter: string) => (response: ServerResponse) =>
  void response.writeHead(code, { "retry-after": retryAfter }).end("busy");
const CREATE = { resource: "pods", namespace: "shop", body: { a: 1 } } as const;

it("KC4 KW3 retries every verb after a 429, and after a 5xx with Retry-After", async () => {
  for (const code of [429, 500, 503]) {
    const listener = refusing(2, busy(code, "0"));
    const kube = await stub(listener);
    await kube.create(CREATE);
    expect(listener.calls(), String(code)).toBe(3);
  }
  const target = { resource: "pods", namespace: "shop", name: "p" } as const;
  const verbs: Readonly<Record<string, (kube: Awaited<ReturnType<typeof stub>>) => Promise<unknown>>> = {
    get: (kube) => kube.get("pods", "shop", "p"),
    patch: (kube) => kube.patch({ ...target, type: "application/merge-patch+json", body: {} }),
    delete: (kube) => kube.delete({ ...target, preconditions: { uid: "u" } }),
    replace: (kube) => kube.replace({ ...target, body: {} }),
  };
  for (const [verb, call] of Object.entries(verbs)) {
    const listener = refusing(1, busy(429, "0"));
    await call(await stub(listener));
    expect(listener.calls(), verb).toBe(2);
  }
});

it("KC4 retries with the same body after the requested delay", async () => {
  const bodies: string[] = [];
  const atMs: number[] = [];
  const kube = await stub((request, response) => {
    atMs.push(performance.now());
    void readBody(request).then((body) => {
      bodies.push(body);
      if (bodies.length === 1) busy(429, "1")(response);
      else json(response, 200, POD);
    });
  });
  await kube.create(CREATE);
  expect(bodies).toEqual(['{"a":1}', '{"a":1}']);
  expect((atMs[1] ?? 0) - (atMs[0] ?? 0)).toBeGreaterThanOrEqual(990);
});

it("KC4 gives up after ten retries with the last response, and immediately without a Retry-After", async () => {
  const always = refusing(Infinity, busy(429, "0"));
  expect(isTooManyRequests(await failure((await stub(always)).create(CREATE)))).toBe(true);
  expect(always.calls()).toBe(11);
  const plain = refusing(Infinity, (response) => void response.writeHead(503).end());
  expect(await failure((await stub(plain)).create(CREATE))).toMatchObject({ code: 503 });
  expect(plain.calls()).toBe(1);
});

it("KC4 retries a read whose connection is reset", async () => {
  const listener = refusing(1, (response) => void response.socket?.destroy());
  await (await stub(listener)).get("pods", "shop", "p");
  expect(listener.calls()).toBe(2);
});

it("KC4 KW3 does not start a retry after its retry budget ends, even during the wait", async () => {
  const listener = refusing(Infinity, busy(429, "1"));
  const kube = await stub(listener);
  const tooShort = retryBudgetUntil(Date, Date.now() + 900);
  expect(isTooManyRequests(await failure(kube.create({ ...CREATE, retryBudget: tooShort })))).toBe(true);
  expect(listener.calls()).toBe(1);
  let asked = 0;
  const lost: RetryBudget = { waitMsMax: () => 60_000, mayStart: () => ++asked === 1 };
  expect(isTooManyRequests(await failure(kube.create({ ...CREATE, retryBudget: lost })))).toBe(true);
  expect(listener.calls()).toBe(2);
});

it("KW3 KW4 does not send a write after its sender's deadline, but sends a read", async () => {
  const listener = refusing(0, () => {});
  const kube = await stub(listener);
  const over: RetryBudget = { waitMsMax: () => 0, mayStart: () => false };
  const error = await failure(kube.create({ ...CREATE, retryBudget: over }));
  expect([error instanceof NotSentError, isUnanswered(error)]).toEqual([true, false]);
  await kube.get("pods", "shop", "p", { retryBudget: over });
  expect(listener.calls()).toBe(1);
});

it("KW2 KW3 reports an error that follows a retried 5xx as unanswered", async () => {
  let calls = 0;
  const kube = await stub((_request, response) => {
    if (++calls === 1) busy(500, "0")(response);
    else json(response, 403, { kind: "Status", code: 403, reason: "Forbidden" });
  });
  const error = await failure(kube.create(CREATE));
  expect(error).toMatchObject({ code: 403, earlierUnanswered: true });
  expect(isUnanswered(error)).toBe(true);
  const refused = await stub(refusing(1, busy(429, "0")));
  await refused.create(CREATE);
  const twice = await stub(refusing(Infinity, busy(429, "0")));
  expect(isUnanswered(await failure(twice.create(CREATE)))).toBe(false);
});

it("KC3 starts a request's timeout when it is sent, not while it waits for a connection", async () => {
  const kube = await stub((_request, response) => void setTimeout(() => json(response, 200, POD), 150), { requestTimeoutMs: 1_000 });
  const calls = Array.from({ length: 10 * CALLS_AT_ONCE_MAX }, () => kube.get("pods", "shop", "p"));
  // Ten rounds of 150 ms, so that the last calls start later than their own timeout.
  expect(await Promise.allSettled(calls).then((all) => all.filter(({ status }) => status === "rejected"))).toEqual([]);
});

it("KC5 KW4 throws NotSentError when a call never got a connection", async () => {
  let calls = 0;
  const kube = await stub(() => void calls++);
  const stuck = Array.from({ length: CALLS_AT_ONCE_MAX }, () =>
    failure(kube.create({ ...CREATE, retryBudget: { ...retryBudgetUntil(Date, Infinity), requestTimeoutMs: 1_500 } })),
  );
  await expect.poll(() => calls).toBe(CALLS_AT_ONCE_MAX);
  const error = await failure(kube.create({ ...CREATE, retryBudget: retryBudgetUntil(Date, Date.now() + 100) }));
  expect(error).toBeInstanceOf(NotSentError);
  expect(isUnanswered(error)).toBe(false);
  await Promise.all(stuck);
  expect(calls).toBe(CALLS_AT_ONCE_MAX);
});

it("KC5 limits the wait for credentials", async () => {
  const kube = createKubeHttp({ server: "http://127.0.0.1:1", component: "replicaset", token: () => new Promise(() => {}), waitMsMax: 50 });
  expect(await failure(kube.create(CREATE))).toBeInstanceOf(NotSentError);
});

it("KL7 retries a page but not a watch, and ends the wait on an abort", async () => {
  const page = { metadata: { resourceVersion: "5" }, items: [] };
  let calls = 0;
  const kube = await stub((_request, response) => (++calls === 1 ? busy(429, "0")(response) : json(response, 200, page)));
  await kube.listPage("pods", {}, new AbortController().signal);
  expect(calls).toBe(2);
  const refused = refusing(Infinity, busy(429, "30"));
  const other = await stub(refused);
  expect(isTooManyRequests(await failure(drain(other.watch("pods", WATCH, new AbortController().signal))))).toBe(true);
  expect(refused.calls()).toBe(1);
  const stop = new AbortController();
  const waiting = failure(other.listPage("pods", {}, stop.signal));
  await expect.poll(() => refused.calls()).toBe(2);
  stop.abort(new Error("enough"));
  expect(await waiting).toMatchObject({ message: "enough" });
});

async function drain(
  stream: AsyncIterable<readonly WatchFrame[]>,
  groups: (readonly WatchFrame[])[] = [],
): Promise<readonly (readonly WatchFrame[])[]> {
  for await (const lines of stream) groups.push([...lines]);
  return groups;
}

function json(response: ServerResponse, code: number, body: object, end = ""): void {
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body) + end);
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => expect.unreachable("the call should have failed"),
    (error: unknown) => error,
  );
}
