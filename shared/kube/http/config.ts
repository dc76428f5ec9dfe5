import type { Proxy } from "@deltaloop/base/http";
import type { Metrics } from "@deltaloop/base/metrics";

/** Client certificate and its key, PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** How to reach one API server as one component. Read from a kubeconfig by shared/local, from the environment by shared/controllers/lambda. */
export interface KubeHttpConfig {
  /** `https://host:port`, also with a path prefix; `http:` only for the in-memory API server and `kubectl proxy`, with a token only on loopback. */
  readonly server: string;
  /** Forward proxy. Absent = the one that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name, if any. */
  readonly proxy?: Proxy;
  /** PEM; each certificate is a trust anchor. Absent = the system's own authorities. */
  readonly ca?: string | Buffer;
  /** Client certificate and key, PEM. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /**
   * Asked before every call, so that it can refresh; it keeps its own cache. `refused` is the last one that the server has not accepted
   * (401), and not to be taken from that cache.
   */
  readonly token?: (refused?: string) => Promise<string> | string;
  /**
   * The same for a certificate: asked before every call and instead of `cert` and `key`. Another object is another certificate, which
   * further calls are made with, on connections of their own.
   */
  readonly certificate?: (refused?: ClientCertificate) => Promise<ClientCertificate | undefined> | ClientCertificate | undefined;
  /** Skips verification of the server's certificate: for people's own experiments only. */
  readonly insecure?: boolean;
  /** Name to verify in the server's certificate if it is not the host's. */
  readonly serverName?: string;
  /** Who calls: `watcher`, `replicaset`, `apply-deltas`, … Stands in the User-Agent. */
  readonly component: string;
  /** Default `deltaloop/<version> (<component>)`. Others than our components say so: scripted nodes, people in tests. */
  readonly userAgent?: string;
  /** Default `deltaloop-<component>`. */
  readonly fieldManager?: string;
  /** Default 12 s: for one sending of a call other than a watch or a page of a watcher's list. */
  readonly requestTimeoutMs?: number;
  /** Default 60 s: how long a call that brings no retry budget of its own is waited for before its last sending. */
  readonly waitMsMax?: number;
  /** Counts the requests, as client-go's. */
  readonly metrics?: Metrics;
  /** Called for each sending without a (whole) answer, also before it is sent again. */
  readonly onNoAnswer?: () => void;
  /** Default 100 s without a byte; then a watch is aborted (KL5). */
  readonly inactivityMs?: number;
}

/** A bearer token would leave this machine unencrypted. Whoever configured the server acts; nothing was sent. */
export class TokenInClearError extends Error {
  override readonly name = "TokenInClearError";

  constructor(server: string) {
    super(`${new URL(server).origin} is neither encrypted nor on this machine, so no token is sent to it: use https://`);
  }
}

/** Whether whoever calls `server` with a token shows it to everybody on the way. */
export function showsToken(server: string): boolean {
  if (!URL.canParse(server)) return false; // what is no URL is called by nobody
  const { protocol, hostname } = new URL(server);
  return protocol !== "https:" && !isLoopback(hostname);
}

/** As `new URL` writes a host: IPv4 in four decimals, IPv6 in brackets. */
function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
