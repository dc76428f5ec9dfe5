/** Targets of HTTP probes and of their redirects. */
import type { HttpProbe } from "../ports/prober.ts";

export type Header = HttpProbe["headers"][number];

export interface Target {
  readonly url: URL;
  /** The request target; `url` would normalize it. */
  readonly path: string;
  /** Includes Host. */
  readonly headers: readonly Header[];
}

export interface Answer {
  readonly status: number;
  readonly location: string | undefined;
  readonly body: string;
  /** Why the body is incomplete. */
  readonly brokenOff?: string;
}

/** Status codes that Go's client follows. */
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
const BAD_HOST = /[\s/\\?#@]/u;

/**
 * Source: pkg/probe/http/request.go NewRequestForHTTPGetAction, formatURL.
 *
 * @throws {TypeError} for an invalid host
 */
export function firstTarget({ scheme, host, port, path, headers }: HttpProbe): Target {
  const authority = authorityOf(host, port);
  const requestPath = escaped(path);
  const url = new URL(`${scheme.toLowerCase()}://${authority}${requestPath}`);
  const own = headers.find(({ name, value }) => isHost(name) && value !== "")?.value;
  return { url, path: requestPath, headers: withHost(headers, own ?? authority) };
}

/** `10.0.0.1:80`, `[fd00::1]:80`. @throws {TypeError} for an invalid host */
export function authorityOf(host: string, port: number): string {
  if (host === "" || BAD_HOST.test(host)) throw new TypeError(`invalid host ${JSON.stringify(host)}`);
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * Returns the target of a redirect, if any. Headers are kept; the spec's Host only if the location is relative.
 *
 * Source: Go net/http Client.do, redirectBehavior.
 */
export function redirectTarget({ url, headers }: Target, { status, location }: Answer): Target | "unusable" | undefined {
  if (!REDIRECTS.includes(status) || location === undefined || location === "") return undefined;
  const next = URL.parse(location, url.href);
  if (next === null || !/^https?:$/u.test(next.protocol)) return "unusable";
  const isAbsolute = /^[a-z][a-z0-9+.-]*:/iu.test(location);
  return { url: next, path: `${next.pathname}${next.search}`, headers: isAbsolute ? withHost(headers, next.host) : headers };
}

function withHost(headers: readonly Header[], host: string): readonly Header[] {
  return [{ name: "Host", value: host }, ...headers.filter(({ name }) => !isHost(name))];
}

function isHost(name: string): boolean {
  return name.toLowerCase() === "host";
}

/** Adds a leading slash, removes the fragment, and escapes characters that a request line forbids. */
function escaped(path: string): string {
  const [withoutFragment = ""] = path.split("#", 1);
  const rooted = withoutFragment.startsWith("/") ? withoutFragment : `/${withoutFragment}`;
  return rooted.replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent);
}
