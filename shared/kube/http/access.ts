/**
 * How one API server is reached as one component: where it is, who calls, and what each request says of that. Calls and streams have it in
 * common, so that what one of them was refused is known to the other.
 */
import { VERSION } from "@deltaloop/base";
import { showsToken, TokenInClearError } from "./config.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";

/** What is asked for. */
export interface Asked {
  /** Absolute, encoded, without query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
  /** Default: application/json. */
  readonly accept?: string;
}

/** With what a request is sent. */
export interface Identity {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

export interface Access {
  readonly base: URL;
  /** Who calls, as it is now: credentials may have to be fetched, and whoever brings them may hang. */
  identityNow(): Identity | Promise<Identity>;
  /** The server has not accepted it (401). */
  refuse(who: Identity): void;
  /** Path and query. */
  targetOf(asked: Asked): string;
  headersOf(asked: Asked, who: Identity): Record<string, string>;
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
    identityNow() {
      const { token, certificate } = config;
      if (certificate === undefined) {
        const now = token?.(refused?.token);
        return now instanceof Promise ? now.then((text) => identity(text, undefined)) : identity(now, undefined);
      }
      const both = Promise.all([brought(() => token?.(refused?.token)), brought(() => certificate(refused?.certificate))]);
      return both.then(([newest, own]) => identity(newest, own));
    },
    refuse(who) {
      refused = who;
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

/** Of one that throws the other is waited for all the same. */
async function brought<T>(bring: () => T | Promise<T>): Promise<T> {
  return await bring();
}

function identity(token: string | undefined, certificate: ClientCertificate | undefined): Identity {
  return { ...(token !== undefined && { token }), ...(certificate && { certificate }) };
}

function queryString(query: Asked["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
