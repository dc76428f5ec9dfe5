/** The proxy that environment variables configure for a server. */
import { describe, expect, it } from "vitest";

import { proxyFor, proxyOf } from "../../../../shared/kube/http/proxy.ts";

const SERVERS = [
  "https://api.example.com:6443",
  "https://example.com",
  "https://10.1.2.3:6443",
  "https://127.0.0.1:6443",
  "https://localhost:6443",
  "https://[::1]:6443",
  "https://[2001:db8::5]:6443",
  "https://API.Example.com",
  "https://notexample.com",
];
/** For each NO_PROXY, whether golang.org/x/net/http/httpproxy v0.56.0 uses a proxy (`x`) for each server. Recorded from Go. */
const VERDICTS: readonly (readonly [noProxy: string, used: string])[] = [
  ["", "xxx...xxx"],
  ["*", "........."],
  ["example.com", "..x...x.x"],
  [".example.com", ".xx...x.x"],
  ["*.example.com", ".xx...x.x"],
  ["api.example.com:6443", ".xx...xxx"],
  ["api.example.com:443", "xxx...x.x"],
  ["EXAMPLE.com", "..x...x.x"],
  [" foo , example.com ", "..x...x.x"],
  ["10.0.0.0/8", "xx....xxx"],
  ["10.1.2.3", "xx....xxx"],
  ["10.1.2.3:6443", "xx....xxx"],
  ["10.1.2.3:443", "xxx...xxx"],
  ["2001:db8::/32", "xxx....xx"],
  ["[2001:db8::5]", "xxx...xxx"],
  ["2001:db8::5", "xxx....xx"],
  ["[2001:db8::5]:6443", "xxx....xx"],
  ["[2001:db8::5]:443", "xxx...xxx"],
  ["com", "..x...x.."],
  ["xample.com", "xxx...xxx"],
  ["https://example.com", "xxx...xxx"],
  ["10.0.0.0/99", "xxx...xxx"],
  ["example.com:", "..x...x.x"],
  [":6443", "xxx...xxx"],
  ["*example.com", "xxx...xxx"],
  ["a*", "xxx...xxx"],
];

describe("the proxy of a server", () => {
  it.each(VERDICTS)("NO_PROXY=%j exempts the servers that Go exempts", (noProxy, used) => {
    const taken = SERVERS.map((server) => proxyFor(new URL(server), { HTTPS_PROXY: "http://p:1", NO_PROXY: noProxy }) !== undefined);
    expect(taken.map((isTaken) => (isTaken ? "x" : ".")).join("")).toBe(used);
  });

  it.each([
    { environment: { HTTPS_PROXY: "http://p:3128" }, proxy: { host: "p", port: 3128 } },
    { environment: { https_proxy: "http://p:3128" }, proxy: { host: "p", port: 3128 } },
    { environment: { HTTPS_PROXY: "http://upper:1", https_proxy: "http://lower:1" }, proxy: { host: "upper", port: 1 } },
    { environment: { HTTPS_PROXY: "", https_proxy: "http://lower:1" }, proxy: { host: "lower", port: 1 } },
    { environment: { HTTPS_PROXY: "p:3128" }, proxy: { host: "p", port: 3128 } },
    { environment: { HTTPS_PROXY: "http://p" }, proxy: { host: "p", port: 80 } },
    { environment: { HTTPS_PROXY: "https://p" }, proxy: { host: "p", port: 443, tls: {} } },
    { environment: { HTTPS_PROXY: "http://[::1]:8" }, proxy: { host: "::1", port: 8 } },
    { environment: { HTTPS_PROXY: "http://a:b%40c@p:8" }, proxy: { host: "p", port: 8, authorization: "Basic YTpiQGM=" } },
    { environment: { HTTP_PROXY: "http://p:3128" }, proxy: undefined },
    { environment: { ALL_PROXY: "http://p:3128" }, proxy: undefined },
  ])("the proxy is $proxy for $environment", ({ environment, proxy }) => {
    expect(proxyFor(new URL("https://k8s.test:6443"), environment)).toEqual(proxy);
  });

  it("the proxy of a server over plain HTTP is that of HTTP_PROXY", () => {
    const environment = { HTTP_PROXY: "http://p:1", HTTPS_PROXY: "http://q:1" };
    expect(proxyFor(new URL("http://k8s.test:8080"), environment)).toEqual({ host: "p", port: 1 });
  });

  it.each(["socks5://u:secret@p:1", "ftp://u:secret@p", "http://", "http://u:secret@p:99999"])(
    "%s is rejected with the name of the variable that contains it",
    (url) => {
      expect(() => proxyOf(url, "HTTPS_PROXY")).toThrow(
        /^HTTPS_PROXY is not a usable proxy URL: write http:\/\/host:port or https:\/\/host:port$/,
      );
    },
  );
});
