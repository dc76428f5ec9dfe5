/** Streams of exec, attach and port-forward on Docker. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { Duplex, PassThrough } from "node:stream";
import { constants, createDeflate } from "node:zlib";

import type Docker from "dockerode";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { portForwardSession } from "../../../../shared/docker/streaming/port-forward.ts";
import { attachSession, execSession } from "../../../../shared/docker/remote-command.ts";
import { createStreamingServer } from "../../../../shared/docker/streaming/streaming-server.ts";
import type { StreamingServer } from "../../../../shared/docker/streaming/streaming-server.ts";
import { DICTIONARY } from "../../../../shared/docker/streaming/spdy-dictionary.ts";

const REQUEST = { containerId: "1f", cmd: ["cat"], tty: false, stdin: true, stdout: true, stderr: true };
const STREAMS = ["error", "stdin", "stdout", "stderr"];

let server: StreamingServer;
beforeEach(() => void (server = createStreamingServer()));
afterEach(() => server.close());
const execAt = (docker: Docker): Promise<string> => server.address(execSession(docker, REQUEST));

/** A daemon with one command, which echoes its input and finally writes the number of bytes to its other stream. */
function daemon(exitCode: number): Docker {
  const piece = (stream: number, data: Buffer): Buffer => Buffer.concat([Buffer.from([stream, 0, 0, 0]), uint32(data.length), data]);
  let bytes = 0;
  const command = new Duplex({
    read() {},
    write(data: Buffer, _encoding, done) {
      bytes += data.length;
      this.push(piece(1, data));
      done();
    },
    final(done) {
      this.push(piece(2, Buffer.from(`${bytes} bytes\n`)));
      this.push(null);
      done();
    },
  });
  const exec = { start: async () => command, inspect: async () => ({ Running: false, ExitCode: exitCode }) };
  // the methods that the server calls
  return { getContainer: () => ({ exec: async () => exec, attach: async () => command }) } as unknown as Docker;
}

/** The client's side: opens all streams, writes `input` and ends it. Returns each stream's data once the connection has ended. */
async function run(address: string, input: Buffer): Promise<Readonly<Record<string, string>>> {
  const socket = await upgrade(address);
  await open(
    socket,
    STREAMS.map((streamtype) => ({ streamtype })),
  );
  socket.write(frame(0x8003_0006, 0, uint32(9)));
  // Split into two chunks within frames.
  const sent = Buffer.concat([frame(3, 0, input), frame(3, 1, Buffer.alloc(0))]);
  for (let from = 0; from < sent.length; from += 7_001) socket.write(sent.subarray(from, from + 7_001));
  return read(await collect(socket));
}

/** Opens streams 1, 3, 5, … */
async function open(socket: Socket, streams: readonly Readonly<Record<string, string>>[]): Promise<void> {
  const deflate = createDeflate({ dictionary: DICTIONARY });
  for (const [index, headers] of streams.entries()) {
    const words = Object.entries(headers).flatMap((pair) => pair.map(word));
    deflate.write(Buffer.concat([uint32(words.length / 2), ...words]));
    await new Promise<void>((resolve) => deflate.flush(constants.Z_SYNC_FLUSH, resolve));
    const block = deflate.read() as Buffer; // no encoding is set
    socket.write(frame(0x8003_0001, 0, Buffer.concat([uint32(2 * index + 1), uint32(0), Buffer.alloc(2), block])));
  }
}

function read(bytes: Buffer, names: readonly string[] = STREAMS): Readonly<Record<string, string>> {
  const said: Record<string, string> = {};
  for (let at = 0; at < bytes.length;) {
    const [first, second] = [bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)];
    const payload = bytes.subarray(at + 8, at + 8 + (second & 0xff_ffff));
    at += 8 + payload.length;
    if (first >= 0x8000_0000) said[`control ${first & 0xffff}`] = (said[`control ${first & 0xffff}`] ?? "").concat("+");
    else {
      const name = names[(first - 1) / 2] ?? "";
      said[name] = `${said[name] ?? ""}${payload.toString()}${second >>> 24 === 1 ? "|" : ""}`;
    }
  }
  return said;
}

async function collect(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function upgrade(address: string, protocol = "v4.channel.k8s.io", to = "SPDY/3.1"): Promise<Socket> {
  const headers = { connection: "Upgrade", upgrade: to, "x-stream-protocol-version": `v3.channel.k8s.io, ${protocol}` };
  const call = request(address, { method: "POST", headers, agent: false }).end();
  const refused = once(call, "response").then(([response]: { readonly statusCode?: number }[]) => {
    throw new Error(`refused: ${response?.statusCode}`);
  });
  refused.catch(() => undefined); // the test below reports the error, if there is one
  const [, socket] = (await Promise.race([once(call, "upgrade"), refused])) as [unknown, Socket]; // the arguments of node:http's event
  return socket;
}

function frame(first: number, flags: number, payload: Buffer): Buffer {
  return Buffer.concat([uint32(first), uint32(flags * 0x100_0000 + payload.length), payload]);
}
function word(text: string): Buffer {
  return Buffer.concat([uint32(text.length), Buffer.from(text)]);
}
function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

describe("a command with streams on Docker [node-agent 402]", () => {
  it("a command receives all input, and returns all output before its exit status", async () => {
    const input = Buffer.from("line\n".repeat(60_000));
    const said = await run(await execAt(daemon(7)), input);
    expect(said["stdout"] === `${input.toString()}|`).toBe(true);
    expect(said["stderr"]).toBe("300000 bytes\n|");
    expect(JSON.parse((said["error"] ?? "").replace(/\|$/u, ""))).toMatchObject({
      status: "Failure",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "7" }] },
    });
    expect([said["control 2"], said["control 6"]]).toEqual(["++++", "+"]); // the server acknowledges each stream and the ping
  });

  it("returns Success for exit code 0", async () => {
    expect((await run(await execAt(daemon(0)), Buffer.from("x")))["error"]).toBe('{"metadata":{},"status":"Success"}|');
  });

  it("returns InternalError if the command cannot be started", async () => {
    const away = { getContainer: () => ({ exec: async () => Promise.reject(Object.assign(new Error("gone"), { code: "ECONNREFUSED" })) }) };
    const address = await execAt(away as unknown as Docker); // the methods that the server calls
    expect((await run(address, Buffer.from("x")))["error"]).toContain('"reason":"InternalError"');
  });

  it("DX1 a client gets a URL that accepts one connection, in the requested protocol", async () => {
    const address = await execAt(daemon(0));
    await expect(upgrade(address.replace(/[^/]+$/u, "guessed"))).rejects.toThrow("404");
    await expect(upgrade(address, "v4.channel.k8s.io", "websocket")).rejects.toThrow("400");
    await expect(upgrade(address, "v2.channel.k8s.io")).rejects.toThrow("403");
    (await upgrade(address)).destroy();
    await expect(upgrade(address)).rejects.toThrow("404");
  });
});

describe("a malicious client [node-agent 497]", () => {
  const closed = (socket: Socket): Promise<void> =>
    new Promise(
      (resolve) =>
        void socket
          .on("error", () => undefined)
          .once("close", () => resolve())
          .resume(),
    );
  const opening = (block: Buffer): Buffer => frame(0x8003_0001, 0, Buffer.concat([uint32(1), uint32(0), Buffer.alloc(2), block]));

  it("closes a client's connection if its headers are invalid", async () => {
    const socket = await upgrade(await execAt(daemon(0)));
    socket.write(opening(Buffer.from("no zlib at all")));
    await closed(socket);
    expect((await run(await execAt(daemon(0)), Buffer.from("x")))["stdout"]).toBe("x|");
  });

  it("closes a client's connection if its headers inflate to megabytes", async () => {
    const socket = await upgrade(await execAt(daemon(0)));
    const ends = closed(socket);
    await open(socket, [{ streamtype: "x".repeat(10_000_000) }]);
    await ends;
  });

  it("accepts long headers without closing the connection", async () => {
    const socket = await upgrade(await execAt(daemon(0)));
    await open(socket, [{ streamtype: "error", long: "x".repeat(40_000) }, ...STREAMS.slice(1).map((streamtype) => ({ streamtype }))]);
    socket.write(frame(3, 1, Buffer.from("x")));
    expect(read(await collect(socket))["stdout"]).toBe("x|");
  });

  it("closes a client's connection if it opens too many streams", async () => {
    const socket = await upgrade(await execAt(daemon(0)));
    const ends = closed(socket);
    await open(
      socket,
      Array.from({ length: 1_100 }, (_none, index) => ({ streamtype: String(index) })),
    );
    await ends;
  });
});

describe("attach to a container's process on Docker [node-agent 461]", () => {
  it("forwards all input and output, and succeeds when the process ends", async () => {
    const { cmd: _cmd, ...request } = REQUEST;
    const said = await run(await server.address(attachSession(daemon(7), request)), Buffer.from("hello"));
    expect(said).toMatchObject({ stdout: "hello|", stderr: "5 bytes\n|", error: '{"metadata":{},"status":"Success"}|' });
  });

  it("an attached terminal has one raw output stream and the client's size", async () => {
    const sizes: object[] = [];
    const screen = new PassThrough();
    const container = {
      attach: async () => Duplex.from({ readable: screen, writable: new PassThrough() }),
      resize: async (size: object) => sizes.push(size),
    };
    const docker = { getContainer: () => container } as unknown as Docker; // the methods that the server calls
    const socket = await upgrade(await server.address(attachSession(docker, { ...REQUEST, tty: true, stderr: false })));
    await open(
      socket,
      ["error", "stdin", "stdout", "resize"].map((streamtype) => ({ streamtype })),
    );
    socket.write(frame(7, 0, Buffer.from('{"Width":99,"Height":33}\n')));
    await expect.poll(() => sizes).toEqual([{ w: 99, h: 33 }]);
    screen.end("/ # \u001b[6n");
    expect(read(await collect(socket), ["error", "stdin", "stdout", "resize"])).toMatchObject({ stdout: "/ # \u001b[6n|" });
  });
});

const isRoot = process.getuid?.() === 0;
describe.skipIf(!isRoot)(isRoot ? "ports of a pod on Docker [node-agent 461]" : "ports of a pod on Docker: root is needed", () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const one of servers.splice(0)) one.close();
  });
  const listen = async (host: string, onSocket: (socket: Socket) => void): Promise<string> => {
    const listening = createServer({ allowHalfOpen: true }, onSocket).listen(0, host);
    servers.push(listening);
    await once(listening, "listening");
    return String((listening.address() as AddressInfo).port); // a listening TCP server has an AddressInfo
  };
  const echo = (prefix: string) => (socket: Socket) => {
    socket.write(prefix);
    socket.pipe(socket);
  };
  /** Opens a session in the network namespace of this test. */
  const session = (): Promise<string> => server.address(portForwardSession("sandbox-1", "/proc/self/ns/net"));

  /** Returns the data and the error stream of each connection after all have ended. */
  async function forwarded(connections: readonly { readonly port: string; readonly input: string }[]): Promise<readonly string[]> {
    const socket = await upgrade(await session(), "portforward.k8s.io");
    const names = connections.flatMap((_one, index) => [`error ${index}`, `data ${index}`]);
    await open(
      socket,
      connections.flatMap(({ port }, index) => ["error", "data"].map((streamtype) => ({ streamtype, port, requestid: String(index) }))),
    );
    for (const [index, { input }] of connections.entries()) socket.write(frame(4 * index + 3, 1, Buffer.from(input)));
    const chunks: Buffer[] = [];
    let said: Readonly<Record<string, string>> = {};
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      said = read(whole(Buffer.concat(chunks)), names);
      if (names.every((name) => said[name]?.endsWith("|"))) break;
    }
    return connections.map((_one, index) => `${said[`data ${index}`]}${said[`error ${index}`]}`);
  }

  it("forwards several connections concurrently without mixing bytes, even to the loopback address", async () => {
    const [four, six] = [await listen("127.0.0.1", echo("four:")), await listen("::1", echo("six:"))];
    const long = "x".repeat(2_000_000);
    const said = await forwarded([
      { port: four, input: long },
      { port: six, input: "second" },
      { port: four, input: "third" },
    ]);
    expect(said[0] === `four:${long}||`).toBe(true);
    expect(said.slice(1)).toEqual(["six:second||", "four:third||"]);
  });

  it("reports an unreachable port and an invalid port", async () => {
    const port = await listen("127.0.0.1", () => undefined);
    servers.pop()?.close();
    expect(await forwarded([{ port, input: "" }])).toEqual([
      expect.stringMatching(new RegExp(`^\\|error forwarding port ${port} to pod sandbox-1, uid : connect ECONNREFUSED .*\\|$`, "u")),
    ]);
    expect(await forwarded([{ port: "0;ls", input: "" }])).toEqual(["|error forwarding port 0;ls to pod sandbox-1, uid : invalid port|"]);
  });

  it("accepts data after the pod has closed its side", async () => {
    let bytes = 0;
    const port = await listen("127.0.0.1", (socket) => socket.on("data", (chunk) => (bytes += chunk.length)).end("bye"));
    expect(await forwarded([{ port, input: "x".repeat(300_000) }])).toEqual(["bye||"]);
    expect(bytes).toBe(300_000);
  });

  it("leaves no process behind when the client disconnects", async () => {
    const port = await listen("127.0.0.1", (socket) => {
      socket.write("there");
      socket.on("error", () => undefined).resume();
      sockets.push(socket);
    });
    const sockets: Socket[] = [];
    const socket = await upgrade(await session(), "portforward.k8s.io");
    await open(
      socket,
      ["error", "data"].map((streamtype) => ({ streamtype, port, requestid: "0" })),
    );
    const relays = (): number =>
      spawnSync("pgrep", ["--parent", String(process.pid), "--full", `${port}$`])
        .stdout.toString()
        .split("\n").length - 1;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      if (!chunk.includes("there")) continue;
      expect(relays()).toBe(1);
      break;
    }
    await expect.poll(relays, { timeout: 5_000 }).toBe(0);
    for (const one of sockets) one.destroy();
  });
});

/** Returns the bytes without an incomplete frame at the end. */
function whole(bytes: Buffer): Buffer {
  let at = 0;
  while (at + 8 <= bytes.length && at + 8 + (bytes.readUInt32BE(at + 4) & 0xff_ffff) <= bytes.length)
    at += 8 + (bytes.readUInt32BE(at + 4) & 0xff_ffff);
  return bytes.subarray(0, at);
}
