// Would catch: pods that end because a server was unavailable or sent invalid data; a partially accepted list; a header or password that is
// logged or sent to another server; and an endless response that blocks the source forever.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createSecureServer } from "node:http2";
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { podsOf, runUrlSource } from "../../../../shared/node-agent/sources/url-source.ts";
import { createPki } from "../../../envtest/pki.ts";
import { recordingLog } from "../../recording-log.ts";

const pod = (name: string, image = "registry.test/web:v1"): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [{ name: "main", image }] },
});
const list = (...items: readonly object[]): string => JSON.stringify({ apiVersion: "v1", kind: "PodList", items });
const PERIOD_MS = 20_000;
const SECRET = "hunter2";

type Answer = (response: ServerResponse, request: IncomingMessage) => void;
const text =
  (body: string, status = 200): Answer =>
  (response) =>
    void response.writeHead(status).end(body);

let servers: Server[] = [];
let stop = new AbortController();
let running: Promise<void> = Promise.resolve();
beforeEach(() => {
  servers = [];
  stop = new AbortController();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  stop.abort();
  await running;
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

interface Serving {
  answer: Answer;
  readonly requests: IncomingMessage[];
  readonly port: number;
  close(): void;
}

async function serve(answer: Answer): Promise<Serving> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    serving.answer(response, request);
  });
  servers.push(server);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  const serving: Serving = { answer, requests, port, close };
  return serving;
}

function start(url: string, headers: readonly (readonly [string, string])[] = []) {
  const clock = createVirtualClock(0);
  const log = recordingLog();
  const lists: (readonly NodePod[])[] = [];
  running = runUrlSource({ url, headers, nodeName: "n1", emit: (pods) => void lists.push(pods), log, clock }, stop.signal);
  const settled = (): Promise<void> =>
    vi.waitFor(() => expect(clock.nextDueMs()).toBe(clock.now() + PERIOD_MS), { interval: 2, timeout: 10_000 });
  return {
    clock,
    log,
    settled,
    names: () => lists.map((pods) => pods.map(({ metadata }) => metadata.name)),
    troubles: () => log.lines.filter(({ level }) => level === "warn").map(({ fields }) => String(fields["error"])),
    async period(): Promise<void> {
      await clock.advance(PERIOD_MS);
      await settled();
    },
  };
}

describe("the HTTP source", () => {
  it("[node-agent 64a] reads every 20 s with its headers, and delivers only changes", async () => {
    const serving = await serve(text(JSON.stringify(pod("web"))));
    const source = start(`http://127.0.0.1:${serving.port}/pods`, [["X-Token", SECRET]]);
    await source.settled();
    expect(serving.requests[0]?.headers["x-token"]).toBe(SECRET);
    await source.clock.advance(PERIOD_MS - 1);
    expect(serving.requests).toHaveLength(1);
    await source.clock.advance(1);
    await source.settled();
    expect(serving.requests).toHaveLength(2);
    serving.answer = text(list(pod("web"), pod("db")));
    await source.period();
    expect(source.names()).toEqual([["web-n1"], ["web-n1", "db-n1"]]);
    expect(source.log.lines).toEqual([]);
    serving.answer = text(
      JSON.stringify({ ...pod("web"), spec: { priority: 5, containers: [{ name: "main", image: "registry.test/web:v1" }] } }),
    );
    await source.period();
    await source.period();
    expect(source.log.lines.map(({ fields }) => fields["pod"])).toEqual(["default/web-n1"]);
  });

  it.each([
    ["a status other than 200", text("{}", 404), "the server responded with status 404"],
    ["a body that is neither JSON nor YAML", text("{["), "manifest at http://127.0.0.1"],
    ["an object of another kind", text('{"apiVersion":"apps/v1","kind":"Deployment"}'), "expected apiVersion v1 and kind Pod"],
    ["one invalid pod of two", text(list(pod("web"), { metadata: {} })), "item 2 of 2: manifest at"],
    ["a list without items", text('{"apiVersion":"v1","kind":"PodList","items":5}'), "not a v1 PodList"],
    ["more than 1 MiB", text(" ".repeat(2 ** 20 + 1)), "larger than 1 MiB"],
    ["a broken connection", ((response) => void response.destroy()) satisfies Answer, "no response from 127.0.0.1"],
    ["endless redirects", ((response) => void response.writeHead(302, { location: "/again" }).end()) satisfies Answer, "more than 10"],
    [
      "a redirect to a file",
      ((response) => void response.writeHead(302, { location: "file:///etc/passwd" }).end()) satisfies Answer,
      "neither",
    ],
  ])(
    "[node-agent 64a] a failure (%s) changes no pod, and is logged once when it begins and once when it ends",
    async (_what, answer, problem) => {
      const serving = await serve(text(JSON.stringify(pod("web"))));
      const source = start(`http://127.0.0.1:${serving.port}/pods?key=${SECRET}`);
      await source.settled();
      serving.answer = answer;
      await source.period();
      await source.period();
      expect(source.troubles()).toEqual([expect.stringContaining(problem)]);
      serving.answer = text(JSON.stringify(pod("web", "registry.test/web:v2")));
      await source.period();
      expect(source.names()).toEqual([["web-n1"], ["web-n1"]]);
      expect(source.log.lines.at(-1)).toMatchObject({ level: "info", message: "reading manifests succeeded after an error" });
      expect(JSON.stringify(source.log.lines)).not.toContain(SECRET);
    },
  );

  it("[node-agent 64a] treats an empty response as an empty list and an error, and accepts the previous manifest again afterwards", async () => {
    const serving = await serve(text(""));
    const source = start(`http://127.0.0.1:${serving.port}/`);
    await source.settled();
    expect(source.names()).toEqual([[]]);
    expect(source.troubles()).toEqual([expect.stringContaining("the response is empty")]);
    for (const body of [JSON.stringify(pod("web")), "", JSON.stringify(pod("web"))]) {
      serving.answer = text(body);
      await source.period();
    }
    expect(source.names()).toEqual([[], ["web-n1"], [], ["web-n1"]]);
  });

  it("logs an unavailable server, and delivers nothing", async () => {
    const serving = await serve(text(JSON.stringify(pod("web"))));
    serving.close();
    const source = start(`http://127.0.0.1:${serving.port}/`);
    await source.settled();
    expect([source.names(), source.troubles()]).toEqual([[], [expect.stringContaining("ECONNREFUSED")]]);
  });

  it.each([
    ["headers", (() => undefined) satisfies Answer],
    ["a complete body", ((response) => void response.writeHead(200).write("apiVersion: v1")) satisfies Answer],
  ])("[node-agent 64a] abandons a response without %s after 10 s", async (_what, answer) => {
    const serving = await serve(answer);
    const source = start(`http://127.0.0.1:${serving.port}/`);
    await vi.waitFor(() => expect(serving.requests).toHaveLength(1), { interval: 2 });
    await source.clock.advance(9_999);
    expect(source.troubles()).toEqual([]);
    await source.clock.advance(1);
    await source.settled();
    expect(source.troubles()).toEqual(["no complete response within 10 s"]);
  });

  it("sends user and password unless a header replaces them, does not log them, and sends them only to the URL's origin", async () => {
    const elsewhere = await serve(text(JSON.stringify(pod("web"))));
    const serving = await serve((response, { url }) =>
      url === "/pods"
        ? void response.writeHead(307, { location: "/moved" }).end()
        : void response.writeHead(302, { location: `http://me:${SECRET}@127.0.0.1:${elsewhere.port}/` }).end(),
    );
    const source = start(`http://me:${SECRET}@127.0.0.1:${serving.port}/pods`, [["X-Token", SECRET]]);
    await source.settled();
    const basic = `Basic ${Buffer.from(`me:${SECRET}`).toString("base64")}`;
    expect(serving.requests.map(({ headers }) => [headers.authorization, headers["x-token"]])).toEqual([
      [basic, SECRET],
      [basic, SECRET],
    ]);
    expect(elsewhere.requests.map(({ headers }) => [headers.authorization, headers["x-token"]])).toEqual([[undefined, undefined]]);
    expect(source.names()).toEqual([["web-n1"]]);
    elsewhere.answer = text("", 500);
    await source.period();
    expect(JSON.stringify(source.log.lines)).not.toContain(SECRET);
  });
});

/** The expected behaviour is that of Go's http.DefaultTransport, which upstream uses. */
describe("the HTTP source behind a proxy", () => {
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

  it("reads http:// URLs through HTTP_PROXY, with separate credentials for proxy and server", async () => {
    const proxy = await serve(text(JSON.stringify(pod("web"))));
    vi.stubEnv("HTTP_PROXY", `http://proxy:${SECRET}@127.0.0.1:${proxy.port}`);
    const source = start("http://me:mine@manifests.test:81/pods?a=b");
    await source.settled();
    expect(proxy.requests.map(({ url, headers }) => [url, headers.host, headers["proxy-authorization"], headers.authorization])).toEqual([
      ["http://manifests.test:81/pods?a=b", "manifests.test:81", basic(`proxy:${SECRET}`), basic("me:mine")],
    ]);
    expect(source.names()).toEqual([["web-n1"]]);
  });

  it("reads https:// URLs through the tunnel of HTTPS_PROXY, even over HTTP/2", async () => {
    const folder = mkdtempSync(join(tmpdir(), "url-source-"));
    const pki = await createPki(folder);
    const { certificate: cert, key } = await pki.serverCertificate();
    const server = createSecureServer({ cert, key }, ({ httpVersion }, response) =>
      response.end(JSON.stringify(pod(`over-http-${httpVersion.at(0)}`))),
    );
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
    const proxy = await serve(text("", 500));
    const asked: (string | undefined)[] = [];
    servers[0]?.on("connect", ({ url, headers }, socket) => {
      asked.push(url, headers["proxy-authorization"]);
      const tunnel = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
      tunnel.pipe(socket.on("error", () => undefined)).pipe(tunnel.on("error", () => undefined));
    });
    vi.stubEnv("HTTPS_PROXY", `http://proxy:${SECRET}@127.0.0.1:${proxy.port}`);
    const known = getCACertificates("default");
    setDefaultCACertificates([cert]); // the server's own certificate is a trust anchor, as in Go
    try {
      const source = start("https://kubernetes.default.svc/pods");
      await source.settled();
      expect([source.troubles(), source.names()]).toEqual([[], [["over-http-2-n1"]]]);
      expect(asked).toEqual(["kubernetes.default.svc:443", basic(`proxy:${SECRET}`)]);
    } finally {
      setDefaultCACertificates(known);
      server.close();
      rmSync(folder, { recursive: true });
    }
  });

  it("does not use a proxy for a host in NO_PROXY", async () => {
    const proxy = await serve(text(JSON.stringify(pod("web"))));
    vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${proxy.port}`);
    vi.stubEnv("NO_PROXY", ".test");
    const source = start("http://manifests.test/pods");
    await source.settled();
    expect([proxy.requests, source.names()]).toEqual([[], []]);
  });
});

describe("[node-agent 65] static pods of a URL", () => {
  const uidOf = (name: string, url: string, node = "n1"): string | undefined =>
    podsOf(JSON.stringify(pod(name)), url, node)[0]?.metadata.uid;
  const URL_1 = "http://127.0.0.1/one";

  it("static pods from a URL have the same UID on every node, and a different UID for a different URL", () => {
    expect(uidOf("web", URL_1)).toMatch(/^[0-9a-f]{32}$/);
    expect(uidOf("web", URL_1, "n2")).toBe(uidOf("web", URL_1));
    expect(uidOf("web", "http://127.0.0.1/two")).not.toBe(uidOf("web", URL_1));
    expect(uidOf("db", URL_1)).not.toBe(uidOf("web", URL_1));
  });

  it("static pods from a URL get the API's defaults, even in a list, but not the NoExecute toleration of pods from files", () => {
    const [{ spec } = { spec: undefined }] = podsOf(
      list({ metadata: { name: "web" }, spec: { containers: [{ name: "c", image: "i" }] } }),
      URL_1,
      "n1",
    );
    expect(spec).toMatchObject({ restartPolicy: "Always", nodeName: "n1" });
    expect(spec?.tolerations).toBeUndefined();
  });
});
