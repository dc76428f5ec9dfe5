import type { LookupFunction } from "node:net";
import type { Proxy } from "@deltaloop/base/http";
import type { Metrics } from "@deltaloop/base/metrics";

/** Client certificate and its key, PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** How to reach one API server as one component. Read from a kubeconfig by shared/local, from the environment by shared/controllers/lambda. */
export interface KubeHttpConfig {
  /**
   * `https://host:port`, optionally with a path prefix; `http:` only for the in-memory API server and `kubectl proxy`, with a token only on
   * loopback.
   */
  readonly server: string;
  /** Forward proxy. Default: the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY set, if any. */
  readonly proxy?: Proxy;
  /** PEM; each certificate is a trust anchor. Default: the system's certificate authorities. */
  readonly ca?: string | Buffer;
  /** Resolves the server's name for direct connections. Default: as the system does. */
  readonly lookup?: LookupFunction;
  /** Client certificate and key, PEM. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /**
   * Called before every request, so that it can refresh the token; the function must cache. `refused` is the last token that the server
   * rejected (401); the cache must not return it.
   */
  readonly token?: (refused?: string) => Promise<string> | string;
  /**
   * Same as `token`, but for a client certificate instead of `cert` and `key`. A new object is a new certificate, and further calls use new
   * connections.
   */
  readonly certificate?: (refused?: ClientCertificate) => Promise<ClientCertificate | undefined> | ClientCertificate | undefined;
  /** Skips verification of the server's certificate: for experiments only. */
  readonly insecure?: boolean;
  /** Name to verify in the server's certificate if it differs from the host. */
  readonly serverName?: string;
  /** The calling component: `watcher`, `replicaset`, `apply-deltas`, … Part of the User-Agent. */
  readonly component: string;
  /** Default `deltaloop/<version> (<component>)`. Set it for clients that are not components, such as scripted nodes and tests. */
  readonly userAgent?: string;
  /** Default `deltaloop-<component>`. */
  readonly fieldManager?: string;
  /** Default 12 s. Applies to one attempt of a call other than a watch or a list page. */
  readonly requestTimeoutMs?: number;
  /** Retry budget of a call that has none (default 60 s). Limits when the last attempt may start. */
  readonly waitMsMax?: number;
  /** Counts requests with client-go's metrics. */
  readonly metrics?: Metrics;
  /** Replaces the server's in metrics: one name for many clusters bounds the number of series. */
  readonly metricsHost?: string;
  /** Called for each attempt without a complete response, also if the attempt is repeated. */
  readonly onNoAnswer?: () => void;
  /** Time without a byte after which a watch is aborted (KL5); default 100 s. */
  readonly inactivityMs?: number;
  /** Bytes of a watch that are read before they are consumed; above, its socket is paused. Default 64 MiB. */
  readonly readAheadBytesMax?: number;
}

/** The configuration would send a bearer token to another machine unencrypted. Nothing was sent; correct the configured server. */
export class TokenInClearError extends Error {
  override readonly name = "TokenInClearError";

  constructor(server: string) {
    super(`${new URL(server).origin} is neither encrypted nor on this machine, so no token is sent to it: use https://`);
  }
}

/** Whether a token sent to `server` can be read by other machines on the network. */
export function showsToken(server: string): boolean {
  if (!URL.canParse(server)) return false; // an invalid URL never receives a token
  const { protocol, hostname } = new URL(server);
  return protocol !== "https:" && !isLoopback(hostname);
}

/** `new URL` normalises hosts: IPv4 as four decimals, IPv6 in brackets. */
function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
