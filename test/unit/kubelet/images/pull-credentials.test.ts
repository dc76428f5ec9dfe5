/**
 * Selection of the pull secret's entry for an image.
 *
 * Catches: credentials that are sent to another registry; Docker Hub under one of its other names; an exact entry that is tried after a
 * general one; and a broken secret that makes the pull throw.
 */
import { describe, expect, it } from "vitest";
import { parseDockerConfig } from "../../../../shared/node-agent/kubelet/images/credential-provider.ts";
import { bytesOfText } from "../../../../shared/base/byte-text.ts";
import { pullCredentials } from "../../../../shared/node-agent/kubelet/images/image-pull.ts";

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");
const secret = (...keys: readonly string[]) => ({
  type: "kubernetes.io/dockerconfigjson",
  data: { ".dockerconfigjson": encode({ auths: Object.fromEntries(keys.map((key) => [key, { username: key, password: "p" }])) }) },
});
const users = (image: string, ...secrets: Parameters<typeof pullCredentials>[1]): readonly (string | undefined)[] =>
  pullCredentials(image, secrets).map(({ username }) => username);

describe("pull credentials", () => {
  it.each([
    { name: "are those of the image's registry", image: "registry.test/web:1", keys: ["registry.test"], want: ["registry.test"] },
    { name: "of another registry are not sent", image: "registry.test/web:1", keys: ["other.test", "test", "sub.registry.test"], want: [] },
    {
      name: "match a registry with scheme and API path",
      image: "registry.test/web",
      keys: ["https://registry.test/v2/"],
      want: ["https://registry.test/v2/"],
    },
    {
      name: "match the port too",
      image: "registry.test:5000/web",
      keys: ["registry.test", "registry.test:5000"],
      want: ["registry.test:5000"],
    },
    {
      name: "of Docker Hub are used for an image without registry",
      image: "busybox",
      keys: ["https://index.docker.io/v1/"],
      want: ["https://index.docker.io/v1/"],
    },
    { name: "of Docker Hub are used for docker.io", image: "docker.io/team/web@sha256:0", keys: ["docker.io"], want: ["docker.io"] },
    {
      name: "match exactly one host label for an asterisk",
      image: "a.registry.test/web",
      keys: ["*.registry.test", "*.test"],
      want: ["*.registry.test"],
    },
    { name: "do not treat a dot as a wildcard", image: "registryxtest.a/web", keys: ["registry.test.a"], want: [] },
    {
      name: "of a repository come before those of its registry",
      image: "registry.test/team/web",
      keys: ["registry.test", "registry.test/team"],
      want: ["registry.test/team", "registry.test"],
    },
    { name: "match complete path parts only", image: "registry.test/teams/web", keys: ["registry.test/team"], want: [] },
    { name: "treat localhost as a registry", image: "localhost/web", keys: ["localhost", "index.docker.io"], want: ["localhost"] },
  ])("pull credentials: $name", ({ image, keys, want }) => {
    expect(users(image, secret(...keys))).toEqual(want);
  });

  it("keeps the order of the secrets", () => {
    const second = {
      ...secret("registry.test"),
      data: { ".dockerconfigjson": encode({ auths: { "registry.test": { username: "two" } } }) },
    };
    expect(users("registry.test/web", secret("registry.test"), second)).toEqual(["registry.test", "two"]);
  });

  it("parses auth, tokens and the legacy form", () => {
    const auth = Buffer.from("user:pass:word").toString("base64");
    const old = {
      type: "kubernetes.io/dockercfg",
      data: { ".dockercfg": encode({ "registry.test": { auth, identitytoken: "i", registrytoken: "r" } }) },
    };
    expect(pullCredentials("registry.test/web", [old])).toEqual([
      { username: "user", password: "pass:word", identityToken: "i", registryToken: "r", serverAddress: "registry.test" },
    ]);
  });

  it("preserves bytes of a password that are not UTF-8", () => {
    const auth = Buffer.from([0x6d, 0x65, 0x3a, 0xff, 0x3a]).toString("base64");
    const [own] = pullCredentials("registry.test/web", [
      { data: { ".dockerconfigjson": encode({ auths: { "registry.test": { auth } } }) } },
    ]);
    expect(bytesOfText(own?.password ?? "")).toEqual(Buffer.from([0xff, 0x3a]));
    const { password = "" } = parseDockerConfig(JSON.stringify({ "r.test": { auth } }), ".dockercfg")["r.test"] ?? {};
    expect(bytesOfText(password)).toEqual(Buffer.from([0xff, 0x3a]));
  });

  it.each([
    { entry: null, want: {} },
    { entry: { auth: null, username: "u", password: "p" }, want: { username: "u", password: "p" } },
    { entry: { auth: Buffer.from("u:p").toString("base64"), username: null, password: null }, want: { username: "u", password: "p" } },
    { entry: { username: "u", password: null, identitytoken: null, registrytoken: null }, want: { username: "u" } },
  ])("reads null as absence: $entry", ({ entry, want }) => {
    const data = { ".dockerconfigjson": encode({ auths: { "registry.test": entry } }) };
    expect(pullCredentials("registry.test/web", [{ data }])).toEqual([{ ...want, serverAddress: "registry.test" }]);
  });

  it("ignores invalid configurations", () => {
    expect(
      pullCredentials("registry.test/web", [{}, { data: { ".dockerconfigjson": "!!" } }, { data: { ".dockerconfigjson": encode([1]) } }]),
    ).toEqual([]);
  });

  it.each([
    { key: "*.test", host: "a.test", isSent: true },
    { key: "r*y.test", host: "registry.test", isSent: true },
    { key: "ab*ba.test", host: "aba.test", isSent: false },
    { key: "*a*b.test", host: "xaxb.test", isSent: true },
    { key: "*a*b.test", host: "bba.test", isSent: false },
    { key: "*.test:5000", host: "a.test:5000", isSent: true },
    { key: "*.test*", host: "a.test:5000", isSent: false },
    { key: "registry-?.test", host: "registry-1.test", isSent: true },
    { key: "registry-?.test", host: "registry-10.test", isSent: false },
  ])("[node-agent 483] credentials for $key are sent to $host: $isSent", ({ key, host, isSent }) => {
    expect(users(`${host}/web`, secret(key))).toEqual(isSent ? [key] : []);
  });

  it("[node-agent 483] matches a pattern with many asterisks in time proportional to its length", () => {
    const begun = performance.now();
    expect(users(`${"a".repeat(60)}.test/x:1`, secret(`${"*a".repeat(7)}*b.test`))).toEqual([]);
    expect(performance.now() - begun).toBeLessThan(5_000); // with backtracking 38 s, and seven times as long for each additional star
  });

  it("[node-agent 483] trims NUL bytes from credentials in time proportional to their length", () => {
    const auth = Buffer.from(`joe:${"\0".repeat(200_000)}x:p\0\0`).toString("base64");
    const begun = performance.now();
    const [own] = pullCredentials("registry.test/web", [
      { data: { ".dockerconfigjson": encode({ auths: { "registry.test": { auth } } }) } },
    ]);
    expect(own?.username).toBe("joe");
    expect(own?.password?.endsWith("x:p")).toBe(true);
    expect(performance.now() - begun).toBeLessThan(5_000); // with a regular expression, half a minute
  });
});
