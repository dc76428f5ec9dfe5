/**
 * Catches: a token that would be sent unencrypted or printed, a credential from outside the file, and a setting that is silently ignored.
 */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";

import { TokenInClearError } from "../../../../shared/kube/http/config.ts";
import type { KubeHttpConfig } from "../../../../shared/kube/http/config.ts";
import { kubeHttpConfigFrom } from "../../../../shared/kube/kubeconfig/kubeconfig.ts";
import { kubeconfigPath } from "../../../../shared/kube/kubeconfig/kubeconfig-path.ts";
import { createPki } from "../../../envtest/pki.ts";
import type { Certificate } from "../../../envtest/pki.ts";
import { kubeconfigOf } from "../../../support/kubeconfig.ts";

let folder: string;
let ca: string;
let own: Certificate;
let another: Certificate;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-kubeconfig-"));
  const pki = await createPki(join(folder, "ca"));
  ca = pki.ca;
  [own, another] = await Promise.all([pki.clientCertificate("somebody", []), pki.clientCertificate("another", [])]);
});
afterAll(() => rm(folder, { recursive: true }));

async function configOf(text: string, context?: string): Promise<KubeHttpConfig> {
  const path = join(folder, "kubeconfig");
  await writeFile(path, text);
  return await kubeHttpConfigFrom(path, { component: "test", ...(context !== undefined && { context }) });
}

async function configFor(server: string, user: object, cluster: object = {}): Promise<KubeHttpConfig> {
  return await configOf(kubeconfigOf({ server, ...cluster }, user));
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const SERVER = "https://k8s:6443";
/** A credential plugin that runs this script. */
const plugin = (script: string, more: object = {}): object => ({
  exec: { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args: ["-e", script], ...more },
});
const printing = (status: object, more: object = {}): string =>
  `console.log(${JSON.stringify(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status, ...more }))})`;

it("parses a kubeconfig as YAML, with paths relative to the file", async () => {
  await mkdir(join(folder, "pki"), { recursive: true });
  await writeFile(join(folder, "pki/ca.pem"), ca);
  await writeFile(join(folder, "pki/key.pem"), own.key);
  const config = await configOf(`
apiVersion: v1
kind: Config
preferences: {}
clusters:
- name: c
  cluster: {server: "${SERVER}", certificate-authority: pki/ca.pem, tls-server-name: kubernetes, insecure-skip-tls-verify: no}
users:
- name: u
  user:
    client-certificate-data: ${base64(own.certificate)}
    client-certificate: pki/no-such-file
    client-key: pki/key.pem
contexts:
- name: x
  context: {cluster: c, user: u, namespace: shop}
current-context: x
`);
  expect({ ...config, ca: String(config.ca), cert: String(config.cert), key: String(config.key) }).toEqual({
    server: SERVER,
    component: "test",
    ca,
    cert: own.certificate,
    key: own.key,
    serverName: "kubernetes",
  });
});

it("accepts a cluster with insecure-skip-tls-verify, and a user without credentials", async () => {
  expect(await configFor(SERVER, {}, { "insecure-skip-tls-verify": true })).toEqual({ server: SERVER, component: "test", insecure: true });
});

it("prefers a token file to a token, and both to a plugin", async () => {
  await writeFile(join(folder, "token"), "of-a-file\n");
  const exec = plugin(printing({ token: "of-a-plugin" }));
  const tokenOf = async (user: object): Promise<unknown> => await (await configFor(SERVER, { ...exec, ...user })).token?.();
  expect(await tokenOf({})).toBe("of-a-plugin");
  expect(await tokenOf({ token: "its-own" })).toBe("its-own");
  expect(await tokenOf({ token: "its-own", tokenFile: "token" })).toBe("of-a-file");
});

describe("rejects a kubeconfig without quoting its secrets", () => {
  const cases: readonly { readonly text: string; readonly context?: string; readonly says: RegExp }[] = [
    { text: "a: [secret", says: /kubeconfig \S+ is not YAML: bad indent at line 1/ },
    { text: "users: secret", says: /kubeconfig \S+: users is not Array$/ },
    { text: "users: [{name: u, user: {token: {secret: 1}}}]", says: /: users.0.user.token is not string/ },
    { text: "", says: /has no current-context; name one of: none/ },
    { text: kubeconfigOf({ server: SERVER }), context: "y", says: /no context "y" in \S+; it has: x$/ },
    { text: kubeconfigOf({ server: SERVER }).replace('"c"', '"d"'), says: /context "x" of \S+ names no cluster of that file/ },
    { text: kubeconfigOf({ server: SERVER }).replace('"u"', '"w"'), says: /context "x" of \S+ names no user of that file/ },
    {
      text: kubeconfigOf({ server: SERVER, "proxy-url": "socks5://secret@p" }),
      says: /: proxy-url of context "x" of \S+ is not a usable proxy URL: write http:/,
    },
    { text: kubeconfigOf({ server: SERVER }, { username: "a", password: "secret" }), says: /uses username and password/ },
    { text: kubeconfigOf({ server: SERVER }, { "auth-provider": { name: "gcp" } }), says: /uses auth-provider, .* exec plugins$/ },
    { text: kubeconfigOf({ server: SERVER }, { token: "secret", as: "admin" }), says: /uses impersonation \(as\)/ },
    { text: kubeconfigOf({ server: SERVER }, { password: "secret" }), says: /uses username and password/ },
    { text: kubeconfigOf({ server: SERVER }, { username: "secret" }), says: /uses username and password/ },
    { text: kubeconfigOf({ server: SERVER }, { "as-uid": "secret" }), says: /uses impersonation \(as-uid\)/ },
    {
      text: kubeconfigOf({ server: SERVER }, { as: "a", "as-groups": ["secret"], "as-user-extra": { scopes: ["secret"] } }),
      says: /uses impersonation \(as, as-groups, as-user-extra\), which is not supported$/,
    },
    {
      text: kubeconfigOf({ server: "https://admin:secret@k8s:6443" }),
      says: /context "x" of \S+ uses cluster "c", whose server contains a user name or password, .* remove it from the URL$/,
    },
    { text: kubeconfigOf({ server: "https://secret@k8s:6443" }), says: /uses cluster "c", whose server contains a user name or password/ },
    {
      text: kubeconfigOf({ server: "https://k8s:6443?token=secret" }),
      says: /uses cluster "c", whose server contains a query or fragment/,
    },
    { text: kubeconfigOf({ server: "https://k8s:6443#secret" }), says: /uses cluster "c", whose server contains a query or fragment/ },
    { text: kubeconfigOf({ server: "k8s:6443" }), says: /uses cluster "c", whose server is not a URL that begins with https:/ },
    { text: kubeconfigOf({ server: "admin:secret@k8s" }), says: /uses cluster "c", whose server is not a URL that begins with https:/ },
    { text: kubeconfigOf({ server: "https://secret:@" }), says: /uses cluster "c", whose server is not a URL that begins with https:/ },
    {
      text: kubeconfigOf({ server: SERVER, "insecure-skip-tls-verify": true, "certificate-authority": "secret" }),
      says: /uses cluster "c", which sets insecure-skip-tls-verify and a certificate authority: remove one of them$/,
    },
    {
      text: kubeconfigOf({ server: SERVER, "insecure-skip-tls-verify": true, "certificate-authority-data": "c2VjcmV0" }),
      says: /uses cluster "c", which sets insecure-skip-tls-verify and a certificate authority/,
    },
    {
      text: kubeconfigOf({ server: SERVER, "certificate-authority-data": "secret!" }),
      says: /context "x" of \S+: certificate-authority-data is not base64$/,
    },
    {
      text: kubeconfigOf({ server: SERVER, "certificate-authority-data": base64("secret") }),
      says: /context "x" of \S+: certificate-authority-data contains no PEM certificate$/,
    },
    {
      text: kubeconfigOf({ server: SERVER, "certificate-authority": "no-such-file" }),
      says: /context "x" of \S+: certificate-authority cannot be read: ENOENT: .*no-such-file/,
    },
    {
      text: kubeconfigOf({ server: SERVER, "certificate-authority": "/dev/null" }),
      says: /: certificate-authority \/dev\/null contains no PEM cert/,
    },
    { text: kubeconfigOf({ server: SERVER }, { "client-key-data": "secret" }), says: /: client-key-data is not base64$/ },
    { text: kubeconfigOf({ server: SERVER }, { tokenFile: "no-such-file" }), says: /: tokenFile cannot be read: ENOENT: .*no-such-file/ },
    { text: kubeconfigOf({ server: SERVER }, { tokenFile: "/dev/null", token: "secret" }), says: /: tokenFile \/dev\/null is empty$/ },
    { text: kubeconfigOf({ server: SERVER }, { token: "secret\n" }), says: /context "x" of \S+: token contains a line break/ },
    {
      text: kubeconfigOf({ server: SERVER }, { token: "two secrets" }),
      says: /: token contains .* another character that is invalid in a token$/,
    },
    { text: "contexts: [{context: {}}]", says: /kubeconfig \S+: contexts.0.name is missing$/ },
    // kubernetes/minikube#6467
    {
      text: "users: [{name: minikube, user: {token: secret}}, {name: minikube, user: {token: other}}]",
      says: /kubeconfig \S+: users has two entries named "minikube": rename one of them$/,
    },
    { text: "clusters: [{name: c}, {name: c}]", says: /: clusters has two entries named "c"/ },
    { text: "contexts: [{name: x}, {name: x}]", says: /: contexts has two entries named "x"/ },
  ];
  it.each(cases)("with the message $says", async ({ text, context, says }) => {
    const error: unknown = await configOf(text, context).catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(says);
    expect(String(error)).not.toContain("secret");
  });
});

it("rejects a client certificate without a key or with an invalid one", async () => {
  const data = (cert: string, key: string) => ({ "client-certificate-data": base64(cert), ...(key && { "client-key-data": base64(key) }) });
  await expect(configFor(SERVER, data(own.certificate, own.key))).resolves.toMatchObject({ server: SERVER });
  for (const [user, says] of [
    [data(own.certificate, ""), /context "x" of \S+: client-certificate-data is set without client-key$/],
    [data(own.certificate, another.key), /client-certificate-data does not match its private key$/],
    [data(own.certificate, "secret"), /client-certificate-data has a key that is not an unencrypted PEM private key$/],
    [data("secret", own.key), /client-certificate-data contains no PEM certificate$/],
  ] as const)
    await expect(configFor(SERVER, user)).rejects.toThrow(says);
});

it("accepts one file with certificate and key", async () => {
  await writeFile(join(folder, "both.pem"), own.certificate + own.key);
  await expect(configFor(SERVER, { "client-certificate": "both.pem", "client-key": "both.pem" })).resolves.toMatchObject({
    cert: own.certificate + own.key,
  });
});

it("accepts base64 with line breaks, and a token file with a trailing newline", async () => {
  await writeFile(join(folder, "token"), "\n from-the-file \r\n");
  const broken = base64(ca).replaceAll(/.{60}/g, "$&\n");
  const config = await configFor(SERVER, { tokenFile: "token" }, { "certificate-authority-data": broken });
  expect([String(config.ca), await config.token?.()]).toEqual([ca, "from-the-file"]);
});

describe("an exec credential plugin", () => {
  it("receives the request's parameters, and returns a certificate", async () => {
    const seen = join(folder, "seen");
    const script = `require("node:fs").writeFileSync(${JSON.stringify(seen)}, process.env.KUBERNETES_EXEC_INFO + process.env.MORE);
      ${printing({ clientCertificateData: own.certificate, clientKeyData: own.key })}`;
    const exec = plugin(script, { env: [{ name: "MORE", value: "!" }], provideClusterInfo: true });
    const cluster = { "tls-server-name": "kubernetes", "certificate-authority-data": base64(ca) };
    expect(await configFor(SERVER, exec, cluster)).toMatchObject({ cert: own.certificate, key: own.key });
    expect(await readFile(seen, "utf8")).toBe(
      `${JSON.stringify({
        kind: "ExecCredential",
        apiVersion: "client.authentication.k8s.io/v1",
        spec: {
          interactive: false,
          cluster: { server: SERVER, "tls-server-name": "kubernetes", "certificate-authority-data": base64(ca) },
        },
      })}!`,
    );
  });

  it("inherits the environment, without deltaloop's own secrets", async () => {
    const seen = join(folder, "environment");
    const script = `require("node:fs").writeFileSync(${JSON.stringify(seen)}, JSON.stringify(process.env)); ${printing({ token: "t" })}`;
    vi.stubEnv("AWS_PROFILE", "prod");
    for (const name of ["MAC_KEY", "DIGEST_KEY", "REDIS_URL", "KUBE_TOKEN", "KUBE_CLIENT_KEY"]) vi.stubEnv(`DELTALOOP_${name}`, "secret");
    await configFor(SERVER, plugin(script, { env: [{ name: "DELTALOOP_OF_ITS_OWN", value: "given" }] })).finally(() => vi.unstubAllEnvs());
    const text = await readFile(seen, "utf8");
    expect(JSON.parse(text)).toMatchObject({ AWS_PROFILE: "prod", DELTALOOP_OF_ITS_OWN: "given" });
    expect(text).not.toContain("secret");
  });

  it("returns another certificate when the last one expired or was rejected, and receives the cluster's configuration", async () => {
    const runs = join(folder, "certificates");
    await writeFile(runs, "");
    const script = (expires: string): string => `const fs = require("node:fs");
      fs.appendFileSync(${JSON.stringify(runs)}, ".");
      const { config } = JSON.parse(process.env.KUBERNETES_EXEC_INFO).spec.cluster;
      const clientCertificateData = config.audience + fs.readFileSync(${JSON.stringify(runs)}).length + "\\n" + ${JSON.stringify(own.certificate)};
      const clientKeyData = ${JSON.stringify(own.key)};
      const status = { clientCertificateData, clientKeyData, expirationTimestamp: ${JSON.stringify(expires)} };
      console.log(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status }));`;
    const cluster = { extensions: [{ name: "client.authentication.k8s.io/exec", extension: { audience: "a" } }] };
    const of = async (expires: string) =>
      (await configFor(SERVER, plugin(script(expires), { provideClusterInfo: true }), cluster)).certificate;
    const numbered = (run: string) => ({ cert: `${run}\n${own.certificate}`, key: own.key });
    const ended = await of("2020-01-01T00:00:00Z");
    expect([await ended?.(), await ended?.()]).toEqual([numbered("a2"), numbered("a3")]);
    const lasting = await of("2120-01-01T00:00:00Z");
    const first = await lasting?.();
    const second = await lasting?.(first);
    expect([first, second, await lasting?.(first)]).toEqual(["a4", "a5", "a5"].map(numbered));
  });

  it("resolves a command with a slash relative to the file", async () => {
    await mkdir(join(folder, "bin"), { recursive: true });
    const script = join(folder, "bin/get-token");
    await writeFile(script, `#!${process.execPath}\n${printing({ token: "beside" })}`);
    await chmod(script, 0o755);
    const { token } = await configFor(SERVER, { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "bin/get-token" } });
    expect(await token?.()).toBe("beside");
  });

  it("runs a plugin again when its credentials have expired, and not before", async () => {
    const runs = join(folder, "asked");
    await writeFile(runs, "");
    const script = (expires: string): string =>
      `require("node:fs").appendFileSync(${JSON.stringify(runs)}, "."); ${printing({
        token: "t",
        expirationTimestamp: expires,
      })}`;
    const ended = await configFor(SERVER, plugin(script("2020-01-01T00:00:00Z")));
    await ended.token?.();
    await ended.token?.();
    expect(await readFile(runs, "utf8")).toBe("...");
    const lasting = await configFor(SERVER, plugin(script("2120-01-01T00:00:00Z")));
    await lasting.token?.();
    await lasting.token?.();
    expect(await readFile(runs, "utf8")).toBe("....");
  });

  it.each([
    {
      exec: plugin("process.exit(7)", { installHint: "get it at example.com" }),
      says: /plugin \S+ exited with code 7\nget it at example.com$/,
    },
    { exec: plugin("console.error('no session'); process.exit(1)"), says: /exited with code 1: no session$/ },
    { exec: plugin("console.log('secret')"), says: /did not print an ExecCredential with a status: what it printed is not JSON$/ },
    { exec: plugin(""), says: /did not print an ExecCredential with a status: it printed nothing$/ },
    { exec: plugin(printing({ token: { secret: 1 } })), says: /an ExecCredential with a status: status.token is not string$/ },
    { exec: plugin(printing({}, { status: undefined })), says: /an ExecCredential with a status: status is missing$/ },
    { exec: plugin(printing({})), says: /returned neither a token nor a certificate/ },
    { exec: plugin(printing({ clientKeyData: "secret" })), says: /without a certificate/ },
    { exec: plugin(printing({ token: "", clientCertificateData: "" })), says: /returned neither a token nor a certificate/ },
    {
      exec: plugin(printing({ token: "one\nsecret" })),
      says: /context "x" of \S+: the .* returned an invalid token: it contains white space/,
    },
    {
      exec: plugin(printing({ clientCertificateData: "secret", clientKeyData: "secret" })),
      says: /returned a certificate that contains no PEM certificate$/,
    },
    {
      exec: plugin(printing({ token: "secret" }, { apiVersion: "client.authentication.k8s.io/v1beta1" })),
      says: /but responded with \S+v1beta1$/,
    },
    { exec: plugin("", { interactiveMode: "Always" }), says: /needs a terminal/ },
    { exec: plugin("", { apiVersion: "client.authentication.k8s.io/v1alpha1" }), says: /: exec.apiVersion is not \("client/ },
    { exec: { exec: { command: "no-such-plugin" } }, says: /context "x" of \S+: exec.apiVersion is missing$/ },
    {
      exec: { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "no-such-plugin" } },
      says: /plugin no-such-plugin was not found/,
    },
  ])("reports a plugin that cannot be used: $says", async ({ exec, says }) => {
    const error: unknown = await configFor(SERVER, exec).catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(says);
    expect(String(error)).not.toContain("secret");
  });
});

it("rejects a token for an http:// server on another machine, from the file itself and from a token file", async () => {
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "secret");
  for (const user of [{ token: "secret" }, { tokenFile }]) {
    await expect(configFor("http://k8s:8080", user)).rejects.toThrow(TokenInClearError);
    await expect(configFor("http://127.0.0.1:8080", user)).resolves.toMatchObject({ server: "http://127.0.0.1:8080" });
  }
});

it("accepts an http:// server without a token, such as kubectl proxy", async () => {
  await expect(configFor("http://k8s:8080", {})).resolves.toMatchObject({ server: "http://k8s:8080" });
});

it("reads a rejected token from its file again at once and then every 2 s, and keeps an accepted token", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const server = "https://k8s:6443";
  const { token } = await configFor(server, { token: "one" });
  expect(await token?.()).toBe("one");
  await configFor(server, { token: "two" });
  expect(await token?.()).toBe("one");
  expect(await token?.("zero")).toBe("one");
  expect(await Promise.all([token?.("one"), token?.("one")])).toEqual(["two", "two"]);
  expect(await token?.("one")).toBe("two");
  expect(await token?.("two")).toBe("two");
  await configFor(server, { token: "three" });
  expect(await token?.("two")).toBe("two");
  vi.setSystemTime(Date.now() + 2_000);
  expect(await token?.("two")).toBe("three");
});

it("runs a plugin again when its token was rejected, whatever its expiry", async () => {
  const script = `const fs = require("node:fs"); const n = Number(fs.existsSync(process.argv[1]) ? fs.readFileSync(process.argv[1], "utf8") : 0) + 1;
    fs.writeFileSync(process.argv[1], String(n));
    console.log(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status: { token: "run-" + n } }))`;
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args: ["-e", script, join(folder, "runs")] };
  const { token } = await configFor("https://k8s:6443", { exec });
  const first = await token?.();
  expect(await token?.("another")).toBe(first);
  const second = await token?.(first);
  expect(second).toMatch(/^run-\d$/);
  expect(second).not.toBe(first);
  expect(await token?.(first)).toBe(second);
});

it.each([
  {
    what: "current-context changes to a context with another server",
    now: "b",
    servers: ["https://a.test", "https://b.test"],
    tokens: ["of-a", "of-b"],
  },
  {
    what: "current-context changes to a context with the same server",
    now: "b",
    servers: ["https://a.test", "https://a.test"],
    tokens: ["of-a", "of-b"],
  },
  { what: "the server of its context changes", now: "a", servers: ["https://c.test", "https://b.test"], tokens: ["of-c", "of-b"] },
])("keeps using the token of the context and server that it was read for when $what", async ({ now, servers, tokens }) => {
  const file = (current: string, [a, b]: readonly string[], [ofA, ofB]: readonly string[]): string =>
    JSON.stringify({
      "current-context": current,
      contexts: ["a", "b"].map((name) => ({ name, context: { cluster: name, user: name } })),
      clusters: [
        { name: "a", cluster: { server: a } },
        { name: "b", cluster: { server: b } },
      ],
      users: [
        { name: "a", user: { token: ofA } },
        { name: "b", user: { token: ofB } },
      ],
    });
  const config = await configOf(file("a", ["https://a.test", "https://b.test"], ["of-a", "of-b"]));
  await writeFile(join(folder, "kubeconfig"), file(now, servers, tokens));
  expect(await config.token?.("of-a")).toBe("of-a");
});

describe("a list of files in KUBECONFIG", () => {
  const CONTEXT = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
  const WHOLE = `clusters: [{name: c, cluster: {server: "${SERVER}"}}]\nusers: [{name: u, user: {token: whole}}]\n${CONTEXT}`;
  const cases: readonly {
    readonly title: string;
    readonly files: readonly (string | undefined)[];
    readonly server?: string;
    readonly token?: string;
  }[] = [
    { title: "skips a file that does not exist", files: [undefined, WHOLE] },
    { title: "skips an empty file", files: ["", WHOLE] },
    {
      title: "uses the current-context of the first file that sets it",
      files: ["current-context: x\n", WHOLE.replace("current-context: x", "current-context: z")],
    },
    { title: "uses the first definition of a user", files: ["users: [{name: u, user: {token: first}}]\n", WHOLE], token: "first" },
    {
      title: "does not merge two definitions of a cluster",
      files: [`clusters: [{name: c, cluster: {server: "https://first:1"}}]\n`, WHOLE],
      server: "https://first:1",
    },
  ];
  it.each(cases)("$title", async ({ files, server = SERVER, token = "whole" }) => {
    const own = await mkdtemp(join(folder, "list-"));
    const paths = await Promise.all(
      files.map(async (text, i) => {
        const path = join(own, String(i));
        if (text !== undefined) await writeFile(path, text);
        return path;
      }),
    );
    vi.stubEnv("KUBECONFIG", `:${paths.join(":")}:`);
    const config = await kubeHttpConfigFrom(kubeconfigPath(undefined), { component: "test" });
    vi.unstubAllEnvs();
    expect([config.server, await config.token?.()]).toEqual([server, token]);
  });

  it("resolves paths relative to the file that contains them", async () => {
    const own = await mkdtemp(join(folder, "list-"));
    await Promise.all(["a", "b"].map((name) => mkdir(join(own, name))));
    await writeFile(join(own, "a/token"), "of-a");
    await writeFile(join(own, "b/ca.pem"), ca);
    await writeFile(join(own, "a/config"), "users: [{name: u, user: {tokenFile: token}}]\n");
    await writeFile(
      join(own, "b/config"),
      `clusters: [{name: c, cluster: {server: "${SERVER}", certificate-authority: ca.pem}}]\n${CONTEXT}`,
    );
    const config = await kubeHttpConfigFrom(`${join(own, "a/config")}:${join(own, "b/config")}`, { component: "test" });
    expect([String(config.ca), await config.token?.()]).toEqual([ca, "of-a"]);
  });

  it("the error contains the name of the invalid file, or of the first file if none exists", async () => {
    const own = await mkdtemp(join(folder, "list-"));
    const [whole, broken] = [join(own, "whole"), join(own, "broken")];
    await writeFile(whole, WHOLE);
    await writeFile(broken, "a: [b");
    await expect(kubeHttpConfigFrom(`${whole}:${broken}`, { component: "test" })).rejects.toThrow(`kubeconfig ${broken} is not YAML`);
    await expect(kubeHttpConfigFrom(`${own}/none:${own}/too`, { component: "test" })).rejects.toThrow(
      `kubeconfig ${own}/none cannot be read: ENOENT`,
    );
  });
});

/** The results of kubectl (client-go 0.36.3). */
it.each([
  { form: "UTF-8 with a byte order mark", bytes: (text: string) => Buffer.from(`\ufeff${text}`) },
  { form: "UTF-16LE with a byte order mark", bytes: (text: string) => Buffer.from(`\ufeff${text}`, "utf16le") },
  { form: "UTF-16BE with a byte order mark", bytes: (text: string) => Buffer.from(`\ufeff${text}`, "utf16le").swap16() },
])("a kubeconfig may be $form", async ({ bytes }) => {
  const path = join(folder, "encoded");
  await writeFile(path, bytes(kubeconfigOf({ server: SERVER })));
  expect((await kubeHttpConfigFrom(path, { component: "test" })).server).toBe(SERVER);
});

it("uses a proxy-url as the cluster's proxy", async () => {
  const config = await configOf(kubeconfigOf({ server: SERVER, "proxy-url": "http://me:secret@p:3128" }));
  expect(config.proxy).toEqual({ host: "p", port: 3128, authorization: `Basic ${base64("me:secret")}` });
});

/** For Go's encoding/json, `null` is the same as absence. */
it.each([
  { title: "expirationTimestamp: null", status: { token: "tok", expirationTimestamp: null } },
  { title: "certificates that are null", status: { token: "tok", clientCertificateData: null, clientKeyData: null } },
  { title: "spec: null", status: { token: "tok" }, more: { spec: null } },
  { title: "an expirationTimestamp with an offset", status: { token: "tok", expirationTimestamp: "2041-09-12T02:12:54+00:00" } },
  { title: "env entries without a value", status: { token: "tok" }, env: [{ name: "AWS_PROFILE" }, { name: "AWS_REGION", value: null }] },
])("accepts a plugin with $title", async ({ status, more = {}, env = null }) => {
  const config = await configFor(SERVER, plugin(printing(status, more), { env }));
  expect(await config.token?.()).toBe("tok");
});

it("requests a plugin's credentials again when they expired long ago", async () => {
  const script = `require("node:fs").appendFileSync(process.env.COUNT, "x"); ${printing({ token: "tok", expirationTimestamp: "1970-01-01T00:00:00Z" })}`;
  const count = join(folder, "runs");
  await writeFile(count, "");
  const config = await configFor(SERVER, plugin(script, { env: [{ name: "COUNT", value: count }] }));
  await config.token?.();
  await config.token?.();
  expect((await readFile(count, "utf8")).length).toBeGreaterThan(1);
});
