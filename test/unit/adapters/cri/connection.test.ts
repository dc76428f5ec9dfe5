// The connection to the container runtime: time-outs, long calls and aborts.
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createHttp2Server } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { connect } from "../../../../shared/node-agent/cri/connection.ts";
import type { Method } from "../../../../shared/node-agent/cri/load.ts";

const method: Method = { path: "/runtime.v1.RuntimeService/Version", encode: () => Buffer.alloc(16 * 1024), decode: () => ({}) };
const LONGER_THAN_A_TIMER_MS = 2_592_120_000;
const MANY = 300;

let folder: string;
let path: string;
let server: Server | undefined;
const sockets = new Set<Socket>();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-cri-"));
  path = join(folder, "s");
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  server?.close();
  await rm(folder, { recursive: true });
});

async function listening(made: Server): Promise<void> {
  server = made;
  made.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => made.listen(path, resolve));
}

it("every waiting call times out when the runtime stops reading", async () => {
  await listening(createServer((socket) => socket.pause()));
  const connection = connect(path);
  const calls = Array.from({ length: MANY }, () =>
    connection.call(method, {}, { timeoutMs: 200 }).catch((error: { code: string }) => error.code),
  );
  const ended = await Promise.race([Promise.all(calls), sleep(5_000, ["not ended"])]);
  expect([...new Set(ended)]).toEqual(["DeadlineExceeded"]);
  connection.close();
});

it("a call with a timeout of a month waits until it is aborted", async () => {
  await listening(createServer((socket) => socket.pause()));
  const connection = connect(path);
  const abort = new AbortController();
  const call = connection
    .call(method, {}, { timeoutMs: LONGER_THAN_A_TIMER_MS, signal: abort.signal })
    .catch((error: { code: string }) => error.code);
  expect(await Promise.race([call, sleep(50, "waits")])).toBe("waits");
  abort.abort();
  expect(await call).toBe("Canceled");
  connection.close();
});

it("sends a timeout of at most eight digits", async () => {
  const told: unknown[] = [];
  const http2 = createHttp2Server();
  http2.on("stream", (stream, headers) => {
    told.push(headers["grpc-timeout"]);
    stream.respond({ ":status": 200, "grpc-status": "5" }, { endStream: true });
  });
  await listening(http2 as unknown as Server); // a net.Server for HTTP/2
  const connection = connect(path);
  for (const timeoutMs of [1_500, LONGER_THAN_A_TIMER_MS, 2 ** 31 * 1_000])
    await connection.call(method, {}, { timeoutMs }).catch(() => undefined);
  expect(told).toEqual(["1500m", "2592120S", "99999999S"]);
  connection.close();
});
