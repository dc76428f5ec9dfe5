/**
 * Opens sockets to one server, in clear text or over TLS, directly or through a proxy. A TLS server is reached by a CONNECT tunnel;
 * a proxy of a clear-text server forwards requests.
 *
 * Source: Go net/http transport.go dialConn.
 */
import { once } from "node:events";
import { connect as connectTcp, isIP } from "node:net";
import type { LookupFunction, Socket } from "node:net";
import { connect as connectTls, createSecureContext } from "node:tls";
import type { SecureContext, TLSSocket } from "node:tls";

import { AnswerReader } from "./http-answer.ts";

/** A subset of the node:tls options. */
export interface TlsOptions {
  /** Each certificate is a trust anchor, including intermediate and server certificates, as in Go's CertPool. */
  readonly ca?: string | Buffer | undefined;
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string | undefined;
}

/** A forward proxy. */
export interface Proxy {
  readonly host: string;
  readonly port: number;
  /** TLS options for a proxy that is itself reached over TLS. */
  readonly tls?: TlsOptions;
  /** Value of Proxy-Authorization. */
  readonly authorization?: string;
}

export interface Opened {
  readonly socket: Socket;
  /** Event after which a request may be written. */
  readonly ready: "connect" | "secureConnect";
}

export interface Server {
  readonly host: string;
  readonly port: number;
  /** Absent for a clear-text connection. */
  readonly tls?: TlsOptions;
  readonly proxy?: Proxy;
  /** Resolves `host` if there is no proxy. Default: as the system does. */
  readonly lookup?: LookupFunction;
}

/** Starts a connection. `signal` aborts a connection that waits for a proxy. */
export type Opener = (signal: AbortSignal) => Opened | Promise<Opened>;

/** The proxy responded to CONNECT with a status other than 2xx. */
class ProxyRefusedError extends Error {
  override readonly name = "ProxyRefusedError";
  readonly code = "EPROXY";
}

export function openerOf({ host, port, tls, proxy, lookup }: Server, authority: string): Opener {
  if (tls === undefined) {
    const first = proxy === undefined ? hopTo({ host, port, ...(lookup && { lookup }) }) : hopTo(proxy);
    return () => first();
  }
  if (proxy === undefined) return hopTo({ host, port, tls, ...(lookup && { lookup }) });
  const [toProxy, secured] = [hopTo(proxy), encrypted(host, port, tls)];
  const target = authority.endsWith(`:${port}`) ? authority : `${authority}:${port}`;
  return async (signal) => ({ socket: secured(await tunnel(toProxy(), proxy, target, signal)), ready: "secureConnect" });
}

/** Opens a connection to `proxy`, or with `target` (`host:port`) a tunnel through the proxy. @throws {ProxyRefusedError} */
export async function openProxy(proxy: Proxy, signal: AbortSignal, target?: string): Promise<Socket> {
  const opened = hopTo(proxy)();
  if (target !== undefined) return await tunnel(opened, proxy, target, signal);
  await once(opened.socket, opened.ready, { signal }).catch((error: unknown) => {
    opened.socket.destroy();
    throw error;
  });
  return opened.socket;
}

function hopTo({ host, port, tls, lookup }: Pick<Server, "host" | "port" | "tls" | "lookup">): () => Opened {
  if (tls === undefined) return () => ({ socket: connectTcp({ host, port, ...(lookup && { lookup }) }), ready: "connect" });
  const secured = encrypted(host, port, tls, lookup);
  return () => ({ socket: secured(), ready: "secureConnect" });
}

/** Shares one context, so that certificates are parsed once, and resumes TLS sessions, which saves most of a handshake. */
function encrypted(host: string, port: number, tls: TlsOptions, lookup?: LookupFunction): (over?: Socket) => TLSSocket {
  const { servername = isIP(host) === 0 ? host : undefined, rejectUnauthorized, ca, cert, key } = tls;
  let secureContext: SecureContext | undefined;
  let session: Buffer | undefined;
  return (over) => {
    secureContext ??= createSecureContext({ ca, cert, key, allowPartialTrustChain: true });
    const socket = connectTls({
      ...{ host, port, secureContext, ALPNProtocols: ["http/1.1"] },
      ...(over !== undefined && { socket: over }),
      ...(lookup && { lookup }),
      ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
      ...(servername !== undefined && { servername }),
      ...(session !== undefined && { session }),
    });
    socket.on("session", (newest) => (session = newest));
    let isSecure = false;
    socket.once("secureConnect", () => (isSecure = true));
    socket.once("close", () => {
      if (!isSecure) session = undefined; // forgets the session, because its resumption may have caused the failure
    });
    return socket;
  };
}

/** Returns the socket of an established tunnel. @throws {ProxyRefusedError} */
async function tunnel({ socket, ready }: Opened, proxy: Proxy, target: string, signal: AbortSignal): Promise<Socket> {
  const end = (): unknown => socket.destroy();
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    await once(socket, ready, { signal });
    const authorization = proxy.authorization === undefined ? "" : `proxy-authorization: ${proxy.authorization}\r\n`;
    socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${authorization}\r\n`);
    const code = await codeFrom(socket);
    if (code < 200 || code >= 300)
      throw new ProxyRefusedError(`the proxy ${proxy.host}:${proxy.port} returned ${code} for CONNECT ${target}`);
    return socket;
  } catch (error) {
    end();
    if (error instanceof ProxyRefusedError || !(error instanceof Error)) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`through the proxy ${proxy.host}:${proxy.port}: ${error.message}`, { cause: error }), { code });
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/**
 * Returns the status code of the response to CONNECT. Bytes after a success belong to the tunnel; the server sends no bytes before the
 * client does.
 */
function codeFrom(socket: Socket): Promise<number> {
  return new Promise((resolve, reject) => {
    const reader = new AnswerReader(
      0,
      ({ code }) => settle(() => resolve(code)),
      () => undefined,
    );
    const onData = (bytes: Buffer): void => {
      try {
        reader.push(bytes);
      } catch (error) {
        settle(() => reject(error as Error));
      }
    };
    const onError = (error: Error): void => settle(() => reject(error));
    const onClose = (): void => onError(Object.assign(new Error("the proxy closed the connection"), { code: "ECONNRESET" }));
    const settle = (then: () => void): void => {
      socket.off("data", onData).off("error", onError).off("end", onClose).off("close", onClose);
      socket.pause();
      then();
    };
    socket.on("data", onData).on("error", onError).on("end", onClose).on("close", onClose);
  });
}
