/**
 * Sends one GET over HTTP/2, on a connection for which the server has chosen HTTP/2.
 *
 * Source: Go x/net/http2/transport.go.
 */
import { once } from "node:events";
import { connect } from "node:http2";
import type { IncomingHttpHeaders } from "node:http2";
import { PassThrough, pipeline } from "node:stream";
import type { TLSSocket } from "node:tls";
import { boundedSocket } from "./bounded-socket.ts";
import type { GetRequest, Header } from "./get-request.ts";
import type { Response } from "./response.ts";
import { requestTarget } from "./url.ts";

/** Connection-specific headers of HTTP/1, which are not sent over HTTP/2. */
const OF_HTTP1: ReadonlySet<string> = new Set([
  "host",
  "connection",
  "proxy-connection",
  "keep-alive",
  "te",
  "transfer-encoding",
  "upgrade",
]);
/** Values of connection-specific headers that Go accepts, because they have no effect. */
const HARMLESS: Readonly<Record<string, RegExp>> = { connection: /^(?:close|keep-alive)?$/i, upgrade: /^(?:chunked)?$/ };

/** Node's types lack the second option. As in Go, it permits repeated headers, even those that Node allows only once. */
const OPTIONS = { settings: { enablePush: false }, strictSingleValueFields: false } as const;

/** Calls `read` with the response. @throws {Error} if there is no response; also whatever `read` throws */
export async function getOverHttp2<T>(
  socket: TLSSocket,
  { url, http2BytesMax = Infinity }: GetRequest,
  headers: readonly Header[],
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const fields = fieldsOf(headers);
  const authority = headers.find(({ name }) => name.toLowerCase() === "host")?.value ?? url.host;
  const session = connect("https://probed", {
    createConnection: () => boundedSocket(socket, http2BytesMax),
    ...OPTIONS,
  });
  session.on("error", () => undefined); // the stream reports the error
  try {
    const pseudo = [":authority", authority, ":method", "GET", ":path", requestTarget(url), ":scheme", "https"];
    const stream = session.request([...pseudo, ...fields.flatMap(({ name, value }) => [name, value])], { endStream: true });
    // When a stream ends, Node.js discards unread data, which this pipe keeps. Errors reach the reader.
    const body = pipeline(stream, new PassThrough(), () => undefined);
    const ended = once(stream, "close").then(() => {
      throw new Error("the server ended the stream without a response");
    });
    ended.catch(() => undefined); // an error after the response has no effect
    const [response] = (await Promise.race([once(stream, "response"), ended])) as [IncomingHttpHeaders];
    return await read({ status: Number(response[":status"]), header: (name) => first(response[name]), body });
  } finally {
    session.destroy();
  }
}

/** @throws {Error} for a header that requests a switch to another protocol */
function fieldsOf(headers: readonly Header[]): readonly Header[] {
  const lower = headers.map(({ name, value }) => ({ name: name.toLowerCase(), value }));
  const bad = lower.find(({ name, value }) => HARMLESS[name]?.test(value) === false);
  if (bad !== undefined) throw new Error(`invalid ${bad.name} request header`);
  const agent = lower.findIndex(({ name }) => name === "user-agent");
  return lower.filter(({ name }, i) => !OF_HTTP1.has(name) && (name !== "user-agent" || i === agent));
}

function first(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}
