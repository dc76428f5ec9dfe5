/** HTTP/1.1 exchanges over sockets, plain and TLS, with Node's server and with servers that violate the protocol. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";

import { createExchanges, type Bounds, type Exchanges, type Request } from "../../shared/base/http/http-exchanges.ts";

const LOOPBACK = "127.0.0.1";
const IDLE_MS = 300;
const BOUNDS: Bounds = { timeoutMs: 5_000, late: () => new Error("too late"), bytesMax: 1_000_000 };
const GET: Request = { method: "GET", target: "/", headers: {} };

const ending: (() => unknown)[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  for (const end of ending.splice(0)) end();
});

async function listen(server: NetServer): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
  ending.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

function exchangesOf(port: number, tls?: object): Exchanges {
  const exchanges = createExchanges({ host: LOOPBACK, port, ...(tls && { tls }) }, { idleMsMax: IDLE_MS });
  ending.push(() => exchanges.destroy());
  return exchanges;
}

/** Starts a server whose nth connection, counted from 0, gets the reply of `act` when a request arrives. */
async function rude(
  act: (socket: Socket, nth: number, text: string) => void,
): Promise<{ readonly exchanges: Exchanges; connections(): number }> {
  let count = 0;
  const port = await listen(
    createServer((socket) => {
      const nth = count++;
      socket.on("data", (bytes) => act(socket, nth, bytes.toString()));
    }),
  );
  return { exchanges: exchangesOf(port), connections: () => count };
}

/** Starts Node's own server, which counts its connections. */
async function polite(answer: RequestListener): Promise<{ readonly exchanges: Exchanges; connections(): number }> {
  let count = 0;
  const server = createHttpServer(answer);
  server.on("connection", () => count++);
  return { exchanges: exchangesOf(await listen(server)), connections: () => count };
}

/** Time in ms in which a connection is established, before the timeout. */
const PAUSE_MS = 300;

/** Suspends the process as SIGSTOP and SIGCONT do: no timer fires and no input is read. */
function suspend(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const X = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";

describe("exchanges of HTTP/1.1", () => {
  it("sends the given headers, Host and Content-Length", async () => {
    const { exchanges } = await polite((request, response) => {
      let text = "";
      request.setEncoding("utf8").on("data", (part: string) => (text += part));
      request.on("end", () => response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, text })));
    });
    const headers = { "X-A": "b c", authorization: "Bearer t" };
    const request: Request = { method: "PATCH", target: "/a%20b?c=d", headers, body: '{"é":"✓"}' };
    const { code, body, isCut } = await exchanges.ask(request, BOUNDS);
    expect([code, isCut]).toEqual([200, false]);
    expect(JSON.parse(body)).toEqual({
      method: "PATCH",
      url: "/a%20b?c=d",
      headers: { host: expect.stringMatching(/^127\.0\.0\.1:\d+$/), "x-a": "b c", authorization: "Bearer t", "content-length": "12" },
      text: '{"é":"✓"}',
    });
  });

  it("HX1 reuses a connection, and opens as many as there are concurrent calls", async () => {
    const { exchanges, connections } = await polite((_request, response) => void setTimeout(() => response.end("x".repeat(100_000)), 20));
    for (let i = 0; i < 5; i++) expect((await exchanges.ask(GET, BOUNDS)).body).toHaveLength(100_000);
    expect(connections()).toBe(1);
    await Promise.all(Array.from({ length: 4 }, () => exchanges.ask(GET, BOUNDS)));
    expect(connections()).toBe(4);
  });

  it.each<readonly [what: string, answer: string]>([
    ["a response with Connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"],
    ["an HTTP/1.0 response", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"],
    ["a response with Keep-Alive: timeout=1", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 1\r\n\r\nx"],
  ])("HX3 does not reuse a connection after %s", async (_what, answer) => {
    const { exchanges, connections } = await rude((socket) => socket.write(answer));
    for (let i = 0; i < 2; i++) expect((await exchanges.ask(GET, BOUNDS)).body).toBe("x");
    expect(connections()).toBe(2);
  });

  it("HX3 does not reuse a connection that was idle for too long or that the server closed", async () => {
    const { exchanges, connections } = await rude((socket, nth) => {
      socket.write(X);
      if (nth === 1) setTimeout(() => socket.end(), 20);
    });
    await exchanges.ask(GET, BOUNDS);
    await after(IDLE_MS + 50);
    await exchanges.ask(GET, BOUNDS);
    await after(60);
    await exchanges.ask(GET, BOUNDS);
    expect(connections()).toBe(3);
  });

  it("HX3 does not reuse a connection after this process was suspended for too long, regardless of its timers", async () => {
    const { exchanges, connections } = await rude((socket) => socket.write(X));
    await exchanges.ask(GET, BOUNDS);
    const thawedMs = Date.now() + 10 * IDLE_MS;
    vi.spyOn(Date, "now").mockReturnValue(thawedMs);
    await exchanges.ask(GET, BOUNDS);
    expect(connections()).toBe(2);
  });

  it("HX2 returns a complete response even if the call is aborted at the same moment", async () => {
    const { exchanges } = await rude((socket) => socket.write(X));
    const ended = new AbortController();
    const onHead = (): void => queueMicrotask(() => ended.abort(new Error("no more")));
    expect(await exchanges.ask(GET, { ...BOUNDS, signal: ended.signal, onHead })).toMatchObject({ code: 200, body: "x" });
  });

  it.each(["ask", "stream"] as const)(
    "HX2 returns a response that arrived while this process was suspended beyond the timeout (Exchanges.%s)",
    async (verb) => {
      const { exchanges } = await rude((socket) => {
        socket.write(X);
        suspend(2 * PAUSE_MS);
      });
      expect(await exchanges[verb](GET, { ...BOUNDS, timeoutMs: PAUSE_MS })).toMatchObject({ code: 200 });
    },
  );

  it("HX2 discards an unsolicited response", async () => {
    const { exchanges, connections } = await rude((socket, nth) => {
      socket.write(X);
      if (nth === 0) setTimeout(() => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), 20);
    });
    await exchanges.ask(GET, BOUNDS);
    await after(60);
    expect((await exchanges.ask(GET, BOUNDS)).body).toBe("x");
    expect(connections()).toBe(2);
  });

  describe("[informer T123] HX5 on a reused connection", () => {
    const POST: Request = { method: "POST", target: "/", headers: {}, body: "{}" };
    const BUSY_MS_MAX = 10_000;
    const EVIL = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";

    /** Starts a server that responds to the first request of each connection. A connection's second request gets `act` instead, once. */
    async function renewed(act: (socket: Socket) => void): Promise<{ readonly exchanges: Exchanges; readonly requests: string[] }> {
      const requests: string[] = [];
      let acted = false;
      const port = await listen(
        createServer((socket) => {
          let onThis = 0;
          socket.on("data", (bytes) => {
            requests.push(bytes.toString().slice(0, 4).trim());
            if (++onThis === 1 || acted) return void socket.write(X);
            acted = true;
            act(socket);
          });
        }),
      );
      return { exchanges: exchangesOf(port), requests };
    }

    it.each<readonly [what: string, act: string]>([
      ["a FIN", "socket.end()"],
      ["a RST", "socket.resetAndDestroy()"],
      ["an unsolicited response", `socket.write(${JSON.stringify(EVIL)})`],
    ])("sends nothing, not even a POST, on a connection that received %s while the event loop was busy", async (_what, act) => {
      const acted = new Int32Array(new SharedArrayBuffer(4));
      // A server in its own thread, which continues while this thread is busy. Reports the data that follow the first response on its first
      // connection.
      const server = new Worker(
        `const { parentPort, workerData } = require("node:worker_threads");
        const acted = () => { Atomics.store(workerData, 0, 1); Atomics.notify(workerData, 0); };
        let count = 0;
        const server = require("node:net").createServer((socket) => {
          const isFirst = count++ === 0;
          let isAnswered = false;
          socket.on("error", () => undefined);
          socket.on("data", () => {
            if (isFirst && isAnswered) parentPort.postMessage("more");
            isAnswered = true;
            socket.write(${JSON.stringify(X)});
            if (isFirst) setTimeout(() => { ${act}; setTimeout(acted, 20); }, 20);
          });
        });
        server.listen(0, "${LOOPBACK}", () => parentPort.postMessage(server.address().port));`,
        { eval: true, workerData: acted },
      );
      ending.push(() => server.terminate());
      const [port] = (await once(server, "message")) as [number];
      const told: unknown[] = [];
      server.on("message", (what) => told.push(what));
      const exchanges = exchangesOf(port);
      await exchanges.ask(GET, BOUNDS);
      await stat(tmpdir()); // waits until the event loop has polled
      expect(Atomics.wait(acted, 0, 0, BUSY_MS_MAX)).not.toBe("timed-out");
      expect((await exchanges.ask(POST, BOUNDS)).body).toBe("x");
      await after(20);
      expect(told).toEqual([]);
    });

    it.each<readonly [what: string, act: (socket: Socket) => void]>([
      ["ends", (socket) => socket.end()],
      ["is reset", (socket) => socket.resetAndDestroy()],
      ["sends an invalid response", (socket) => socket.write("pong\r\n\r\n")],
    ])(
      "retries a GET once, immediately and on another connection, when its connection %s before a response has begun",
      async (_what, act) => {
        const { exchanges, requests } = await renewed(act);
        await exchanges.ask(GET, BOUNDS);
        const startedMs = performance.now();
        expect((await exchanges.ask(GET, BOUNDS)).body).toBe("x");
        expect(performance.now() - startedMs).toBeLessThan(900); // a read waits at most 1 s (KC4)
        expect(requests).toEqual(["GET", "GET", "GET"]);
      },
    );

    it.each<Request>([POST, { ...POST, method: "PUT" }, { ...POST, method: "PATCH" }, { ...GET, method: "DELETE" }])(
      "does not send a $method twice",
      async (request) => {
        const { exchanges, requests } = await renewed((socket) => socket.end());
        await exchanges.ask(GET, BOUNDS);
        await expect(exchanges.ask(request, BOUNDS)).rejects.toMatchObject({ code: "ECONNRESET", message: "socket hang up" });
        expect(requests).toHaveLength(2);
      },
    );

    it("does not retry after a response has begun", async () => {
      const { exchanges, requests } = await renewed((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"));
      await exchanges.ask(GET, BOUNDS);
      await expect(exchanges.ask(GET, BOUNDS)).rejects.toMatchObject({ code: "ECONNRESET" });
      expect(requests).toHaveLength(2);
    });

    it("retries a call only once, within the call's timeout", async () => {
      let requests = 0;
      const { exchanges } = await rude((socket) => void (++requests === 1 ? socket.write(X) : setTimeout(() => socket.destroy(), 150)));
      await exchanges.ask(GET, BOUNDS);
      await expect(exchanges.ask(GET, BOUNDS)).rejects.toMatchObject({ code: "ECONNRESET" });
      expect(requests).toBe(3);

      const slow = await rude((socket) => void (++requests === 4 ? socket.write(X) : setTimeout(() => socket.destroy(), 150)));
      await slow.exchanges.ask(GET, BOUNDS);
      await expect(slow.exchanges.ask(GET, { ...BOUNDS, timeoutMs: 200 })).rejects.toThrow("too late");
    });

    it("does not retry an aborted call", async () => {
      const ended = new AbortController();
      const { exchanges, requests } = await renewed(() => ended.abort(new Error("no more")));
      await exchanges.ask(GET, BOUNDS);
      await expect(exchanges.ask(GET, { ...BOUNDS, signal: ended.signal })).rejects.toThrow("no more");
      expect(requests).toHaveLength(2);
    });

    it("does not retry after the client has closed its connections", async () => {
      const { exchanges, requests } = await renewed(() => exchanges.destroy());
      await exchanges.ask(GET, BOUNDS);
      await expect(exchanges.ask(GET, BOUNDS)).rejects.toMatchObject({ code: "ECONNRESET" });
      expect(requests).toHaveLength(2);
    });
  });

  it("HX2 fails a call before a second response, and discards that response", async () => {
    const { exchanges, connections } = await rude((socket, nth) => socket.write(nth === 0 ? X + X : X));
    await expect(exchanges.ask(GET, BOUNDS)).rejects.toThrow("unexpected bytes after the response");
    expect((await exchanges.ask(GET, BOUNDS)).body).toBe("x");
    expect(connections()).toBe(2);
  });

  it("HX2 discards a second response that the server sends together with the first, even in another chunk", async () => {
    const head = "HTTP/1.1 200 OK\r\nContent-Length: ";
    const body = "x".repeat(64 * 1024);
    const filled = body.slice(head.length + "65536\r\n\r\n".length); // head and body together fill one read
    const { exchanges } = await rude((socket, nth) =>
      socket.write(nth === 0 ? `${head}${filled.length}\r\n\r\n${filled}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil` : X),
    );
    await expect(exchanges.ask(GET, BOUNDS)).rejects.toThrow("unexpected bytes after the response");
    expect((await exchanges.ask(GET, BOUNDS)).body).toBe("x");
  });

  it.each<readonly [what: string, act: (socket: Socket) => void, expected: object]>([
    ["closes without a response", (socket) => socket.end(), { code: "ECONNRESET", message: "socket hang up" }],
    ["resets the connection", (socket) => socket.resetAndDestroy(), { code: "ECONNRESET" }],
    ["closes in the middle of a head", (socket) => socket.end("HTTP/1.1 200 O"), { code: "ECONNRESET" }],
    ["closes in the middle of a body", (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), { code: "ECONNRESET" }],
    ["speaks another protocol", (socket) => socket.write("220 smtp\r\n\r\n"), { name: "MalformedAnswerError" }],
    ["never responds", () => undefined, { message: "too late" }],
    ["never ends its response", (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), { message: "too late" }],
  ])("HX2 fails the call once and closes the connection when a server %s", async (_what, act, expected) => {
    let requests = 0;
    const ended = Promise.withResolvers<void>();
    const { exchanges } = await rude((socket) => {
      requests++;
      socket.once("close", () => ended.resolve());
      act(socket);
    });
    await expect(exchanges.ask(GET, { ...BOUNDS, timeoutMs: 200 })).rejects.toMatchObject(expected);
    await ended.promise;
    expect(requests).toBe(1);
  });

  it("HX2 fails an aborted call with the signal's reason, whether or not it has been sent", async () => {
    const { exchanges, connections } = await rude(() => undefined);
    const ended = new AbortController();
    const call = exchanges.ask(GET, { ...BOUNDS, signal: ended.signal });
    setTimeout(() => ended.abort(new Error("no more")), 30);
    await expect(call).rejects.toThrow("no more");
    await expect(exchanges.ask(GET, { ...BOUNDS, signal: ended.signal })).rejects.toThrow("no more");
    expect(connections()).toBe(1);
  });

  it("fails the call with the reason when the server is unreachable", async () => {
    const server = createServer();
    const port = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    await expect(exchangesOf(port).ask(GET, BOUNDS)).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  it("completes a body without length when its connection ends", async () => {
    const { exchanges } = await rude((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nhello"));
    expect(await exchanges.ask(GET, BOUNDS)).toMatchObject({ body: "hello", isCut: false });
  });

  it("stops reading a body at its limit, and fails with the reason", async () => {
    const { exchanges } = await rude((socket) => {
      const more = (): void => void (socket.writable && socket.write("x".repeat(10_000), more));
      socket.write("HTTP/1.1 200 OK\r\n\r\n", more);
    });
    const { body, isCut } = await exchanges.ask(GET, { ...BOUNDS, bytesMax: 50_000 });
    expect([body.length, isCut]).toEqual([50_000, true]);
  });

  it.each<readonly [what: string, request: Request]>([
    ["path", { ...GET, target: "/a b" }],
    ["path", { ...GET, target: "/\r\nX: y" }],
    ["header", { ...GET, headers: { authorization: "Bearer secret\r\nX: y" } }],
    ["header", { ...GET, headers: { "x\r\ny": "z" } }],
  ])("HX4 rejects a %s with an invalid character, such as a line break, and does not quote it", async (_what, request) => {
    const { exchanges, connections } = await rude((socket) => socket.write(X));
    const error = await exchanges.ask(request, BOUNDS).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).not.toMatch(/secret|GET/);
    expect(connections()).toBe(0);
  });

  it("finishes calls in flight after retire, and keeps no connection", async () => {
    let closed = 0;
    const { exchanges } = await rude((socket) => {
      socket.once("close", () => closed++);
      setTimeout(() => socket.write(X), 50);
    });
    const call = exchanges.ask(GET, BOUNDS);
    exchanges.retire();
    expect((await call).body).toBe("x");
    await after(50);
    expect(closed).toBe(1);
  });

  describe("over TLS", () => {
    let folder: string;
    let key: Buffer;
    let cert: Buffer;
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "http1-"));
      const [keyFile, certFile] = [join(folder, "key.pem"), join(folder, "cert.pem")];
      const subject = ["-subj", "/CN=x", "-addext", `subjectAltName=IP:${LOOPBACK}`];
      const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
      execFileSync("openssl", ["req", "-x509", ...kind, "-keyout", keyFile, "-out", certFile, ...subject], { stdio: "ignore" });
      [key, cert] = [readFileSync(keyFile), readFileSync(certFile)];
    });
    afterAll(() => rmSync(folder, { recursive: true }));

    async function serve(): Promise<{ readonly port: number; readonly seen: string[]; readonly resumed: boolean[] }> {
      const [seen, resumed]: [string[], boolean[]] = [[], []];
      const server = createHttpsServer({ key, cert }, (request, response) => {
        seen.push(String(request.headers.authorization));
        response.end("x");
      });
      server.on("secureConnection", (socket) => resumed.push(socket.isSessionReused()));
      return { port: await listen(server), seen, resumed };
    }
    const secret: Request = { ...GET, headers: { authorization: "Bearer t" } };

    it("connects to a verified server, and resumes its session", async () => {
      const { port, seen, resumed } = await serve();
      const exchanges = exchangesOf(port, { ca: cert });
      await exchanges.ask(secret, BOUNDS);
      await Promise.all([1, 2].map(() => exchanges.ask(secret, BOUNDS)));
      expect(seen).toEqual(["Bearer t", "Bearer t", "Bearer t"]);
      expect(resumed).toEqual([false, true]);
    });

    it("HX1 reuses connections in bursts from a timer, where write callbacks run after the responses", async () => {
      // A server in its own thread, which responds while this thread is busy; each response is the number of its connections so far.
      const server = new Worker(
        `const { parentPort, workerData } = require("node:worker_threads");
        let count = 0;
        const server = require("node:https").createServer(workerData, (request, response) => setTimeout(() => response.end(String(count)), 2));
        server.on("secureConnection", () => count++);
        server.listen(0, "${LOOPBACK}", () => parentPort.postMessage(server.address().port));`,
        { eval: true, workerData: { key, cert } },
      );
      ending.push(() => server.terminate());
      const [port] = (await once(server, "message")) as [number];
      const exchanges = exchangesOf(port, { ca: cert });
      let connections = 0;
      for (let burst = 0; burst < 10; burst++) {
        await after(5);
        const calls = Array.from({ length: 8 }, async () => {
          const call = exchanges.ask(secret, BOUNDS);
          const until = performance.now() + 1;
          while (performance.now() < until); // simulates other work
          return Number((await call).body);
        });
        connections = Math.max(connections, ...(await Promise.all(calls)));
      }
      expect(connections).toBeLessThan(12);
    });

    it("sends nothing to a server with an unverified certificate or another name", async () => {
      const { port, seen } = await serve();
      await expect(exchangesOf(port, {}).ask(secret, BOUNDS)).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
      const other = exchangesOf(port, { ca: cert, servername: "example.com" });
      await expect(other.ask(secret, BOUNDS)).rejects.toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
      await after(50);
      expect(seen).toEqual([]);
      expect((await exchangesOf(port, { rejectUnauthorized: false }).ask(secret, BOUNDS)).body).toBe("x");
    });
  });
});
