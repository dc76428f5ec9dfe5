/**
 * Parses and resolves URLs as Go's net/url does. WHATWG's `URL` reads paths, escapes and hosts differently.
 *
 * Every string here is a byte string: each character is one byte of the UTF-8 encoding.
 *
 * Source: Go net/url/url.go Parse, ResolveReference, EscapedPath, RequestURI.
 */
import { isIPv6 } from "node:net";

export interface Url {
  /** The scheme in lower case; empty in a relative URL. */
  readonly scheme: string;
  /** `name:password`, unescaped. */
  readonly user?: string;
  /** The host as written, with port and brackets. */
  readonly host: string;
  /** Percent-encoded. */
  readonly path: string;
  /** The query as written, without the question mark. */
  readonly query?: string;
  /** The part after the scheme of a URL such as `mailto:a`, which has neither a host nor a path. */
  readonly opaque?: string;
}

const CONTROL = /[^\x20-\x7e\x80-\xff]/;
const BROKEN_ESCAPE = /%(?![\da-f]{2})/i;
/**
 * `ESCAPED_IN_PATH` has the bytes that Go escapes in a path. `VALID_PATH` has the bytes that Go leaves unchanged in a path that is
 * already escaped.
 */
const ESCAPED_IN_PATH = /[^\w\-.~$&+,/:;=@]/g;
const VALID_PATH = /^[\w\-.~$&+,/:;=@!'()*[\]%]*$/;
const VALID_USER = /^[\w\-.~!$&'()*+,;=%:@]*$/;
const VALID_HOST = /^(?:[\w\-.~!$&'()*+,;=:[\]<>"\x80-\xff]|%25|%[89a-f][\da-f])*$/i;
const OPTIONAL_PORT = /^(?::\d*)?$/;

/** @throws {TypeError} */
export function parseUrl(text: string): Url {
  const [, main = "", fragment = ""] = /^([^#]*)#?([^]*)$/.exec(text) ?? [];
  if (CONTROL.test(main)) throw new TypeError("invalid control character in URL");
  if (BROKEN_ESCAPE.test(fragment)) throw new TypeError("invalid URL escape");
  const [, name, rest = ""] = /^(?:([a-z][a-z\d+.-]*):)?([^]*)$/i.exec(main) ?? [];
  if (rest.startsWith(":")) throw new TypeError("missing protocol scheme");
  const scheme = (name ?? "").toLowerCase();
  const [, hierarchy = "", query] = /^([^?]*)(?:\?([^]*))?$/.exec(rest) ?? [];
  const found = { scheme, host: "", ...(query !== undefined && { query }) };
  if (!hierarchy.startsWith("/")) {
    if (scheme !== "") return { ...found, path: "", opaque: hierarchy };
    if (/^[^/]*:/.test(hierarchy)) throw new TypeError("first path segment in URL cannot contain colon");
  }
  const hasAuthority = hierarchy.startsWith("//") && (scheme !== "" || !hierarchy.startsWith("///"));
  const [, authority = "", path = ""] = hasAuthority ? (/^\/\/([^/]*)([^]*)$/.exec(hierarchy) ?? []) : ["", "", hierarchy];
  return { ...found, ...parseAuthority(scheme, authority), path: escapedPath(path) };
}

function parseAuthority(scheme: string, authority: string): Pick<Url, "host" | "user"> {
  const at = authority.lastIndexOf("@");
  const host = parseHost(scheme, authority.slice(at + 1));
  if (at === -1) return { host };
  const [, name = "", password = ""] = /^([^:]*):?([^]*)$/.exec(authority.slice(0, at)) ?? [];
  if (!VALID_USER.test(name + password)) throw new TypeError("invalid userinfo");
  return { host, user: `${unescaped(name)}:${unescaped(password)}` };
}

function parseHost(scheme: string, host: string): string {
  const [, address, portOfAddress = ""] = /^\[([^[]*)\]([^\]]*)$/.exec(host) ?? [];
  if (!VALID_HOST.test(host)) throw new TypeError("invalid character in host name");
  if (address !== undefined) {
    if (!isIPv6(unescaped(address))) throw new TypeError("invalid IP literal");
    if (!OPTIONAL_PORT.test(portOfAddress)) throw new TypeError("invalid port after host");
    return unescaped(host);
  }
  if (host.includes("[")) throw new TypeError("invalid IP literal");
  const colon = /^https?$/.test(scheme) ? host.indexOf(":") : host.lastIndexOf(":");
  if (colon !== -1 && !OPTIONAL_PORT.test(host.slice(colon))) throw new TypeError("invalid port after host");
  return unescaped(host);
}

/** Escapes a path that contains no escapes. */
export function escapePath(path: string): string {
  return path.replaceAll(ESCAPED_IN_PATH, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
}

function escapedPath(path: string): string {
  const plain = unescaped(path);
  return VALID_PATH.test(path) ? path : escapePath(plain);
}

/** Decodes percent-encoding. @throws {TypeError} for an invalid escape */
function unescaped(text: string): string {
  if (BROKEN_ESCAPE.test(text)) throw new TypeError("invalid URL escape");
  return text.replaceAll(/%(..)/g, (_escape, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** Resolves `reference` against `base`. */
export function resolveUrl(base: Url, reference: Url): Url {
  const scheme = reference.scheme || base.scheme;
  if (reference.opaque) return { ...reference, scheme };
  if (reference.scheme !== "" || reference.host !== "" || reference.user !== undefined)
    return { ...reference, scheme, path: withoutDots(reference.path) };
  const { path } = reference;
  const merged = path.startsWith("/") ? path : base.path.slice(0, base.path.lastIndexOf("/") + 1) + path;
  const query = path === "" && reference.query === undefined ? base.query : reference.query;
  return {
    scheme,
    host: base.host,
    ...(base.user !== undefined && { user: base.user }),
    path: withoutDots(path === "" ? base.path : merged),
    ...(query !== undefined && { query }),
  };
}

/** Resolves `.` and `..`. The result starts with a slash unless it is empty. */
function withoutDots(path: string): string {
  if (path === "") return "";
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  const end = /(?:^|\/)\.\.?$/.test(path) ? "/" : "";
  return `/${kept.join("/")}${end}`.replace(/^\/\//, "/");
}

/** The request target: the second word of a request line. */
export function requestTarget({ path, query }: Url): string {
  return `${path === "" ? "/" : path}${query === undefined ? "" : `?${query}`}`;
}

/** Returns the host name without brackets and port. */
export function hostnameOf({ host }: Url): string {
  return host.replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
}

/** The port to connect to. */
export function portOf({ host, scheme }: Url): number {
  const [, port = ""] = /:(\d*)$/.exec(host) ?? [];
  if (port !== "") return Number(port);
  return scheme === "https" ? 443 : 80;
}

/** Returns the URL without the user, for messages and the Referer header. */
export function urlText(url: Url): string {
  return url.opaque
    ? `${url.scheme}:${url.opaque}`
    : `${url.scheme}://${url.host}${url.path}${url.query === undefined ? "" : `?${url.query}`}`;
}

/** Returns the UTF-8 bytes of a text as a byte string. */
export function byteString(text: string): string {
  return Buffer.from(text).toString("latin1");
}
