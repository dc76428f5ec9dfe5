/** Targets of HTTP probes and of their redirects. */
import { redirectOf } from "../http/get.ts";
import type { Header } from "../http/get-request.ts";
import type { Response } from "../http/response.ts";
import { byteString, escapePath, parseUrl } from "../http/url.ts";
import type { Url } from "../http/url.ts";
import type { HttpProbe } from "../ports/prober.ts";

export interface Target {
  readonly url: Url;
  /** Request headers, including Host. */
  readonly headers: readonly Header[];
}

const BAD_HOST = /[\s/\\?#@]/u;

/**
 * Returns the first target. If the path is a complete URL, its scheme and host are replaced. If it is not a valid URL, it is escaped.
 *
 *     "//healthz" → "/"      "http://other/x" → "/x"      "/%zz" → "/%25zz"
 *
 * Source: pkg/probe/http/request.go NewRequestForHTTPGetAction, formatURL.
 *
 * @throws {TypeError} for an invalid host
 */
export function firstTarget({ scheme, host, port, path, headers }: HttpProbe): Target {
  const authority = authorityOf(host, port);
  const parsed = parsedPath(byteString(path));
  const rooted = parsed.path === "" || parsed.path.startsWith("/") ? parsed.path : `/${parsed.path}`;
  // A URL such as `mailto:a` has no host, so the request fails, as in upstream.
  const url = { ...parsed, scheme: scheme.toLowerCase(), host: parsed.opaque ? "" : authority, path: rooted };
  const own = headers.find(({ name, value }) => isHost(name) && value !== "")?.value;
  return { url, headers: withHost(headers, own ?? authority) };
}

function parsedPath(path: string): Url {
  try {
    return parseUrl(path);
  } catch {
    return { scheme: "", host: "", path: escapePath(path) };
  }
}

/** Formats host and port: `10.0.0.1:80`, `[fd00::1]:80`. @throws {TypeError} for an invalid host */
export function authorityOf(host: string, port: number): string {
  if (host === "" || BAD_HOST.test(host)) throw new TypeError(`invalid host ${JSON.stringify(host)}`);
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * Returns the target of a redirect, if any. All headers are kept, except that the spec's Host header is kept only if the location is
 * relative.
 *
 * Source: Go net/http Client.do, redirectBehavior. Differs from upstream: sends no Referer.
 *
 * @throws {Error} for a location that is not a URL
 */
export function redirectTarget({ url, headers }: Target, response: Response): Target | undefined {
  const found = redirectOf(url, response);
  if (found === undefined) return undefined;
  return { url: found.url, headers: found.isAbsolute ? withHost(headers, found.url.host) : headers };
}

function withHost(headers: readonly Header[], host: string): readonly Header[] {
  return [{ name: "Host", value: host }, ...headers.filter(({ name }) => !isHost(name))];
}

function isHost(name: string): boolean {
  return name.toLowerCase() === "host";
}
