/** The API server on a loopback port: plain HTTP/1.1, chunked watches. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { ApiResponse, ApiServer } from "./api-server.ts";
import { frozenText, type JsonObject } from "@deltaloop/base";
import { PROTOBUF_MEDIA_TYPE } from "./rest/protobuf.ts";
import { BODY_BYTES_MAX } from "./rest/request-body.ts";
import type { WatchEvent, WatchStream } from "./rest/watch.ts";

export interface HttpApiServer {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  readonly port: number;
  /** Closes watches and connections. */
  close(): Promise<void>;
}

type Served = Pick<ApiServer, "request" | "closeWatches">;

/** Port 0 selects a free port. @throws the error of `listen`, for example for a port in use */
export async function serveHttp(server: Served, { port = 0 }: { readonly port?: number } = {}): Promise<HttpApiServer> {
  const http = createServer((request, response) => {
    handle(server, request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  // Clients close idle connections.
  http.keepAliveTimeout = 0;
  http.requestTimeout = 0;
  http.listen(port, "127.0.0.1");
  await once(http, "listening");
  const address = http.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return { url: `http://127.0.0.1:${bound}`, port: bound, close: () => close(http, server) };
}

async function close(http: Server, server: Served): Promise<void> {
  server.closeWatches();
  const closed = once(http, "close");
  http.close();
  http.closeAllConnections();
  await closed;
}

async function handle(server: Served, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await read(request);
  const url = new URL(request.url ?? "/", "http://localhost");
  const headers: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(request.headers)) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  send(response, await server.request({ method: request.method ?? "GET", path: url.pathname, query: url.searchParams, headers, body }));
}

/** Reads the body, but stops when it is too large. */
async function read(request: IncomingMessage): Promise<string | Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes - chunk.length <= BODY_BYTES_MAX) chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  return request.headers["content-type"]?.startsWith(PROTOBUF_MEDIA_TYPE) === true ? body : body.toString("utf8");
}

function send(response: ServerResponse, answer: ApiResponse): void {
  if (answer.kind === "watch") {
    response.writeHead(answer.status, { ...answer.headers, "transfer-encoding": "chunked" });
    response.flushHeaders();
    response.socket?.setNoDelay(true);
    void sendWatch(response, answer.stream);
    return;
  }
  const text = answer.kind === "text" ? answer.body : bodyText(answer.body);
  const { warning, ...headers } = answer.headers;
  // Node.js writes headers in Latin-1; names of fields are UTF-8.
  const encoded = warning === undefined ? {} : { warning: Buffer.from(warning).toString("latin1") };
  response.writeHead(answer.status, { ...headers, ...encoded, "content-length": Buffer.byteLength(text) });
  response.end(text);
}

/** Joins the texts of list items, each serialised once. */
function bodyText(body: JsonObject): string {
  const { items, ...rest } = body;
  if (!Array.isArray(items)) return frozenText(body);
  const texts = items.map((item) =>
    typeof item === "object" && item !== null && !Array.isArray(item) ? frozenText(item) : JSON.stringify(item),
  );
  return `${JSON.stringify(rest).slice(0, -1)},"items":[${texts.join(",")}]}`;
}

async function sendWatch(response: ServerResponse, stream: WatchStream): Promise<void> {
  response.once("close", () => stream.end());
  for await (const events of stream.batches()) {
    if (response.destroyed) return;
    if (!response.write(events.map(line).join(""))) await drained(response);
  }
  response.end();
}

function line({ type, object }: WatchEvent): string {
  return `{"type":"${type}","object":${frozenText(object)}}\n`;
}

async function drained(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
