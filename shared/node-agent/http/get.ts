/** Sends one GET on a separate connection, as Go's net/http does. The caller follows redirects. */
import { constants } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls, TLSSocket } from "node:tls";
import type { PeerCertificate } from "node:tls";
import { openProxy } from "@deltaloop/base/http";
import type { GetRequest, Header } from "./get-request.ts";
import { getOverHttp2 } from "./http2.ts";
import { lookupUntil } from "./lookup.ts";
import { readResponse } from "./response.ts";
import type { Response } from "./response.ts";
import { byteString, hostnameOf, portOf, requestTarget, resolveUrl, parseUrl } from "./url.ts";
import type { Url } from "./url.ts";

/** Source: Go crypto/tls/defaults.go. The signature algorithms of OpenSSL's security level 1 are the ones that Go accepts. */
const TLS = {
  minVersion: "TLSv1.2",
  ciphers: [
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA",
    "@SECLEVEL=1",
  ].join(":"),
  // Go does not renegotiate, so it accepts servers without RFC 5746 (secure renegotiation).
  secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
  allowPartialTrustChain: true,
} as const;

const RSA_BITS_MIN = 1024;
const RSA_BITS_MAX = 8192;

const FIELD_NAME = /^[\w!#$%&'*+\-.^`|~]+$/;
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that Go computes itself, or that a GET does not have. */
const OMITTED: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "trailer"]);

/**
 * Calls `read` with the response, and then closes the connection.
 *
 * @throws {Error} without a response; also what `read` throws
 */
export async function get<T>(request: GetRequest, read: (response: Response) => Promise<T>): Promise<T> {
  const message = messageOf(request);
  const { socket, ready } = await connectionTo(request);
  const { signal } = request;
  const onAbort = (): void => void socket.destroy(new Error("aborted"));
  signal.addEventListener("abort", onAbort, { once: true });
  socket.on("error", () => undefined); // the reader of the response receives the error
  try {
    signal.throwIfAborted();
    if (ready !== undefined) await once(socket, ready);
    if (socket instanceof TLSSocket && ready !== undefined) checkKey(socket.getPeerCertificate());
    if (socket instanceof TLSSocket && socket.alpnProtocol === "h2") return await getOverHttp2(socket, request, sentHeaders(request), read);
    socket.write(message);
    return await read(await readResponse(socket));
  } finally {
    signal.removeEventListener("abort", onAbort);
    socket.destroy();
  }
}

/** Status codes that Go's client follows. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Returns the URL to which a response redirects, and whether its Location header is absolute. @throws {Error} if the location is not a URL
 */
export function redirectOf(url: Url, { status, header }: Response): { readonly url: Url; readonly isAbsolute: boolean } | undefined {
  const location = REDIRECTS.has(status) ? header("location") : undefined;
  if (location === undefined || location === "") return undefined;
  try {
    const reference = parseUrl(location);
    return { url: resolveUrl(url, reference), isAbsolute: reference.scheme !== "" };
  } catch (cause) {
    throw new Error("failed to parse Location header", { cause });
  }
}

interface Connection {
  readonly socket: Socket;
  /** Event after which a request may be written; if absent, it may be written immediately. */
  readonly ready?: "connect" | "secureConnect";
}

async function connectionTo({ url, signal, verifiesCertificate, http2BytesMax, proxy }: GetRequest): Promise<Connection> {
  const [host, port] = [Buffer.from(hostnameOf(url), "latin1").toString(), portOf(url)];
  if (host === "") throw new Error("no Host in request URL");
  const address = { host, port, lookup: lookupUntil(signal) };
  if (url.scheme === "http")
    return proxy === undefined ? { socket: connectTcp(address), ready: "connect" } : { socket: await openProxy(proxy, signal) };
  if (url.scheme !== "https") throw new Error(`unsupported protocol scheme ${JSON.stringify(url.scheme)}`);
  const tunnel = proxy && (await openProxy(proxy, signal, `${isIP(host) === 6 ? `[${host}]` : host}:${port}`));
  const socket = connectTls({
    ...{ ...address, ...TLS, servername: isIP(host) === 0 ? host.replace(/\.$/, "") : "", rejectUnauthorized: verifiesCertificate },
    ...(http2BytesMax !== undefined && { ALPNProtocols: ["h2", "http/1.1"] }),
    ...(tunnel !== undefined && { socket: tunnel }),
  });
  return { socket, ready: "secureConnect" };
}

/** Checks the key size, because OpenSSL does so only if it verifies certificates. Source: Go crypto/rsa/rsa.go checkKeySize. */
function checkKey({ bits = 0, exponent }: PeerCertificate): void {
  const isRsa = exponent !== undefined;
  if (isRsa && (bits < RSA_BITS_MIN || bits > RSA_BITS_MAX)) throw new Error(`the server's certificate has an RSA key of ${bits} bits`);
}

/** @throws {TypeError} for an invalid header */
function messageOf(request: GetRequest): Buffer {
  const { url, proxy } = request;
  const sent = sentHeaders(request);
  const isForwarded = proxy !== undefined && url.scheme === "http";
  const target = isForwarded ? `http://${url.host}${requestTarget(url)}` : requestTarget(url);
  const lines = [
    ...sent.map(({ name, value }) => `${name}: ${value}`),
    ...(has(sent, "connection") ? [] : ["Connection: close"]),
    ...(isForwarded && proxy.authorization !== undefined ? [`Proxy-Authorization: ${proxy.authorization}`] : []),
  ];
  return Buffer.from(`GET ${target} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`, "latin1");
}

/** The headers as byte strings. @throws {TypeError} for an invalid header */
function sentHeaders({ url, headers }: GetRequest): readonly Header[] {
  const sent = headers
    .filter(({ name }) => !OMITTED.has(name.toLowerCase()))
    .map(({ name, value }) => ({ name, value: byteString(value).trim() }));
  const bad = sent.find(({ name, value }) => !FIELD_NAME.test(name) || !FIELD_VALUE.test(value));
  if (bad !== undefined) throw new TypeError(`invalid header ${JSON.stringify(bad.name)}`);
  if (url.user === undefined || has(sent, "authorization")) return sent;
  return [...sent, { name: "Authorization", value: `Basic ${Buffer.from(url.user, "latin1").toString("base64")}` }];
}

function has(headers: readonly Header[], wanted: string): boolean {
  return headers.some(({ name, value }) => name.toLowerCase() === wanted && value !== "");
}
