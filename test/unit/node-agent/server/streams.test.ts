/**
 * Would catch: bytes that are lost at either end of a stream, a connection that stays open after its other side has closed, credentials
 * that are passed on to the runtime, and a runtime that redirects to another host.
 */
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Duplex } from "node:stream";
import type { DuplexOptions } from "node:stream";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { joinStreams, streamingAddress } from "../../../../shared/node-agent/server/upgrade-proxy.ts";
import { bodyOf, createTestPki, startFixture, TOKEN } from "./fixture.ts";
import type { Fixture } from "./fixture.ts";

const EXEC = "/exec/shop/web/main?command=sh&command=-c&command=echo+%24HOME&input=1&output=1&error=1";
const LARGE_BYTES = 3_000_000;

let tls: { readonly cert: string; readonly key: string };
let remove: () => void;
let fixture: Fixture;
let runtime: Runtime;

beforeAll(async () => {
  const { pki, ...rest } = await createTestPki();
  const server = await pki.serverCertificate();
  tls = { cert: server.certificate, key: server.key };
  remove = () => rest.remove();
});
afterAll(() => remove?.());
beforeEach(async () => {
  [fixture, runtime] = [await startFixture({ tls }), await startRuntime()];
  fixture.script.execUrl = runtime.url;
});
afterEach(async () => {
  await fixture.stop();
  runtime.stop();
});

interface Runtime {
  readonly url: string;
  readonly requests: readonly IncomingMessage[];
  /** Handles the upgraded connection. Default: echoes every byte. */
  serve: (socket: Duplex) => void;
  /** A rejection to send instead of the upgrade. */
  refusal?: { readonly code: number; readonly body: string };
  stop(): void;
}

/** A runtime's streaming server. */
async function startRuntime(): Promise<Runtime> {
  const requests: IncomingMessage[] = [];
  const sockets = new Set<Duplex>();
  const server: Server = createServer();
  const refuse = (socket: Duplex): void => {
    const { code, body } = running.refusal ?? { code: 101, body: "" };
    socket.end(`HTTP/1.1 ${code} No\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
  server.on("upgrade", (request, socket, head) => {
    requests.push(request);
    sockets.add(socket.on("error", () => undefined).on("end", () => socket.end()));
    if (running.refusal !== undefined) return refuse(socket);
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n");
    if (head.length > 0) socket.unshift(head);
    running.serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const running: Runtime = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/exec/once`, // a listening TCP server has an AddressInfo
    requests,
    serve: (socket) => void socket.pipe(socket),
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return running;
}

async function upgraded(options?: Parameters<Fixture["upgrade"]>[1]): Promise<Socket> {
  const { socket, answer } = await fixture.upgrade(EXEC, options);
  expect(answer.statusCode).toBe(101);
  return socket as Socket; // a response with 101 has a socket
}

async function drained(socket: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk); // without an encoding a socket yields buffers
  return Buffer.concat(chunks);
}

/** Returns a writer that takes 20 ms per chunk, appends it to `said`, and ends when the test says so. */
function slowReader(options: DuplexOptions = {}): { readonly slow: Duplex; readonly said: readonly string[] } {
  const said: string[] = [];
  const slow = new Duplex({
    ...options,
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      said.push(chunk.toString());
      setTimeout(done, 20);
    },
    final: (done) => {
      slow.push(null);
      done();
    },
  });
  return { slow, said };
}

const closed = (socket: Duplex): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) return resolve();
    socket.on("error", () => undefined).once("close", () => resolve());
  });

describe("a command in a container", () => {
  it("a command is passed unchanged to the runtime for the newest running container [node-agent 102]", async () => {
    const socket = await upgraded();
    socket.destroy();
    expect(fixture.execs).toEqual([
      { containerId: "c1", cmd: ["sh", "-c", "echo $HOME"], tty: false, stdin: true, stdout: true, stderr: true },
    ]);
  });

  it("a command with a terminal has a single output stream", async () => {
    const { socket } = await fixture.upgrade("/exec/shop/web/u1/main?command=sh&output=1&error=1&tty=1");
    socket?.destroy();
    expect(fixture.execs).toEqual([{ containerId: "c1", cmd: ["sh"], tty: true, stdin: false, stdout: true, stderr: false }]);
  });

  it("the runtime receives the client's request with its protocols, but without its token [node-agent 102]", async () => {
    const protocols = ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
    const socket = await upgraded({ headers: { "x-stream-protocol-version": protocols } });
    socket.destroy();
    const [request] = runtime.requests;
    expect([request?.method, request?.url]).toEqual(["POST", "/exec/once"]);
    expect(request?.headersDistinct["x-stream-protocol-version"]).toEqual(protocols);
    expect(request?.headers.upgrade).toBe("SPDY/3.1");
    expect(JSON.stringify(request?.rawHeaders)).not.toContain(TOKEN);
    expect(JSON.stringify(fixture.log.lines)).not.toContain("HOME");
  });

  it("a command receives and returns every byte, and then both sides are closed [node-agent 102]", async () => {
    const socket = await upgraded();
    const back = drained(socket);
    const sent = Buffer.alloc(LARGE_BYTES, "0123456789\n");
    socket.end(sent);
    expect((await back).equals(sent)).toBe(true);
    await closed(socket);
  });

  it("a command's output is read to its last byte when the runtime ends first", async () => {
    const said = Buffer.alloc(LARGE_BYTES, "abcdefghij\n");
    runtime.serve = (socket) => void socket.end(said);
    const socket = await upgraded();
    expect((await drained(socket)).equals(said)).toBe(true);
    await closed(socket);
  });

  it("a stream is closed when its client or the runtime disconnects", async () => {
    const seen = Promise.withResolvers<Duplex>();
    runtime.serve = (socket) => seen.resolve(socket.resume());
    const client = await upgraded();
    client.destroy();
    await closed(await seen.promise);

    runtime.serve = (socket) => void socket.destroy();
    await closed(await upgraded());
  });

  it("a stream is closed when the server stops", async () => {
    const seen = Promise.withResolvers<Duplex>();
    runtime.serve = (socket) => seen.resolve(socket.resume());
    const client = await upgraded();
    const server = await seen.promise;
    await fixture.stop();
    await Promise.all([closed(client), closed(server)]);
  });
});

describe("a command that cannot be run", () => {
  const refused: readonly {
    readonly name: string;
    readonly path: string;
    readonly want: { readonly code: number; readonly body: string };
  }[] = [
    {
      name: "without any stream",
      path: "/exec/shop/web/main?command=true",
      want: { code: 400, body: "you must specify at least 1 of stdin, stdout, stderr" },
    },
    { name: "in a pod that does not exist", path: "/exec/shop/api/main?output=1", want: { code: 404, body: "pod does not exist" } },
    { name: "in a pod with another uid", path: "/exec/shop/web/u2/main?output=1", want: { code: 404, body: "pod does not exist" } },
  ];
  it.each(refused)("a command is rejected with upstream's message: $name", async ({ path, want }) => {
    const { answer } = await fixture.upgrade(path);
    expect({ code: answer.statusCode, body: await bodyOf(answer) }).toEqual(want);
    expect(fixture.execs).toEqual([]);
  });

  it("a command is rejected without an upgrade header or without a running container of that name", async () => {
    expect(await fixture.ask(EXEC, { method: "POST" })).toEqual({ code: 500, body: "Upgrade request required\n" });
    fixture.script.containerState = "CONTAINER_EXITED";
    const { answer } = await fixture.upgrade(EXEC);
    expect({ code: answer.statusCode, body: await bodyOf(answer) }).toEqual({ code: 500, body: `container not found ("main")\n` });
  });

  it("a command fails with the runtime's message, or with 500 if the runtime is unreachable", async () => {
    runtime.refusal = { code: 404, body: "no such token" };
    const { answer } = await fixture.upgrade(EXEC);
    expect({ code: answer.statusCode, body: await bodyOf(answer) }).toEqual({ code: 404, body: "no such token" });
    runtime.stop();
    const gone = (await fixture.upgrade(EXEC)).answer;
    expect({ code: gone.statusCode, body: await bodyOf(gone) }).toMatchObject({ code: 500, body: expect.stringContaining("ECONNREFUSED") });
  });

  it.each([
    "http://10.0.0.1:80/exec/x",
    "http://localhost.example:80/",
    "https://127.0.0.1:80/",
    "ftp://127.0.0.1/",
    "http://[::2]/",
    "nonsense",
    "",
  ])("a stream is not forwarded to the runtime URL %j", async (url) => {
    fixture.script.execUrl = url;
    const { answer } = await fixture.upgrade(EXEC);
    expect({ code: answer.statusCode, body: await bodyOf(answer) }).toMatchObject({
      code: 500,
      body: expect.stringContaining("only http on loopback"),
    });
  });

  it.each(["http://127.0.0.1:1/exec/x", "http://127.1.2.3:1/", "http://[::1]:1/", "http://localhost:1/"])(
    "a stream is forwarded to the runtime URL %j",
    (url) => {
      expect(streamingAddress(url).href).toBe(url);
    },
  );
});

describe("attaching to a running process", () => {
  const attach = "/attach/shop/web";
  it("attach uses the requested streams, and a terminal if the container has one [node-agent 300]", async () => {
    (await fixture.upgrade(`${attach}/main?input=1&output=1&error=1`)).socket?.destroy();
    (await fixture.upgrade(`${attach}/main?input=1&output=1&error=1&tty=1`)).socket?.destroy();
    (await fixture.upgrade(`${attach}/u1/shell?input=1&output=1&error=1`)).socket?.destroy();
    const all = { containerId: "c1", stdin: true, stdout: true };
    expect(fixture.attaches).toEqual([
      { ...all, stderr: true, tty: false },
      { ...all, stderr: true, tty: false },
      { ...all, stderr: false, tty: true },
    ]);
    expect(runtime.requests).toHaveLength(3);
  });

  it("attach is rejected with upstream's message [node-agent 300]", async () => {
    const refusal = async (path: string): Promise<readonly [number | undefined, string]> => {
      const { answer } = await fixture.upgrade(path);
      return [answer.statusCode, await bodyOf(answer)];
    };
    expect(await refusal(`${attach}/main`)).toEqual([400, "you must specify at least 1 of stdin, stdout, stderr"]);
    expect(await refusal(`/attach/shop/api/main?output=1`)).toEqual([404, "pod does not exist"]);
    expect(await refusal(`${attach}/none?output=1`)).toEqual([500, "container none not found in pod web_shop"]);
    expect(await fixture.ask(`${attach}/main?output=1`, { method: "POST" })).toEqual({ code: 500, body: "Upgrade request required\n" });
    fixture.script.containerState = "CONTAINER_EXITED";
    expect(await refusal(`${attach}/main?output=1`)).toEqual([500, "container main not found in pod web_shop"]);
    expect(fixture.attaches).toEqual([]);
  });
});

describe("ports of a pod", () => {
  const forward = "/portForward/shop/web";
  const overWebSocket = { method: "GET", headers: { upgrade: "websocket" } };

  it("ports are forwarded into the newest sandbox; a WebSocket client sends the port numbers first [node-agent 301]", async () => {
    (await fixture.upgrade(forward)).socket?.destroy();
    (await fixture.upgrade(`${forward}/u1`)).socket?.destroy();
    (await fixture.upgrade(`${forward}?port=80,443&port=8080`, overWebSocket)).socket?.destroy();
    expect(fixture.forwards).toEqual([
      ["s2", []],
      ["s2", []],
      ["s2", [80, 443, 8080]],
    ]);
  });

  it.each([
    ["", 400, `query parameter "port" is required`],
    ["?port=", 400, `query parameter "port" cannot be empty`],
    ["?port=80,x", 400, `unable to parse "80,x" as a port`],
    ["?port=65536", 400, `unable to parse "65536" as a port`],
    ["?port=0", 400, `port "0" must be > 0`],
    ["/u2?port=80", 404, "pod not found"],
  ])("ports of a WebSocket client are validated: %j returns %i '%s' [node-agent 301]", async (query, code, body) => {
    const { answer } = await fixture.upgrade(`${forward}${query}`, overWebSocket);
    expect([answer.statusCode, await bodyOf(answer)]).toEqual([code, body]);
    expect(fixture.forwards).toEqual([]);
  });

  it("ports are rejected while no sandbox of the pod is ready [node-agent 301]", async () => {
    fixture.script.sandboxes = [];
    const { answer } = await fixture.upgrade(forward);
    expect([answer.statusCode, await bodyOf(answer)]).toEqual([500, `pod not found ("web_shop")`]);
  });
});

describe("the run endpoint", () => {
  const post = { method: "POST" };
  it("returns the command's output or exit code [node-agent 302]", async () => {
    fixture.script.execSync = (cmd) => ({ stdout: `${cmd.join("|")}\n`, stderr: "err\n", exitCode: cmd[0] === "false" ? 3 : 0 });
    expect(await fixture.ask("/run/shop/web/main?cmd=ls+-l", post)).toEqual({ code: 200, body: "ls|-l\nerr\n" });
    expect(await fixture.ask("/run/shop/web/u1/main?cmd=false", post)).toEqual({ code: 500, body: "command 'false' exited with 3: err\n" });
    expect(await fixture.ask("/run/shop/api/main?cmd=ls", post)).toEqual({ code: 404, body: "pod does not exist" });
    fixture.script.containerState = "CONTAINER_EXITED";
    expect(await fixture.ask("/run/shop/web/main?cmd=ls", post)).toEqual({ code: 500, body: `container not found ("main")` });
  });

  it("[node-agent 499] a run request is aborted when its client disconnects", async () => {
    const runs = Promise.withResolvers<AbortSignal | undefined>();
    fixture.script.execSync = (_cmd, signal) => {
      runs.resolve(signal);
      return new Promise(() => undefined);
    };
    const goes = new AbortController();
    const asking = fixture.open("/run/shop/web/main?cmd=sleep+infinity", { method: "POST", signal: goes.signal });
    asking.catch(() => undefined);
    const signal = await runs.promise;
    goes.abort();
    await expect.poll(() => signal?.aborted, { timeout: 2_000 }).toBe(true);
  });
});

describe("two joined streams", () => {
  /** Returns the two ends of a stream. */
  function pair(): readonly [Duplex, Duplex] {
    const ends: Duplex[] = [];
    const end = (other: 0 | 1): Duplex => {
      const give = (chunk: Buffer | null, done: () => void): void => {
        ends[other]?.push(chunk);
        done();
      };
      return new Duplex({
        read: () => undefined,
        write: (chunk: Buffer, _encoding, done) => give(chunk, done),
        final: (done) => give(null, done),
      });
    };
    ends.push(end(1), end(0));
    return ends as [Duplex, Duplex]; // an array of two
  }

  it("joined streams may stay open in one direction for a limited time", async () => {
    const [[a, farA], [b, farB]] = [pair(), pair()];
    const joined = joinStreams(a, b, { lingerMs: 50 });
    farA.end("bye");
    expect((await drained(farB)).toString()).toBe("bye");
    farB.write("wait");
    farA.once("data", (chunk) => expect(String(chunk)).toBe("wait"));
    await joined; // farB never ends
    expect([a.destroyed, b.destroyed]).toEqual([true, true]);
  });

  it("joined streams deliver all bytes to a slow reader, even if the other side has closed", async () => {
    const { slow, said } = slowReader({ highWaterMark: 100 });
    const quick = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done(), allowHalfOpen: false });
    for (const word of ["a", "b", "c", null]) quick.push(word);
    await joinStreams(slow, quick);
    expect(said.join("")).toBe("abc");
  });

  it("joined streams deliver all bytes to a slow reader, even if the other side was reset [node-agent 466]", async () => {
    const { slow, said } = slowReader();
    const broken = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
    const quick = new Duplex({
      read: () => undefined,
      // It has sent everything and is closed, but its last bytes are unread.
      write: (_chunk, _encoding, done) => {
        for (const word of ["b", "c", null]) setTimeout(() => quick.push(word), 5);
        done(broken);
      },
      allowHalfOpen: false,
    });
    const joined = joinStreams(slow, quick);
    quick.push("a");
    for (const word of ["window", "window"]) setTimeout(() => slow.push(word), 10); // bytes that are not read
    await joined;
    expect(said.join("")).toBe("abc");
  });

  it("joined streams end after the idle timeout", async () => {
    runtime.serve = () => undefined;
    const [a, b] = [await upgraded(), await upgraded()];
    await joinStreams(a, b, { idleMs: 50 });
    expect([a.destroyed, b.destroyed]).toEqual([true, true]);
  });
});
