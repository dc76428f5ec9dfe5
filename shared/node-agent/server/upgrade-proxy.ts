/**
 * Proxies an upgraded connection (SPDY or WebSocket) between a client and the runtime's streaming server, byte by byte.
 *
 * UP1 the agent connects only to a streaming server on the loopback interface, so that a runtime cannot redirect it elsewhere.
 * UP2 the client's credentials are not forwarded.
 * UP3 all bytes from one side reach the other before the end of the stream does, even if that side is closed for writing. When one side
 *     closes, the other closes within 10 s.
 *
 * Source: apimachinery pkg/util/proxy/upgradeaware.go.
 */
import { request as httpRequest, STATUS_CODES } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { BlockList, isIP } from "node:net";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { answer, NodeApiError } from "./answer.ts";

/** A connection with an upgrade request. */
export interface Upgrade {
  readonly socket: Duplex;
  /** Bytes that were received after the request. */
  readonly head: Buffer;
  /** Gives the socket to the caller, which must not use the response afterwards. */
  take(): void;
}

/** Upstream's default of `streamingConnectionIdleTimeout`. */
const IDLE_MS = 4 * 60 * 60_000;
/** Time for which one side may continue after the other side has ended. */
const LINGER_MS = 10_000;
/** Maximum size of an error response that is forwarded. */
const REFUSAL_BYTES_MAX = 64 * 1024;
/** Hop-by-hop headers and credentials, which are not forwarded. */
const NOT_FORWARDED = ["authorization", "content-length", "host", "transfer-encoding"];

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** @throws {NodeApiError} unless the URL has the scheme `http` and a loopback address */
export function streamingAddress(url: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const host = parsed?.hostname.replace(/^\[|\]$/gu, "") ?? "";
  const isLoopback = host === "localhost" || (isIP(host) !== 0 && LOOPBACK.check(host, isIP(host) === 4 ? "ipv4" : "ipv6"));
  if (parsed?.protocol === "http:" && isLoopback) return parsed;
  const help = `only http on loopback is supported (containerd: stream_server_address = "127.0.0.1")`;
  throw new NodeApiError(`the runtime's streaming server is at "${parsed?.origin ?? url}"; ${help}`);
}

/** Resolves when both connections are closed, or when the runtime's rejection has been sent. */
export async function proxyUpgrade(given: {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly upgrade: Upgrade;
  readonly target: URL;
}): Promise<void> {
  const { request, response, upgrade, target } = given;
  const { socket: client, head } = upgrade;
  if (client.destroyed) return; // the client disconnected during the call to the runtime
  const call = httpRequest(target, { method: request.method ?? "POST", headers: forwarded(request), agent: false });
  const dropped = (): void => void call.destroy(new Error("the client disconnected"));
  client.once("close", dropped);
  const answered = new Promise<void>((resolve, reject) => {
    call.on("error", reject);
    call.once("upgrade", (reply, runtime, runtimeHead) => {
      client.off("close", dropped); // from here on, joinStreams handles a closed connection
      upgrade.take();
      client.write(headOf(reply));
      if (runtimeHead.length > 0) client.write(runtimeHead);
      if (head.length > 0) runtime.write(head);
      resolve(joinStreams(client, runtime));
    });
    call.once("response", (reply) => resolve(refuse(reply, response)));
  });
  call.end();
  try {
    await answered;
  } finally {
    client.off("close", dropped);
  }
}

/** Ends both sides after `idleMs` without data in either direction. Resolves when both sides are closed. */
export async function joinStreams(a: Duplex, b: Duplex, { idleMs = IDLE_MS, lingerMs = LINGER_MS } = {}): Promise<void> {
  const sides = [a, b] as const;
  const destroyBoth = (): void => {
    for (const side of sides) side.destroy();
  };
  let linger: NodeJS.Timeout | undefined;
  for (const side of sides) readAfterWriteError(side);
  // Each pipe ends the other side. The pipes are created first, so that the listeners below run after those of `pipe`.
  a.pipe(b).pipe(a);
  const closed = sides.map((side, index) => {
    const other = sides[1 - index] as Duplex; // index is 0 or 1
    // Sockets have a timeout; the Duplexes of tests do not.
    if ("setTimeout" in side) (side as Socket).setTimeout(idleMs, destroyBoth);
    side.once("end", () => (linger ??= setTimeout(destroyBoth, lingerMs)));
    side.on("error", () => side.destroy());
    return new Promise<void>((resolve) => {
      side.once("close", () => {
        // The other side may still have bytes to write, even if this side was reset. This happens when the runtime closes after its last
        // byte: a later byte from the client then resets the connection. Resuming lets the other side reach its own end.
        other.resume();
        if (!side.readableEnded) other.end();
        linger ??= setTimeout(destroyBoth, lingerMs);
        resolve();
      });
    });
  });
  await Promise.all(closed);
  clearTimeout(linger);
}

/**
 * Drops failed writes, and keeps reading to the end. A peer that has finished closes its side, and a later write resets the connection.
 * Node.js would then end both directions and lose unread data: output, and the exit code, without which a client assumes success.
 */
function readAfterWriteError(side: Duplex): void {
  let isBroken = false;
  const dropping = (done: (error?: Error | null) => void) => (error?: Error | null) => {
    isBroken ||= error !== undefined && error !== null;
    done();
  };
  const [write, writev] = [side._write.bind(side), side._writev?.bind(side)];
  side._write = (chunk, encoding, done) => (isBroken ? done() : write(chunk, encoding, dropping(done)));
  if (writev !== undefined) side._writev = (chunks, done) => (isBroken ? done() : writev(chunks, dropping(done)));
}

async function refuse(reply: IncomingMessage, response: ServerResponse): Promise<void> {
  const { statusCode = 500 } = reply;
  if (statusCode < 400) {
    reply.destroy();
    return answer(response, 500, `invalid upgrade response: status code ${statusCode}\n`);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    // without an encoding, a message emits buffers
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > REFUSAL_BYTES_MAX) break;
  }
  answer(response, statusCode, Buffer.concat(chunks).toString(), reply.headers["content-type"]);
}

/** Returns the headers to forward. Keeps repeated headers, such as a client's stream protocols. */
function forwarded(request: IncomingMessage): Record<string, string[]> {
  const kept = Object.entries(request.headersDistinct).filter(([name]) => !NOT_FORWARDED.includes(name));
  return Object.fromEntries(kept.map(([name, values]) => [name, values ?? []]));
}

function headOf({ statusCode = 101, rawHeaders }: IncomingMessage): string {
  const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : []));
  return [`HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}`, ...lines, "", ""].join("\r\n");
}
