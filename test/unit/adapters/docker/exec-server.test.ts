/** Would catch: an address that is good twice, a stream that loses bytes or its end, an exit code that comes late, never, or in other words. */
import { once } from "node:events";
import { request } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { constants, createDeflate } from "node:zlib";

import type Docker from "dockerode";
import { afterEach, describe, expect, it } from "vitest";

import { createExecServer } from "../../../../shared/adapters/docker/streaming/exec-server.ts";
import type { ExecServer } from "../../../../shared/adapters/docker/streaming/exec-server.ts";
import { DICTIONARY } from "../../../../shared/adapters/docker/streaming/spdy-dictionary.ts";

const REQUEST = { containerId: "1f", cmd: ["cat"], tty: false, stdin: true, stdout: true, stderr: true };
const STREAMS = ["error", "stdin", "stdout", "stderr"];

let server: ExecServer | undefined;
afterEach(() => server?.close());

/** A daemon with one command: it says back what it is told, and how much that was on its other stream when that ends. */
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
  return { getContainer: () => ({ exec: async () => exec }) } as unknown as Docker; // what is called of it
}

/** The client's side: opens all streams, writes `input` and ends it; what came on each stream until the connection ended. */
async function run(address: string, input: Buffer): Promise<Readonly<Record<string, string>>> {
  const socket = await upgrade(address);
  const deflate = createDeflate({ dictionary: DICTIONARY });
  for (const [index, name] of STREAMS.entries()) {
    const headers = Buffer.concat([uint32(1), word("streamtype"), word(name)]);
    deflate.write(headers);
    await new Promise<void>((resolve) => deflate.flush(constants.Z_SYNC_FLUSH, resolve));
    const block = deflate.read() as Buffer; // no encoding is set
    socket.write(frame(0x8003_0001, 0, Buffer.concat([uint32(2 * index + 1), uint32(0), Buffer.alloc(2), block])));
  }
  socket.write(frame(0x8003_0006, 0, uint32(9)));
  // Torn where no frame ends.
  const sent = Buffer.concat([frame(3, 0, input), frame(3, 1, Buffer.alloc(0))]);
  for (let from = 0; from < sent.length; from += 7_001) socket.write(sent.subarray(from, from + 7_001));
  return read(await collect(socket));
}

function read(bytes: Buffer): Readonly<Record<string, string>> {
  const said: Record<string, string> = {};
  for (let at = 0; at < bytes.length;) {
    const [first, second] = [bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)];
    const payload = bytes.subarray(at + 8, at + 8 + (second & 0xff_ffff));
    at += 8 + payload.length;
    if (first >= 0x8000_0000) said[`control ${first & 0xffff}`] = (said[`control ${first & 0xffff}`] ?? "").concat("+");
    else {
      const name = STREAMS[(first - 1) / 2] ?? "";
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
  refused.catch(() => undefined); // told below, if at all
  const [, socket] = (await Promise.race([once(call, "upgrade"), refused])) as [unknown, Socket]; // as node:http has it
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
  it("gets all of its input, says all of its output, and then how it ended", async () => {
    server = createExecServer(daemon(7));
    const input = Buffer.from("line\n".repeat(60_000));
    const said = await run(await server.address(REQUEST), input);
    expect(said["stdout"] === `${input.toString()}|`).toBe(true);
    expect(said["stderr"]).toBe("300000 bytes\n|");
    expect(JSON.parse((said["error"] ?? "").replace(/\|$/u, ""))).toMatchObject({
      status: "Failure",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "7" }] },
    });
    expect([said["control 2"], said["control 6"]]).toEqual(["++++", "+"]); // each stream is answered, and the ping
  });

  it("has ended well, when its code is 0", async () => {
    server = createExecServer(daemon(0));
    expect((await run(await server.address(REQUEST), Buffer.from("x")))["error"]).toBe('{"metadata":{},"status":"Success"}|');
  });

  it("is told what went wrong before it began", async () => {
    const away = { getContainer: () => ({ exec: async () => Promise.reject(Object.assign(new Error("gone"), { code: "ECONNREFUSED" })) }) };
    server = createExecServer(away as unknown as Docker); // what is called of it
    expect((await run(await server.address(REQUEST), Buffer.from("x")))["error"]).toContain('"reason":"InternalError"');
  });

  it("DX1 has an address for one connection, in the protocol it speaks", async () => {
    server = createExecServer(daemon(0));
    const address = await server.address(REQUEST);
    await expect(upgrade(address.replace(/[^/]+$/u, "guessed"))).rejects.toThrow("404");
    await expect(upgrade(address, "v4.channel.k8s.io", "websocket")).rejects.toThrow("400");
    await expect(upgrade(address, "v2.channel.k8s.io")).rejects.toThrow("403");
    (await upgrade(address)).destroy();
    await expect(upgrade(address)).rejects.toThrow("404");
  });
});
