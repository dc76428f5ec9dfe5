/** The prober against servers that misbehave on purpose. */
import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import type { Socket as DatagramSocket } from "node:dgram";
import dns from "node:dns";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, RequestListener } from "node:http";
import { createSecureServer as createHttp2TlsServer, createServer as createHttp2Server } from "node:http2";
import type { ServerHttp2Stream } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo, Server as NetServer, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { OWN_RELEASE } from "../../shared/kube/releases.ts";
import { hostsEntries, lookupUntil, resolution } from "../../shared/node-agent/http/lookup.ts";
import { createProber } from "../../shared/node-agent/prober/prober.ts";
import { requestTarget } from "../../shared/node-agent/http/url.ts";
import { firstTarget } from "../../shared/node-agent/prober/target.ts";
import { hookRequest } from "../../shared/node-agent/kubelet/kuberuntime/lifecycle-hooks.ts";
import { probeRequest } from "../../shared/node-agent/kubelet/prober/probe-request.ts";
import type { GrpcProbe, HttpProbe, ProbeOutcome } from "../../shared/node-agent/ports/prober.ts";

const LOOPBACK = "127.0.0.1";
/** Timeout in ms, far above what a busy machine needs; tests of timeouts set a short one. */
const PATIENCE_MS = 20_000;
const prober = createProber();

interface Listening {
  readonly port: number;
  /** The open connections. */
  readonly open: Set<Socket>;
}
const running: { readonly server: NetServer; readonly open: Set<Socket> }[] = [];
afterEach(() => {
  for (const { server, open } of running.splice(0)) {
    server.close();
    for (const socket of open) socket.destroy();
  }
});

async function listen(server: NetServer): Promise<Listening> {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket)).on("error", () => {});
  });
  running.push({ server, open });
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
  return { port: (server.address() as AddressInfo).port, open };
}

const serve = (listener: RequestListener): Promise<Listening> => listen(createHttpServer(listener));
const raw = (greet: (socket: Socket) => void): Promise<Listening> => listen(createTcpServer((socket) => greet(socket.resume())));

function get(port: number, fields: Partial<HttpProbe> = {}): Promise<ProbeOutcome> {
  return prober.httpGet({ scheme: "HTTP", host: LOOPBACK, port, path: "/", headers: [], timeoutMs: PATIENCE_MS, ...fields });
}

async function closedPort(): Promise<number> {
  const server = createTcpServer();
  const { port } = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function allClosed({ open }: Listening): Promise<void> {
  await expect.poll(() => open.size, { timeout: PATIENCE_MS }).toBe(0);
}

describe("[node-agent 97] HTTP probes", () => {
  it.each([
    { status: 200, want: { result: "Success", output: "body" } },
    { status: 299, want: { result: "Success", output: "body" } },
    { status: 300, want: { result: "Success", output: "Probe terminated redirects, Response body: body", warning: true } },
    { status: 304, want: { result: "Success", output: "Probe terminated redirects, Response body: ", warning: true } },
    { status: 302, want: { result: "Success", output: "Probe terminated redirects, Response body: body", warning: true } },
    { status: 399, want: { result: "Success", output: "Probe terminated redirects, Response body: body", warning: true } },
    { status: 400, want: { result: "Failure", output: "HTTP probe failed with statuscode: 400" } },
    { status: 503, want: { result: "Failure", output: "HTTP probe failed with statuscode: 503" } },
  ])("HTTP status $status is a $want.result", async ({ status, want }) => {
    const body = status === 304 ? "" : "body";
    const server = await raw((socket) => socket.end(`HTTP/1.1 ${status} X\r\nConnection: close\r\n\r\n${body}`));
    expect(await get(server.port)).toEqual(want);
  });

  it("fails on a 1xx response without a final response", async () => {
    const server = await raw((socket) => socket.end("HTTP/1.1 199 X\r\n\r\n"));
    expect(await get(server.port)).toMatchObject({ result: "Failure" });
  });

  it("sends path, query and headers unchanged, adds the defaults, and closes the connection", async () => {
    const seen: IncomingMessage[] = [];
    const server = await serve((request, response) => {
      seen.push(request);
      response.end("ok");
    });
    const container = { name: "c", ports: [{ name: "web", containerPort: server.port }] };
    const httpHeaders = [
      { name: "X-Twice", value: "1" },
      { name: "X-Twice", value: "2" },
      { name: "Host", value: "shop.test" },
    ];
    const probe = probeRequest(
      { httpGet: { port: "web", path: "/a/../b?q=1%202#frag", httpHeaders }, timeoutSeconds: 20 },
      container,
      LOOPBACK,
    );
    if (probe.kind !== "http") throw new Error(probe.kind);
    expect(await prober.httpGet(probe.request)).toEqual({ result: "Success", output: "ok" });
    const [request] = seen;
    expect([request?.method, request?.url]).toEqual(["GET", "/a/../b?q=1%202"]);
    expect(request?.headersDistinct).toEqual({
      host: ["shop.test"],
      "user-agent": [`kube-probe/${OWN_RELEASE.name}`],
      accept: ["*/*"],
      "x-twice": ["1", "2"],
      connection: ["close"],
    });
    await allClosed(server);
  });

  it("uses host and port when the spec has no Host, and prefixes the path with a slash", async () => {
    const seen: string[] = [];
    const server = await serve((request, response) => {
      seen.push(`${request.headers.host} ${request.url}`);
      response.end();
    });
    await get(server.port, { path: "" });
    await get(server.port, { path: "healthz" });
    await get(server.port, { path: "?x" });
    const host = `${LOOPBACK}:${server.port}`;
    expect(seen).toEqual([`${host} /`, `${host} /healthz`, `${host} /?x`]);
  });

  // Public reports: kubernetes/kubernetes#25064, #56770, and the review of #86139. Expected URLs are those of formatURL with Go 1.26.
  it.each([
    ["healthz", "/healthz"],
    ["/h?x=1&y=a%2Fb", "/h?x=1&y=a%2Fb"],
    ["//healthz", "/"],
    ["//healthz/live", "/live"],
    ["http://other/x", "/x"],
    ["/a%2Fb", "/a%2Fb"],
    ["?q=1", "/?q=1"],
    ["", "/"],
    ["/x#f", "/x"],
    ["/%zz", "/%25zz"],
    ["/é", "/%C3%A9"],
  ])("encodes the path %j as %s", (path, want) => {
    const { url } = firstTarget({ scheme: "HTTP", host: "10.0.0.1", port: 80, path, headers: [], timeoutMs: 1 });
    expect(requestTarget(url)).toBe(want);
  });

  it("brackets an IPv6 address", () => {
    const target = firstTarget({ scheme: "HTTP", host: "fd00::1", port: 80, path: "/", headers: [], timeoutMs: 1 });
    expect([target.url.host, target.headers]).toEqual(["[fd00::1]:80", [{ name: "Host", value: "[fd00::1]:80" }]]);
  });

  it("[PR3] reads at most 10 KiB of an endless body", async () => {
    const server = await serve((_request, response) => {
      const more = (): void => void response.write("é".repeat(4096), () => !response.destroyed && setImmediate(more));
      more();
    });
    const { result, output } = await get(server.port);
    expect(result).toBe("Success");
    expect(Buffer.byteLength(output)).toBe(10 * 1024);
    await allClosed(server);
  });

  it("[PR1] truncates an output at a character boundary", async () => {
    const server = await serve((_request, response) => response.end(`x${"é".repeat(6000)}`));
    const { output } = await get(server.port);
    expect([Buffer.byteLength(output) <= 10 * 1024, output.slice(0, 3)]).toEqual([true, "xéé"]);
  });

  it("accepts a TLS server that cannot renegotiate securely (RFC 5746), as Go does", async () => {
    // A ServerHello of TLS 1.2 without extensions, because OpenSSL responds with an alert by default.
    const hello = Buffer.concat([Buffer.from([22, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3]), Buffer.alloc(32), Buffer.from([0, 0xc0, 0x2f, 0])]);
    const server = await raw((socket) => socket.once("data", () => socket.end(hello)));
    const { output } = await get(server.port, { scheme: "HTTPS" });
    expect(output).not.toMatch(/renegotiation/u);
  });

  it("[PR3] does not verify TLS, by address or by name", async () => {
    const server = await listen(createHttpsServer(certificate, tellName));
    expect(await get(server.port, { scheme: "HTTPS" })).toEqual({ result: "Success", output: "false" });
    const named = await get(server.port, { scheme: "HTTPS", host: "localhost", headers: [{ name: "Host", value: "other.test" }] });
    expect(named).toEqual({ result: "Success", output: "localhost" });
  });

  /** The expected headers are those of upstream's prober. */
  it("sends the probe's headers over HTTP/2, except the connection headers of HTTP/1", async () => {
    const server = await listen(
      createHttp2TlsServer(certificate, ({ rawHeaders }, response) => void response.end(JSON.stringify(rawHeaders))),
    );
    const names = [
      "Host",
      "X-A",
      "X-A",
      "Authorization",
      "Authorization",
      "User-Agent",
      "User-Agent",
      "Connection",
      "Keep-Alive",
      "Content-Length",
    ];
    const values = ["shop.test", "one", "two", "a", "b", "me", "too", "keep-alive", "1", "3"];
    const headers = names.map((name, i) => ({ name, value: values[i] ?? "" }));
    const { output } = await get(server.port, { scheme: "HTTPS", path: "/a?b", headers });
    expect(JSON.parse(output)).toEqual([
      ...[":authority", "shop.test", ":method", "GET", ":path", "/a?b", ":scheme", "https"],
      ...["x-a", "one", "x-a", "two", "authorization", "a", "authorization", "b", "user-agent", "me"],
    ]);
    for (const header of [
      { name: "Connection", value: "x" },
      { name: "Upgrade", value: "websocket" },
    ])
      expect((await get(server.port, { scheme: "HTTPS", headers: [header] })).result).toBe("Failure");
  });

  it.each([
    { name: "a path", location: "/next?x=1" },
    { name: "a relative path", location: "next?x=1" },
    { name: "an address of the same host", location: "<self>/next?x=1" },
  ])("[PR3] follows a redirect to $name", async ({ location }) => {
    const server = await serve((request, response) => {
      if (request.url === "/next?x=1") return response.end(request.headers["x-a"]);
      return response.writeHead(302, { location: location.replace("<self>", `http://${request.headers.host}`) }).end("body");
    });
    expect(await get(server.port, { headers: [{ name: "X-A", value: "kept" }] })).toEqual({ result: "Success", output: "kept" });
  });

  it.each([
    { location: "/next", want: "shop.test" },
    { location: "http://<address>/next", want: "<address>" },
  ])("after a redirect to $location, sends a custom Host header only if the location has no host", async ({ location, want }) => {
    const server = await serve((request, response) => {
      const address = `${LOOPBACK}:${request.socket.localPort}`;
      if (request.url === "/next") response.end(request.headers.host?.replace(address, "<address>"));
      else response.writeHead(302, { location: location.replace("<address>", address) }).end();
    });
    expect(await get(server.port, { headers: [{ name: "Host", value: "shop.test" }] })).toEqual({ result: "Success", output: want });
  });

  it("[PR3] does not follow a redirect to another host, and warns", async () => {
    const elsewhere = await serve((_request, response) => response.writeHead(500).end());
    const server = await serve((_request, response) =>
      response.writeHead(302, { location: `http://localhost:${elsewhere.port}/` }).end("elsewhere"),
    );
    expect(await get(server.port)).toEqual({
      result: "Success",
      output: "Probe terminated redirects, Response body: elsewhere",
      warning: true,
    });
  });

  it.each([
    { redirects: 9, want: { result: "Success", output: "there" } },
    { redirects: 10, want: { result: "Failure", output: expect.stringContaining("stopped after 10 redirects") as string } },
  ])("[PR3] returns $want.result after $redirects redirects", async ({ redirects, want }) => {
    const server = await serve((request, response) => {
      const step = Number(request.url?.slice(1));
      return step === redirects ? response.end("there") : response.writeHead(307, { location: `/${step + 1}` }).end();
    });
    expect(await get(server.port, { path: "/0" })).toEqual(want);
    await allClosed(server);
  });

  it.each([{ location: "http://[" }, { location: "ftp://<host>/" }])("[PR2] fails on a redirect to $location", async ({ location }) => {
    const server = await serve((_request, response) => response.writeHead(301, { location: location.replace("<host>", LOOPBACK) }).end());
    expect(await get(server.port)).toMatchObject({ result: "Failure" });
  });

  it.each<{ readonly name: string; readonly greet: (socket: Socket) => void }>([
    { name: "no response", greet: () => {} },
    { name: "headers that trickle", greet: (socket) => trickle(socket, "HTTP/1.1 200 OK\r\n", "X: y\r\n") },
    { name: "a body that trickles", greet: (socket) => trickle(socket, "HTTP/1.1 200 OK\r\n\r\n", "x") },
    { name: "a slow redirect to itself", greet: (socket) => redirectSlowly(socket) },
  ])("[PR1] fails at its timeout: $name", async ({ greet }) => {
    const server = await raw(greet);
    const startedAt = Date.now();
    const outcome = await get(server.port, { timeoutMs: 300 });
    expect(outcome).toMatchObject({ result: "Failure", output: expect.stringContaining("context deadline exceeded") as string });
    expect(Date.now() - startedAt).toBeLessThan(5_000);
    await allClosed(server);
  });

  it("[PR1] supports timeouts of months", async () => {
    const server = await serve((_request, response) => setTimeout(() => response.end("late"), 50));
    expect(await get(server.port, { timeoutMs: 2 ** 40 })).toEqual({ result: "Success", output: "late" });
  });

  it.each<{ readonly name: string; readonly greet: (socket: Socket) => void }>([
    { name: "a connection that is reset", greet: (socket) => socket.resetAndDestroy() },
    { name: "a response that is not HTTP", greet: (socket) => socket.end("SSH-2.0-x\r\n\r\n") },
    { name: "a body that breaks off", greet: (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx") },
    { name: "an unrequested protocol", greet: (socket) => socket.end("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n") },
  ])("[PR2] treats $name as a failure", async ({ greet }) => {
    const server = await raw(greet);
    expect(await get(server.port)).toMatchObject({ result: "Failure" });
    await allClosed(server);
  });

  it("[PR2] treats a closed port and an unknown host name as failures", async () => {
    const port = await closedPort();
    expect(await get(port)).toMatchObject({ result: "Failure", output: expect.stringContaining("ECONNREFUSED") as string });
    expect(await get(port, { host: "no-such-host.invalid", timeoutMs: 3_000 })).toMatchObject({ result: "Failure" });
  });

  it.each<{ readonly name: string; readonly fields: Partial<HttpProbe> }>([
    { name: "a host with a space", fields: { host: "a b" } },
    { name: "a host with a slash", fields: { host: "a/b" } },
    { name: "an empty host", fields: { host: "" } },
    { name: "a space in a header's name", fields: { headers: [{ name: "a b", value: "" }] } },
    { name: "a line break in a header's value", fields: { headers: [{ name: "a", value: "x\r\ny: z" }] } },
    { name: "a port above 65535", fields: { port: 70_000 } },
  ])("[PR2] returns an error for an invalid request: $name", async ({ fields }) => {
    const server = await serve((_request, response) => response.end());
    expect(await get(server.port, fields)).toMatchObject({ result: "error", output: expect.stringMatching(/./u) as string });
  });
});

describe("[node-agent 98] HTTP hooks", () => {
  const container = { name: "c" };
  function hook(port: number, scheme: string, headers: HttpProbe["headers"] = []): HttpProbe {
    const httpGet = { port, path: "/hook", scheme, httpHeaders: [...headers] };
    const request = hookRequest({ httpGet }, { container, podIp: LOOPBACK, timeoutMs: PATIENCE_MS });
    if (request.kind !== "http") throw new Error(request.kind);
    return request.request;
  }

  it("sends its own User-Agent, and accepts any response", async () => {
    const seen: (string | undefined)[] = [];
    const server = await serve((request, response) => {
      seen.push(request.url, request.headers["user-agent"]);
      response.writeHead(500).end("no");
    });
    expect(await prober.httpGet(hook(server.port, "HTTP"))).toMatchObject({ result: "Success" });
    expect(seen).toEqual(["/hook", `kube-lifecycle/${OWN_RELEASE.name}`]);
  });

  it("retries over plain HTTP, without Authorization, when the response to an HTTPS request is plain HTTP", async () => {
    const seen: IncomingMessage["headers"][] = [];
    const server = await serve((request, response) => {
      seen.push(request.headers);
      response.end();
    });
    const headers = [
      { name: "Authorization", value: "secret" },
      { name: "X-A", value: "1" },
    ];
    expect(await prober.httpGet(hook(server.port, "HTTPS", headers))).toMatchObject({ result: "Success" });
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ "x-a": "1" });
    expect(seen[0]).not.toHaveProperty("authorization");
  });

  it("does not fall back to plain HTTP for a probe", async () => {
    const server = await serve((_request, response) => response.end());
    expect(await get(server.port, { scheme: "HTTPS" })).toMatchObject({ result: "Failure" });
  });

  it("fails if the server does not respond", async () => {
    expect(await prober.httpGet(hook(await closedPort(), "HTTPS"))).toMatchObject({ result: "Failure" });
  });
});

describe("[node-agent 97] TCP probes", () => {
  it("connects, and closes the connection", async () => {
    const server = await raw(() => {});
    expect(await prober.tcpSocket({ host: LOOPBACK, port: server.port, timeoutMs: PATIENCE_MS })).toEqual({
      result: "Success",
      output: "",
    });
    await allClosed(server);
  });

  it("[PR2] fails on a closed port and an unknown name, and returns an error for an invalid host or port", async () => {
    const port = await closedPort();
    const tcp = (host: string, at = port): Promise<ProbeOutcome> => prober.tcpSocket({ host, port: at, timeoutMs: 3_000 });
    expect(await tcp(LOOPBACK)).toMatchObject({ result: "Failure", output: expect.stringContaining("ECONNREFUSED") as string });
    expect(await tcp("no-such-host.invalid")).toMatchObject({ result: "Failure" });
    expect((await tcp("a b")).result).toBe("error");
    expect((await tcp(LOOPBACK, 70_000)).result).toBe("error");
  });

  it("[PR1] ends at its timeout when packets are dropped", async () => {
    const startedAt = Date.now();
    // An address of TEST-NET-1: either there is no response, or the network reports immediately that there is no route.
    const outcome = await prober.tcpSocket({ host: "192.0.2.1", port: 9, timeoutMs: 300 });
    expect(outcome.result).toBe("Failure");
    expect(Date.now() - startedAt).toBeLessThan(5_000);
  });
});

describe("[node-agent 97] gRPC probes", () => {
  type Answer = (stream: ServerHttp2Stream, request: Buffer) => void;
  async function grpc(answer: Answer): Promise<Listening> {
    const server = createHttp2Server();
    server.on("stream", (stream) => {
      const chunks: Buffer[] = [];
      stream.on("error", () => {});
      stream.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => answer(stream, Buffer.concat(chunks)));
    });
    return await listen(server);
  }
  const serving =
    (message: number[], code = "0"): Answer =>
    (stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": code, "grpc-message": "because" }));
      stream.end(Buffer.from([0, 0, 0, 0, message.length, ...message]));
    };
  const check = (port: number, fields: Partial<GrpcProbe> = {}): Promise<ProbeOutcome> | undefined =>
    prober.grpcHealth?.({
      host: LOOPBACK,
      port,
      service: "",
      userAgent: `kube-probe/${OWN_RELEASE.name}`,
      timeoutMs: PATIENCE_MS,
      ...fields,
    });

  it.each<{ readonly name: string; readonly answer: Answer; readonly want: ProbeOutcome }>([
    { name: "SERVING", answer: serving([8, 1]), want: { result: "Success", output: "service healthy" } },
    {
      name: "NOT_SERVING",
      answer: serving([8, 2]),
      want: { result: "Failure", output: 'service unhealthy (responded with "NOT_SERVING")' },
    },
    {
      name: "an omitted status (UNKNOWN)",
      answer: serving([]),
      want: { result: "Failure", output: 'service unhealthy (responded with "UNKNOWN")' },
    },
    {
      name: "the code NotFound",
      answer: serving([], "5"),
      want: { result: "Failure", output: "error: health rpc probe failed: 5 because" },
    },
    {
      name: "Unimplemented in a headers-only response",
      answer: (stream) => stream.respond({ ":status": 200, "grpc-status": "12" }, { endStream: true }),
      want: { result: "Failure", output: "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)" },
    },
    {
      name: "HTTP status 404",
      answer: (stream) => stream.respond({ ":status": 404 }, { endStream: true }),
      want: { result: "Failure", output: "error: health rpc probe failed: HTTP 404 " },
    },
  ])("a gRPC probe returns $want.result for $name", async ({ answer, want }) => {
    const server = await grpc(answer);
    expect(await check(server.port)).toEqual(want);
    await allClosed(server);
  });

  it.each([
    { service: "", want: [0, 0, 0, 0, 0] },
    { service: "db", want: [0, 0, 0, 0, 4, 0x0a, 2, 0x64, 0x62] },
    { service: "x".repeat(200), want: [0, 0, 0, 0, 203, 0x0a, 0xc8, 1, ...Array<number>(200).fill(0x78)] },
  ])("sends the service name “$service” in the request", async ({ service, want }) => {
    let seen: Buffer | undefined;
    const server = await grpc((stream, request) => {
      seen = request;
      serving([8, 1])(stream, request);
    });
    expect(await check(server.port, { service })).toMatchObject({ result: "Success" });
    expect([...(seen ?? [])]).toEqual(want);
  });

  it("[PR1] [PR2] a gRPC probe fails within its timeout if the server is silent, speaks HTTP/1 or has closed the port", async () => {
    const silent = await raw(() => {});
    expect(await check(silent.port, { timeoutMs: 300 })).toEqual({
      result: "Failure",
      output: "timeout: health rpc did not complete within 300 ms",
    });
    await allClosed(silent);
    const http = await serve((_request, response) => response.end());
    expect(await check(http.port)).toMatchObject({ result: "Failure" });
    expect(await check(await closedPort())).toMatchObject({ result: "Failure" });
    expect(await check(1, { host: "a b" })).toMatchObject({ result: "error" });
  });
});

describe("[node-agent 486] a server that never stops sending", () => {
  /** Sends data for as long as the peer reads. */
  function flood(socket: Socket, piece: Buffer): void {
    const pieces = Buffer.concat(Array<Buffer>(1_000).fill(piece));
    const more = (): void => {
      while (!socket.destroyed && socket.write(pieces));
      if (!socket.destroyed) socket.once("drain", more);
    };
    socket.once("data", more);
  }
  const INFORMATION = "HTTP/1.1 102 X\r\n\r\n";

  it.each([{ anyStatus: false }, { anyStatus: true }])(
    "HTTP: fails on endless 1xx responses (any final status accepted: $anyStatus)",
    async ({ anyStatus }) => {
      const server = await raw((socket) => flood(socket, Buffer.from(INFORMATION)));
      const outcome = await get(server.port, anyStatus ? { anyStatus } : {});
      expect(outcome).toEqual({ result: "Failure", output: expect.stringContaining("too many 1xx informational responses") as string });
      await allClosed(server);
    },
  );

  it("HTTP: accepts a few 1xx responses", async () => {
    const server = await raw((socket) => socket.end(`${INFORMATION.repeat(20)}HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok`));
    expect(await get(server.port)).toEqual({ result: "Success", output: "ok" });
  });

  const frame = (type: number, flags: number, stream: number, ...payload: number[]): Buffer =>
    Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
  const FRAMES = [
    { name: "endless WINDOW_UPDATE frames", piece: frame(8, 0, 0, 0, 0, 0, 1) },
    { name: "endless 1xx HEADERS frames", piece: frame(1, 4, 1, 0x08, 3, ...Buffer.from("100")) },
    { name: "endless PING frames", piece: frame(6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8) },
  ];
  it.each(FRAMES)("gRPC: $name fail the probe", async ({ piece }) => {
    const server = await raw((socket) => {
      socket.write(frame(4, 0, 0));
      flood(socket, piece);
    });
    const grpc = { host: LOOPBACK, port: server.port, service: "", userAgent: "x", timeoutMs: PATIENCE_MS };
    const outcome = await prober.grpcHealth?.(grpc);
    expect(outcome).toEqual({ result: "Failure", output: expect.stringMatching(/^error: health rpc probe failed: /u) as string });
    await allClosed(server);
  });

  it.each(FRAMES)("HTTP/2: $name fail the probe", async ({ piece }) => {
    const tls = createTlsServer({ ...certificate, ALPNProtocols: ["h2"] }, (socket) => {
      socket.on("error", () => {});
      socket.write(frame(4, 0, 0));
      flood(socket, piece);
    });
    const server = await listen(tls);
    const outcome = await get(server.port, { scheme: "HTTPS" });
    expect(outcome).toEqual({ result: "Failure", output: expect.stringMatching(/^Get "https:.*": /u) as string });
    await allClosed(server);
  });
});

describe("[node-agent 489] host names", () => {
  const lookup = (name: string, files: Parameters<typeof lookupUntil>[1], signal = new AbortController().signal) =>
    new Promise<unknown>((resolve, reject) =>
      lookupUntil(signal, files)(name, { all: true }, (error, found) => (error === null ? resolve(found) : reject(error))),
    );

  it("host names are resolved without occupying a thread of the process", async () => {
    const server = await serve((_request, response) => response.end("ok"));
    const spy = vi.spyOn(dns, "lookup");
    const { port } = server;
    expect(await get(port, { host: "localhost" })).toEqual({ result: "Success", output: "ok" });
    expect(await prober.tcpSocket({ host: "localhost", port, timeoutMs: PATIENCE_MS })).toEqual({ result: "Success", output: "" });
    expect(spy).not.toHaveBeenCalled();
    spy.mockRestore();
  });

  it.each([
    { name: "LocalHost", want: ["127.0.0.1", "::1"] },
    { name: "web.", want: ["10.0.0.7"] },
    { name: "db", want: [] },
    { name: "ghost", want: [] },
  ])("the hosts file resolves $name to $want", ({ name, want }) => {
    const text = "127.0.0.1\tlocalhost\n::1 ip6 localhost # db\n10.0.0.7 shop WEB\n10.0.0 ghost\n";
    expect(hostsEntries(name, text).map(({ address }) => address)).toEqual(want);
  });

  const CONFIGURATION = "# none\nnameserver 10.0.0.10\nnameserver fd00::a\nsearch shop.test. test\noptions timeout:1 ndots:2\n";
  it.each([
    { name: "web", text: CONFIGURATION, want: ["web.shop.test", "web.test", "web"] },
    { name: "a.web", text: CONFIGURATION, want: ["a.web.shop.test", "a.web.test", "a.web"] },
    { name: "a.b.web", text: CONFIGURATION, want: ["a.b.web", "a.b.web.shop.test", "a.b.web.test"] },
    { name: "web.", text: CONFIGURATION, want: ["web."] },
    { name: "a.web", text: "", want: ["a.web"] },
  ])("a lookup of $name queries DNS for $want", ({ name, text, want }) => {
    expect(resolution(name, text)).toEqual({ servers: text === "" ? [] : ["10.0.0.10", "fd00::a"], names: want });
  });

  /** Starts a DNS server and writes a resolv.conf that refers to it. */
  async function dnsServer(answer: (socket: DatagramSocket, query: Buffer, port: number) => void) {
    const socket = createSocket("udp4");
    socket.on("message", (query, { port }) => answer(socket, query, port));
    await new Promise<void>((resolve) => void socket.bind(0, LOOPBACK, resolve));
    const folder = mkdtempSync(join(tmpdir(), "deltaloop-lookup-"));
    const resolvConf = join(folder, "resolv.conf");
    writeFileSync(resolvConf, `nameserver ${LOOPBACK}:${socket.address().port}\n`);
    const end = (): void => {
      socket.close();
      rmSync(folder, { recursive: true });
    };
    return { files: { hosts: join(folder, "hosts"), resolvConf }, end };
  }
  const QUERY_BYTES_MIN = 12;

  it("host names are resolved by DNS", async () => {
    const { files, end } = await dnsServer((socket, query, port) => {
      // The response: the header's flags and counts, the unchanged question, and 10.1.2.3 for a question of type A.
      const question = query.subarray(QUERY_BYTES_MIN, query.indexOf(0, QUERY_BYTES_MIN) + 5);
      const isOfTypeA = question.at(-3) === 1;
      const head = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, isOfTypeA ? 1 : 0, 0, 0, 0, 0])]);
      const record = Buffer.from(isOfTypeA ? [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 1, 2, 3] : []);
      socket.send(Buffer.concat([head, question, record]), port, LOOPBACK);
    });
    expect(await lookup("web.test", files)).toEqual([{ address: "10.1.2.3", family: 4 }]);
    end();
  });

  it("a lookup fails if the name does not exist", async () => {
    const { files, end } = await dnsServer((socket, query, port) => {
      const answer = Buffer.from(query);
      answer.writeUInt16BE(0x8183, 2);
      socket.send(answer, port, LOOPBACK);
    });
    await expect(lookup("web.test", files)).rejects.toThrow("lookup web.test: no such host");
    end();
  });

  it("[PR4] an aborted lookup ends without waiting for the DNS response", async () => {
    const asked = Promise.withResolvers<void>();
    const { files, end } = await dnsServer(() => asked.resolve());
    const giveUp = new AbortController();
    const looked = lookup("web.test", files, giveUp.signal);
    await asked.promise;
    giveUp.abort();
    await expect(looked).rejects.toThrow("web.test");
    end();
  });
});

describe("[node-agent 485] an aborted probe", () => {
  const FOREVER_MS = 2_147_483_647_000;
  const target = (port: number) => ({ host: LOOPBACK, port, timeoutMs: FOREVER_MS });
  const http = (port: number): HttpProbe => ({ scheme: "HTTP", path: "/", headers: [], ...target(port) });
  const grpc = (port: number): GrpcProbe => ({ service: "", userAgent: "x", ...target(port) });

  it.each<{ readonly kind: string; readonly ask: (port: number, signal: AbortSignal) => Promise<ProbeOutcome> | undefined }>([
    { kind: "http", ask: (port, signal) => prober.httpGet(http(port), signal) },
    { kind: "https", ask: (port, signal) => prober.httpGet({ ...http(port), scheme: "HTTPS" }, signal) },
    { kind: "grpc", ask: (port, signal) => prober.grpcHealth?.(grpc(port), signal) },
  ])("[PR4] $kind: ends immediately and closes its connection", async ({ ask }) => {
    const silent = await raw(() => {});
    const giveUp = new AbortController();
    const outcome = ask(silent.port, giveUp.signal);
    await expect.poll(() => silent.open.size, { timeout: PATIENCE_MS }).toBe(1);
    giveUp.abort();
    expect(await outcome).toEqual({ result: "error", output: "probe aborted" });
    await allClosed(silent);
    expect((await ask(silent.port, giveUp.signal))?.result).toBe("error");
    expect(silent.open.size).toBe(0);
  });

  it("[PR4] tcp: ends immediately when packets are dropped", async () => {
    const giveUp = new AbortController();
    const outcome = prober.tcpSocket({ host: "192.0.2.1", port: 9, timeoutMs: FOREVER_MS }, giveUp.signal);
    giveUp.abort();
    expect(await outcome).toEqual({ result: "error", output: "probe aborted" });
  });
});

const certificate: { key: string; cert: string } = { key: "", cert: "" };
beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-prober-"));
  const [key, cert] = [join(folder, "key"), join(folder, "cert")];
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key];
  execFileSync("openssl", ["req", "-x509", ...newKey, "-subj", "/CN=nobody", "-days", "1", "-out", cert], { stdio: "pipe" });
  Object.assign(certificate, { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") });
  rmSync(folder, { recursive: true });
});

/** Responds with the TLS server name that the client requested, or with `false` if it requested none. */
const tellName: RequestListener = ({ socket }, response) => {
  response.end(socket instanceof TLSSocket ? String(socket.servername) : "not TLS");
};

/** Writes `more` every 20 ms until the peer closes the connection. */
function trickle(socket: Socket, start: string, more: string): void {
  socket.write(start);
  const timer = setInterval(() => socket.write(more), 20);
  socket.on("close", () => clearInterval(timer));
}

function redirectSlowly(socket: Socket): void {
  socket.once("data", () => {
    const timer = setTimeout(() => socket.end("HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"), 100);
    socket.on("close", () => clearTimeout(timer));
  });
}
