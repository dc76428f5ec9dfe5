/**
 * Address, credentials and request headers of one API server and component. Calls and streams share them, including the information that
 * the server has rejected a credential.
 */
import { VERSION } from "@deltaloop/base";
import { showsToken, TokenInClearError } from "./config.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";

/** Path, query and media type of a request. */
export interface RequestSpec {
  /** Absolute, encoded, without query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
  /** Default: application/json. */
  readonly accept?: string;
  /** Decodes responses that the server sends as protobuf, if `accept` permits them. */
  readonly protobuf?: ProtobufDecoder;
}

/** Handed in by the watch, so that bundles without watches have no decoder. */
export interface ProtobufDecoder {
  readonly success: (body: Buffer) => unknown;
  /** Returns a Status as its JSON. */
  readonly failure: (body: Buffer) => unknown;
}

/** Credentials of a request. */
export interface Identity {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

export interface Access {
  readonly base: URL;
  /** Returns the current credentials. Fetching them may take long or hang. */
  currentIdentity(): Identity | Promise<Identity>;
  /** Records that the server rejected the credentials (401). */
  reject(identity: Identity): void;
  /** Path and query. */
  targetOf(request: RequestSpec): string;
  headersOf(request: RequestSpec, identity: Identity): Record<string, string>;
}

/** @throws {TokenInClearError} when the configuration has a token and the server is plain HTTP on another machine */
export function createAccess(config: KubeHttpConfig): Access {
  if (config.token !== undefined && showsToken(config.server)) throw new TokenInClearError(config.server);
  const base = new URL(config.server);
  const prefix = base.pathname.replace(/\/$/, "");
  const userAgent = config.userAgent ?? `deltaloop/${VERSION} (${config.component})`;
  let refused: Identity | undefined;
  return {
    base,
    currentIdentity() {
      const { token, certificate } = config;
      if (certificate === undefined) {
        const now = token?.(refused?.token);
        return now instanceof Promise ? now.then((text) => identity(text, undefined)) : identity(now, undefined);
      }
      const both = Promise.all([settled(() => token?.(refused?.token)), settled(() => certificate(refused?.certificate))]);
      return both.then(([newest, own]) => identity(newest, own));
    },
    reject(identity) {
      refused = identity;
    },
    targetOf: ({ path, query }) => prefix + path + queryString(query),
    headersOf({ accept = "application/json", body, contentType = "application/json" }, { token }) {
      const headers: Record<string, string> = { accept, "user-agent": userAgent };
      if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
      if (body !== undefined) headers["content-type"] = contentType;
      return headers;
    },
  };
}

/** Turns a synchronous throw into a rejection, so that `Promise.all` also starts the other call. */
async function settled<T>(bring: () => T | Promise<T>): Promise<T> {
  return await bring();
}

function identity(token: string | undefined, certificate: ClientCertificate | undefined): Identity {
  return { ...(token !== undefined && { token }), ...(certificate && { certificate }) };
}

function queryString(query: RequestSpec["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
