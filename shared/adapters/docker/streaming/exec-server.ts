/**
 * Where a command with streams is taken, as a runtime's streaming server does it: an address for one connection, on the loopback, for
 * a minute. Docker has no such server; its own protocol ends here.
 *
 * DX1 an address is a secret that nobody can guess, and good for one connection.
 * DX2 how the command ended comes before the end of the connection, after all it said.
 *
 * Source: cri-streaming pkg/streaming/server.go, request_cache.go; remotecommand httpstream.go, v4 of its protocol.
 */
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

import type Docker from "dockerode";

import { CriError } from "../../../ports/cri-error.ts";
import type { ExecRequest } from "../../../ports/cri-types.ts";
import { runExec } from "./run-exec.ts";
import { serveSpdy } from "./spdy.ts";
import type { SpdyStream } from "./spdy.ts";

export interface ExecServer {
  /** @throws {CriError} ResourceExhausted when too many were asked for and not used */
  address(request: ExecRequest): Promise<string>;
  /** Streams under way end. */
  close(): void;
}

/** Source: request_cache.go cacheTTL, maxInFlight. */
const ADDRESS_MS = 60_000;
const ADDRESSES_MAX = 1_000;
const PROTOCOL = "v4.channel.k8s.io";
/** Source: remotecommand DefaultStreamCreationTimeout. */
const STREAMS_MS_MAX = 30_000;

export function createExecServer(docker: Docker): ExecServer {
  const waiting = new Map<string, ExecRequest>();
  const sockets = new Set<Duplex>();
  let listening: Promise<Server> | undefined;

  const upgraded = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).once("close", () => sockets.delete(socket));
    const token = /^\/exec\/([\w-]+)$/u.exec(request.url ?? "")?.[1] ?? "";
    const exec = waiting.get(token);
    if (exec === undefined) return refuse(socket, "404 Not Found", "404 page not found\n");
    if (request.headers.upgrade?.toUpperCase() !== "SPDY/3.1") return refuse(socket, "400 Bad Request", "only SPDY/3.1 is spoken here\n");
    const protocols = (request.headersDistinct["x-stream-protocol-version"] ?? [])
      .flatMap((line) => line.split(","))
      .map((one) => one.trim());
    if (!protocols.includes(PROTOCOL))
      return refuse(
        socket,
        "403 Forbidden",
        `unable to upgrade: only ${PROTOCOL} is supported, client supports: ${protocols.join(", ")}\n`,
      );
    waiting.delete(token);
    const answer = ["Connection: Upgrade", "Upgrade: SPDY/3.1", `X-Stream-Protocol-Version: ${PROTOCOL}`];
    socket.write(["HTTP/1.1 101 Switching Protocols", ...answer, "", ""].join("\r\n"));
    if (head.length > 0) socket.unshift(head);
    await connect(docker, exec, socket);
  };

  const listen = async (): Promise<Server> => {
    const server = createServer((_request, response) => void response.writeHead(400).end("Upgrade request required\n"));
    server.on("upgrade", (request, socket, head) => void upgraded(request, socket, head).catch(() => socket.destroy()));
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
    server.unref();
    return server;
  };

  return {
    async address(request) {
      if (waiting.size >= ADDRESSES_MAX) throw new CriError("ResourceExhausted", "maximum number of in-flight requests exceeded");
      listening ??= listen();
      listening.catch(() => (listening = undefined)); // told to the caller; the next one may try again
      const { port } = (await listening).address() as AddressInfo; // it listens on a port
      const token = randomBytes(24).toString("base64url");
      waiting.set(token, request);
      setTimeout(() => waiting.delete(token), ADDRESS_MS).unref();
      return `http://127.0.0.1:${port}/exec/${token}`;
    },
    close() {
      waiting.clear();
      void listening?.then((server) => server.close()).catch(() => undefined);
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The client opens the streams it wants to use; when all are there the command runs. */
async function connect(docker: Docker, request: ExecRequest, socket: Duplex): Promise<void> {
  const wanted = ["error", ...(["stdin", "stdout", "stderr"] as const).filter((name) => request[name]), ...(request.tty ? ["resize"] : [])];
  const streams = new Map<string, SpdyStream>();
  const late = setTimeout(() => socket.destroy(), STREAMS_MS_MAX);
  let isRunning = false;
  await serveSpdy(socket, (stream) => {
    streams.set(stream.headers.get("streamtype") ?? "", stream);
    if (isRunning || !wanted.every((name) => streams.has(name))) return;
    isRunning = true;
    clearTimeout(late);
    runExec(docker, request, streams, socket).then(
      () => socket.end(),
      () => socket.destroy(), // there is nobody to be told
    );
  }).finally(() => clearTimeout(late));
}

function refuse(socket: Duplex, status: string, text: string): void {
  const headers = ["Content-Type: text/plain; charset=utf-8", `Content-Length: ${Buffer.byteLength(text)}`, "Connection: close"];
  socket.end([`HTTP/1.1 ${status}`, ...headers, "", text].join("\r\n"));
}
