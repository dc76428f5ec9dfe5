/**
 * Docker has no streaming server, so this provides the one that CRI runtimes have: it serves one-time URLs on the loopback interface.
 *
 * DX1 a URL contains a random secret, and is valid for one connection within a minute.
 * DX2 the exit status is sent after all output, and before the connection ends.
 *
 * Source: cri-streaming pkg/streaming/server.go, request_cache.go.
 */
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

import { CriError } from "@deltaloop/node-agent/ports";

/** Handles one connection. */
export interface Session {
  readonly kind: "exec" | "attach" | "portforward";
  /** The subprotocol that the client must offer over SPDY. */
  readonly protocol: string;
  /** Runs until the connection ends; an error destroys it. */
  serve(socket: Duplex): Promise<void>;
}

export interface StreamingServer {
  /** Returns the URL of a new session. @throws {CriError} ResourceExhausted if too many URLs are unused */
  address(session: Session): Promise<string>;
  /** Closes the server and all connections. */
  close(): void;
}

/** Source: request_cache.go cacheTTL, maxInFlight. */
const ADDRESS_MS = 60_000;
const ADDRESSES_MAX = 1_000;

export function createStreamingServer(): StreamingServer {
  const waiting = new Map<string, Session>();
  const sockets = new Set<Duplex>();
  let listening: Promise<Server> | undefined;

  const upgraded = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).once("close", () => sockets.delete(socket));
    const path = request.url?.slice(1) ?? "";
    const session = waiting.get(path);
    if (session === undefined) return refuse(socket, "404 Not Found", "404 page not found\n");
    if (request.headers.upgrade?.toUpperCase() !== "SPDY/3.1") return refuse(socket, "400 Bad Request", "only SPDY/3.1 is supported\n");
    const { protocol } = session;
    const protocols = (request.headersDistinct["x-stream-protocol-version"] ?? [])
      .flatMap((line) => line.split(","))
      .map((one) => one.trim());
    if (!protocols.includes(protocol))
      return refuse(
        socket,
        "403 Forbidden",
        `unable to upgrade: only ${protocol} is supported, client supports: ${protocols.join(", ")}\n`,
      );
    waiting.delete(path);
    const answer = ["Connection: Upgrade", "Upgrade: SPDY/3.1", `X-Stream-Protocol-Version: ${protocol}`];
    socket.write(["HTTP/1.1 101 Switching Protocols", ...answer, "", ""].join("\r\n"));
    if (head.length > 0) socket.unshift(head);
    await session.serve(socket);
  };

  const listen = async (): Promise<Server> => {
    const server = createServer((_request, response) => void response.writeHead(400).end("Upgrade request required\n"));
    server.on("upgrade", (request, socket, head) => void upgraded(request, socket, head).catch(() => socket.destroy()));
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
    server.unref();
    return server;
  };

  return {
    async address(session) {
      if (waiting.size >= ADDRESSES_MAX) throw new CriError("ResourceExhausted", "maximum number of in-flight requests exceeded");
      listening ??= listen();
      listening.catch(() => (listening = undefined)); // the caller receives the error, and the next caller retries
      const { port } = (await listening).address() as AddressInfo; // a TCP server has an AddressInfo
      const path = `${session.kind}/${randomBytes(24).toString("base64url")}`;
      waiting.set(path, session);
      setTimeout(() => waiting.delete(path), ADDRESS_MS).unref();
      return `http://127.0.0.1:${port}/${path}`;
    },
    close() {
      waiting.clear();
      void listening?.then((server) => server.close()).catch(() => undefined);
      for (const socket of sockets) socket.destroy();
    },
  };
}

function refuse(socket: Duplex, status: string, text: string): void {
  const headers = ["Content-Type: text/plain; charset=utf-8", `Content-Length: ${Buffer.byteLength(text)}`, "Connection: close"];
  socket.end([`HTTP/1.1 ${status}`, ...headers, "", text].join("\r\n"));
}
