/**
 * Serves a page on loopback to one user. Other users of the machine, and any page in a browser, can also connect to the port.
 *
 * TS1 every request needs the cookie that opening the URL with the token sets. All paths start with a random segment, because a cookie is
 *     sent to all ports of a host.
 * TS2 a Host that is not loopback is rejected, so a foreign name that resolves to 127.0.0.1 (DNS rebinding) is rejected; so is a foreign
 *     Origin.
 * TS3 only GET, and no request changes anything.
 * TS4 a client that reads too slowly is disconnected; it reconnects and receives everything.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TimelineInput, TimelineUpdate } from "./input.ts";
import { timelineJson } from "./page.ts";

export interface PageServer {
  /** The page's URL with the token. */
  readonly url: string;
  send(update: TimelineUpdate): void;
  /** Makes all clients read the whole input again. */
  restart(): void;
  close(): Promise<void>;
}

interface ServedPage {
  readonly html: string;
  /** The first data for a new client; absent if the page contains all data. */
  readonly whole?: () => TimelineInput;
}

const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);
const [UNREAD_BYTES_MAX, CLIENTS_MAX] = [32 * 2 ** 20, 16];
/** The browser's delay before it reconnects. */
const RETRY_MS = 1_000;
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

export async function servePage({ html, whole }: ServedPage): Promise<PageServer> {
  const [token, cookie, view] = [secret(), secret(), secret()];
  const clients = new Set<ServerResponse>();
  const server = createServer({ maxHeaderSize: 8_192 }, (request, response) => {
    const refused = refusalOf(request);
    if (refused !== undefined) return end(response, ...refused);
    const path = request.url?.split("?")[0] ?? "";
    if (isSame(path, `/${token}`)) {
      const location = `/${view}/`;
      response.setHeader("set-cookie", `deltaloop=${cookie}; HttpOnly; SameSite=Lax; Path=${location}`);
      return void response.writeHead(303, { ...HEADERS, location }).end();
    }
    if (!isSame(cookieOf(request), cookie)) return end(response, 401, "Open the URL that deltaloop printed.\n");
    if (path === `/${view}/`) return void response.writeHead(200, { ...HEADERS, "content-type": "text/html; charset=utf-8" }).end(html);
    if (path !== `/${view}/events` || whole === undefined) return end(response, 404, "Not Found\n");
    if (clients.size >= CLIENTS_MAX) return end(response, 503, "Too many pages are open.\n");
    response.writeHead(200, { ...HEADERS, "content-type": "text/event-stream" });
    response.write(`retry: ${RETRY_MS}\n\n${messageOf("whole", whole())}`);
    clients.add(response);
    response.on("close", () => clients.delete(response));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const broadcast = (text: string): void => {
    for (const client of clients)
      if (client.writableLength > UNREAD_BYTES_MAX) client.destroy();
      else client.write(text);
  };
  return {
    url: `http://127.0.0.1:${port}/${token}`,
    send: (update) => clients.size > 0 && broadcast(messageOf("update", update)),
    restart: () => whole && clients.size > 0 && broadcast(messageOf("whole", whole())),
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function secret(): string {
  return randomBytes(24).toString("base64url");
}

/** TS2, TS3 */
function refusalOf({ method, headers: { host = "", origin } }: IncomingMessage): readonly [status: number, text: string] | undefined {
  if (!LOOPBACK.has(host.replace(/:\d+$/, ""))) return [403, "This host name is not served.\n"];
  if (origin !== undefined && origin !== `http://${host}`) return [403, "Other pages may not read this one.\n"];
  return method === "GET" ? undefined : [405, "Method Not Allowed\n"];
}

function cookieOf({ headers: { cookie = "" } }: IncomingMessage): string {
  return /(?:^|; )deltaloop=([\w-]+)/.exec(cookie)?.[1] ?? "";
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function end(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { ...HEADERS, "content-type": "text/plain; charset=utf-8" }).end(text);
}

function messageOf(event: "whole" | "update", value: TimelineInput | TimelineUpdate): string {
  return `event: ${event}\ndata: ${timelineJson(value)}\n\n`;
}
