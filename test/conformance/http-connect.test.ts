/** Connections of the HTTP client: streamed responses, and proxies as Go programs use them. */
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mkdtempSync, rmSync } from "node:fs";
import type { Duplex } from "node:stream";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";

import type { Proxy, Server as Target } from "../../shared/base/http/http-connect.ts";
import { createExchanges, type AnswerStream } from "../../shared/base/http/http-exchanges.ts";
import { createClient } from "../../shared/kube/http/client.ts";
import { createPki, type Certificate } from "../envtest/pki.ts";

const LOOPBACK = "127.0.0.1";
const LATE = { timeoutMs: 2_000, late: () => new Error("too late") };
const CALL = { ...LATE, bytesMax: 1_000_000 };
const GET = { method: "GET", target: "/x", headers: {} } as const;

const folder = mkdtempSync(join(tmpdir(), "http-connect-"));
let ca: string;
let certificate: Certificate;
beforeAll(async () => {
  const pki = await createPki(folder);
  ca = readFileSync(pki.caFile, "utf8");
  certificate = await pki.serverCertificate();
});
afterAll(() => rmSync(folder, { recursive: true }));

const ending: (() => unknown)[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const end of ending.splice(0)) end();
});

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => undefined)));
  await new Promise<void>((listening) => server.listen(0, LOOPBACK, listening));
  ending.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

function exchangesOf(target: Omit<Target, "host">) {
  const exchanges = createExchanges({ host: LOOPBACK, ...target }, { idleMsMax: 1_000 });
  ending.push(() => exchanges.destroy());
  return exchanges;
}

interface Received {
  readonly text: string;
  readonly error?: unknown;
}

function all(answer: AnswerStream): Promise<Received> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    answer.read({
      onBytes: (bytes) => chunks.push(Buffer.from(bytes)),
      onEnd: (end) => resolve({ text: Buffer.concat(chunks).toString(), ...end }),
    });
  });
}

/** A server that writes `pieces` one after another once a connection has sent something. */
async function writing(...pieces: readonly string[]): Promise<number> {
  return await listen(
    createServer((socket) => {
      socket.once("data", () => {
        void (async () => {
          for (const piece of pieces) await new Promise((written) => setTimeout(() => socket.write(piece, written), 5));
          socket.end();
        })();
      });
    }),
  );
}

const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

describe("a streamed response", () => {
  it.each([
    { body: "a chunked body", pieces: [CHUNKED, "3\r\nabc\r\n", "2\r", "\nde\r\n0\r\n\r\n"], text: "abcde", whole: true },
    { body: "a chunked body that arrives with the head", pieces: [`${CHUNKED}3\r\nabc\r\n0\r\n\r\n`], text: "abc", whole: true },
    { body: "a body that ends with its connection", pieces: ["HTTP/1.1 200 OK\r\n\r\nab", "c"], text: "abc", whole: true },
    { body: "a body with Content-Length", pieces: ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na", "bc"], text: "abc", whole: true },
    { body: "a body that is cut off in a chunk, with an error", pieces: [CHUNKED, "3\r\nab"], text: "ab", whole: false },
    { body: "a body that is cut off between chunks, with an error", pieces: [CHUNKED, "3\r\nabc\r\n"], text: "abc", whole: false },
    { body: "a body with an invalid chunk, with an error", pieces: [CHUNKED, "3\r\nabc\r\n", "x\r\n"], text: "abc", whole: false },
  ])("forwards $body", async ({ pieces, text, whole }) => {
    const answer = await exchangesOf({ port: await writing(...pieces) }).stream(GET, LATE);
    const received = await all(answer);
    expect(received.text).toBe(text);
    expect(received.error === undefined).toBe(whole);
  });

  it("buffers bytes that arrive before the reader attaches", async () => {
    const answer = await exchangesOf({ port: await writing(`${CHUNKED}3\r\nabc\r\n`, "0\r\n\r\n") }).stream(GET, LATE);
    await new Promise((later) => setTimeout(later, 50));
    expect(await all(answer)).toEqual({ text: "abc" });
  });

  it("a call fails if the response head is late; the body has no timeout", async () => {
    const silent = exchangesOf({ port: await listen(createServer()) });
    await expect(silent.stream(GET, { ...LATE, timeoutMs: 30 })).rejects.toThrow("too late");
    const port = await writing(CHUNKED, ...Array<string>(20).fill("1\r\na\r\n"), "0\r\n\r\n");
    const answer = await exchangesOf({ port }).stream(GET, { ...LATE, timeoutMs: 60 });
    expect(await all(answer)).toEqual({ text: "a".repeat(20) });
  });

  it("stops the sender while it is paused", async () => {
    let written = 0;
    const port = await listen(
      createServer((socket) => {
        socket.once("data", () => {
          socket.write("HTTP/1.1 200 OK\r\n\r\n");
          const more = (): void => {
            while (socket.write(Buffer.alloc(65_536)) && written < 1e9) written += 65_536;
            socket.once("drain", more);
          };
          more();
        });
      }),
    );
    const answer = await exchangesOf({ port }).stream(GET, LATE);
    let received = 0;
    answer.read({
      onBytes(bytes) {
        received += bytes.length;
        answer.pause();
      },
      onEnd: () => undefined,
    });
    await new Promise((later) => setTimeout(later, 200));
    const paused = [received, written];
    await new Promise((later) => setTimeout(later, 200));
    expect([received, written]).toEqual(paused);
    answer.resume();
    await expect.poll(() => received).toBeGreaterThan(paused[0] ?? 0);
  });

  it("a streamed response closes its connection when the reader destroys the stream", async () => {
    let closed = false;
    const port = await listen(
      createServer((socket) => void socket.once("data", () => socket.write(CHUNKED)).once("close", () => (closed = true))),
    );
    const answer = await exchangesOf({ port }).stream(GET, LATE);
    answer.destroy();
    await expect.poll(() => closed).toBe(true);
  });
});

/** A proxy that records its requests. */
async function startProxy(
  answer = "HTTP/1.1 200 Connection established\r\n\r\n",
  secure = false,
): Promise<{ readonly port: number; readonly asked: readonly string[]; readonly credentials: readonly (string | undefined)[] }> {
  const asked: string[] = [];
  const credentials: (string | undefined)[] = [];
  const proxy = secure ? createHttpsServer({ cert: certificate.certificate, key: certificate.key }) : createHttpServer();
  proxy.on("connect", ({ url = "", headers }: IncomingMessage, socket: Duplex) => {
    asked.push(`CONNECT ${url}`);
    credentials.push(headers["proxy-authorization"]);
    socket.on("error", () => undefined);
    if (answer === "") return;
    socket.write(answer);
    if (!answer.startsWith("HTTP/1.1 2")) return;
    const onward = connect(Number(url.split(":").at(-1)), LOOPBACK, () => socket.pipe(onward).pipe(socket));
    onward.on("error", () => socket.destroy());
    socket.on("close", () => onward.destroy());
  });
  proxy.on("request", ({ method = "", url = "", headers }: IncomingMessage, response) => {
    asked.push(`${method} ${url}`);
    credentials.push(headers["proxy-authorization"]);
    response.end("forwarded");
  });
  return { port: await listen(proxy), asked, credentials };
}

async function startTarget(): Promise<number> {
  return await listen(createHttpsServer({ cert: certificate.certificate, key: certificate.key }, (_, response) => response.end("{}\n")));
}

describe("a proxy", () => {
  const authorization = `Basic ${Buffer.from("me:s3cret").toString("base64")}`;

  it.each([{ secure: false }, { secure: true }])(
    "tunnels to a TLS server (connection to the proxy over TLS: $secure)",
    async ({ secure }) => {
      const [port, proxy] = [await startTarget(), await startProxy(undefined, secure)];
      const through: Proxy = { host: LOOPBACK, port: proxy.port, authorization, ...(secure && { tls: { ca } }) };
      const exchanges = exchangesOf({ port, tls: { ca }, proxy: through });
      expect((await exchanges.ask(GET, CALL)).body).toBe("{}\n");
      expect((await exchanges.ask(GET, CALL)).body).toBe("{}\n");
      expect(await all(await exchanges.stream(GET, LATE))).toEqual({ text: "{}\n" });
      // The second call reuses the first one's connection; a stream has its own.
      expect(proxy.asked).toEqual([`CONNECT ${LOOPBACK}:${port}`, `CONNECT ${LOOPBACK}:${port}`]);
      expect(proxy.credentials).toEqual([authorization, authorization]);
    },
  );

  it("does not replace the verification of the server's certificate", async () => {
    const [port, proxy] = [await startTarget(), await startProxy()];
    const exchanges = exchangesOf({ port, tls: {}, proxy: { host: LOOPBACK, port: proxy.port } });
    await expect(exchanges.ask(GET, CALL)).rejects.toThrow("unable to");
  });

  it("forwards requests to a server over plain HTTP", async () => {
    const proxy = await startProxy();
    const exchanges = createExchanges(
      { host: "api.test", port: 8080, proxy: { host: LOOPBACK, port: proxy.port, authorization } },
      { idleMsMax: 0 },
    );
    expect((await exchanges.ask(GET, CALL)).body).toBe("forwarded");
    expect([proxy.asked, proxy.credentials]).toEqual([["GET http://api.test:8080/x"], [authorization]]);
  });

  it.each([
    {
      does: "rejects CONNECT",
      answer: "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
      says: /the proxy 127\.0\.0\.1:\d+ returned 407 for CONNECT/,
    },
    {
      does: "does not respond in HTTP",
      answer: "SSH-2.0-OpenSSH\r\n",
      says: /through the proxy 127\.0\.0\.1:\d+: the response does not start with HTTP/,
    },
    { does: "never responds", answer: "", says: /^too late$/ },
  ])("a call fails with the reason if the proxy $does", async ({ answer, says }) => {
    const proxy = await startProxy(answer);
    const exchanges = exchangesOf({ port: 1, tls: { ca }, proxy: { host: LOOPBACK, port: proxy.port } });
    await expect(exchanges.ask(GET, { ...CALL, timeoutMs: 300 })).rejects.toThrow(says);
  });

  it("a call fails with the reason if no proxy listens at the address", async () => {
    const exchanges = exchangesOf({ port: 1, tls: { ca }, proxy: { host: LOOPBACK, port: 1 } });
    await expect(exchanges.ask(GET, CALL)).rejects.toThrow(/through the proxy 127\.0\.0\.1:1: .*ECONNREFUSED/);
  });

  it("the proxy is read from the environment for calls and watches, even if only the proxy can resolve the server's name", async () => {
    const proxy = await startProxy("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
    vi.stubEnv("HTTPS_PROXY", `http://${LOOPBACK}:${proxy.port}`);
    vi.stubEnv("NO_PROXY", "");
    const client = createClient({ server: "https://k8s.invalid:6443", component: "test", waitMsMax: 0 });
    await expect(client.json({ method: "GET", path: "/" })).rejects.toThrow("returned 502 for CONNECT k8s.invalid:6443");
    const watch = client
      .lines({ path: "/", signal: AbortSignal.timeout(2_000) })
      [Symbol.asyncIterator]()
      .next();
    await expect(watch).rejects.toThrow("returned 502 for CONNECT k8s.invalid:6443");
    expect(new Set(proxy.asked)).toEqual(new Set(["CONNECT k8s.invalid:6443"]));
  });
});
