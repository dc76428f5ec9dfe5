/**
 * Selects the proxy of a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as Go programs do.
 *
 * Source: Go x/net/http/httpproxy/proxy.go; client-go tools/clientcmd/client_config.go parseProxyURL.
 */
import { BlockList, isIP } from "node:net";
import type { Proxy } from "@deltaloop/base/http";
import { UsageError } from "@deltaloop/base";

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxy that the environment sets for `server`. @throws {UsageError} when the proxy is unusable */
export function proxyFor(server: URL, environment: Environment): Proxy | undefined {
  const name = server.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const text = either(environment, name);
  if (text === undefined || isExcluded(server, either(environment, "NO_PROXY") ?? "")) return undefined;
  return proxyOf(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`, name);
}

/** @param from the setting, for the error @throws {UsageError} when `url` is not a proxy URL; credentials in it are not quoted */
export function proxyOf(url: string, from: string): Proxy {
  const { protocol, hostname, port, username, password } = URL.canParse(url) ? new URL(url) : { protocol: "", hostname: "" };
  if ((protocol !== "http:" && protocol !== "https:") || hostname === "")
    throw new UsageError(`${from} is not a usable proxy URL: write http://host:port or https://host:port`);
  const isPlain = protocol === "http:";
  const user =
    username === undefined || username === "" ? undefined : `${decodeURIComponent(username)}:${decodeURIComponent(password ?? "")}`;
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === undefined || port === "" ? (isPlain ? 80 : 443) : Number(port),
    ...(!isPlain && { tls: {} }),
    ...(user !== undefined && { authorization: `Basic ${Buffer.from(user).toString("base64")}` }),
  };
}

function either(environment: Environment, name: string): string | undefined {
  return [environment[name], environment[name.toLowerCase()]].find((value) => value !== undefined && value !== "");
}

/** Whether NO_PROXY or the loopback interface exempts `server`. */
function isExcluded(server: URL, noProxy: string): boolean {
  const host = server.hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const port = server.port === "" ? (server.protocol === "https:" ? "443" : "80") : server.port;
  if (host === "localhost" || isInNetwork(host, "127.0.0.0/8") || host === "::1") return true;
  const entries = noProxy
    .toLowerCase()
    .split(",")
    .map((entry) => entry.trim());
  return entries.some((entry) => entry === "*" || isInNetwork(host, entry) || isNamedBy(entry, host, port));
}

function isInNetwork(host: string, network: string): boolean {
  const [address = "", bits = ""] = network.split("/");
  const family = isIP(address);
  if (family === 0 || isIP(host) !== family || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128)) return false;
  const type = family === 4 ? "ipv4" : "ipv6";
  const list = new BlockList();
  list.addSubnet(address, Number(bits), type);
  return list.check(host, type);
}

/** `entry` is an address or a domain, optionally with a port. `.example.com` and `*.example.com` match subdomains only. */
function isNamedBy(entry: string, host: string, port: string): boolean {
  const [, bracketed, plain, entryPort = ""] = /^(?:\[([^\]]*)\]|([^:]*)):([^:]*)$/.exec(entry) ?? ["", undefined, entry];
  const name = bracketed ?? plain ?? "";
  if (name === "" || (entryPort !== "" && entryPort !== port)) return false;
  if (isIP(name) !== 0) return name === host;
  const domain = name.replace(/^\*(?=\.)/, "");
  return domain.startsWith(".") ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`);
}
