/**
 * Public bug reports of other projects, recreated: kubeconfigs, YAML, probes and audit logs. Expected values are those of client-go,
 * sigs.k8s.io/yaml and the kubelet's packages, run on the same input.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";

import { afterAll, afterEach, describe, expect, it, vi } from "vitest";

import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { KubeHttpConfig } from "../../shared/kube/http/config.ts";
import { kubeconfigPath } from "../../shared/kube/kubeconfig/kubeconfig-path.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import type { HttpProbe, ProbeOutcome } from "../../shared/node-agent/ports/prober.ts";
import { createProber } from "../../shared/node-agent/prober/prober.ts";
import { manifestPod } from "../../shared/node-agent/sources/manifest.ts";
import { auditEventsIn, importFiles } from "../../shared/replay/import/import.ts";
import { captureLines } from "../../shared/replay/import/imported.ts";
import { ImportReport } from "../../shared/replay/import/report.ts";

const LOOPBACK = "127.0.0.1";
const folder = mkdtempSync(join(tmpdir(), "deltaloop-reports-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function fileOf(text: string): string {
  files += 1;
  const path = join(folder, String(files));
  writeFileSync(path, text);
  return path;
}

describe("a kubeconfig", () => {
  const CONTEXT = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
  const clusterAt = (server: string): string => `clusters: [{name: c, cluster: {server: "${server}"}}]\n`;
  const USER = "users: [{name: u, user: {token: tok}}]\n";

  async function configOf(...texts: readonly string[]): Promise<KubeHttpConfig> {
    vi.stubEnv("KUBECONFIG", texts.map(fileOf).join(":"));
    try {
      return await kubeHttpConfigFrom(kubeconfigPath(undefined), { component: "test" });
    } finally {
      vi.unstubAllEnvs();
    }
  }

  // https://github.com/kubernetes/kubectl/issues/1054
  it("that defines one cluster in two files takes it entirely from the first file, without the CA of the second", async () => {
    const second = `clusters: [{name: c, cluster: {server: "https://0.0.0.0:1234", certificate-authority-data: QUFB}}]\n${USER}${CONTEXT}`;
    const config = await configOf(`${clusterAt("https://k3d-ctrl-server-0:6443")}current-context: x\n`, second);
    expect(config).toMatchObject({ server: "https://k3d-ctrl-server-0:6443" });
    expect(config.ca).toBeUndefined();
    expect(await config.token?.()).toBe("tok");
  });

  // https://github.com/doriordan/skuber/pull/215
  it("whose context has an empty user name has no credentials", async () => {
    const config = await configOf(
      `${clusterAt("http://localhost:8080")}contexts: [{name: x, context: {cluster: c, user: ""}}]\ncurrent-context: x\n`,
    );
    expect(config).toEqual({ server: "http://localhost:8080", component: "test" });
  });

  // https://github.com/tailscale/tailscale/pull/11417
  it("whose lists are null, as kubectl writes them, adds nothing to the merged kubeconfig", async () => {
    const emptied = "apiVersion: v1\nkind: Config\npreferences: {}\nclusters: null\ncontexts: null\nusers: null\n";
    expect(await configOf(emptied, `${clusterAt("https://k:1")}${USER}${CONTEXT}`)).toMatchObject({ server: "https://k:1" });
    await expect(configOf(`${emptied}current-context: gone\n`)).rejects.toThrow(/^no context "gone" in \S+; it has: none$/);
  });

  // https://github.com/rancher/rancher/issues/31252, https://github.com/fabric8io/kubernetes-client/issues/3648
  it.each(["---\n", "---\nfoo: bar\n", "...\nfoo: bar\n"])("reads only the document before %j", async (tail) => {
    expect(await configOf(`${clusterAt("https://k:1")}${USER}${CONTEXT}${tail}`)).toMatchObject({ server: "https://k:1" });
  });

  // https://github.com/kubevirt/kubevirt/pull/8129
  it("keeps the path of a server behind Rancher", async () => {
    const server = "https://rancher.test/k8s/clusters/c-m-1";
    expect(await configOf(`${clusterAt(server)}${USER}${CONTEXT}`)).toMatchObject({ server });
  });
});

describe("a kubeconfig's CA data", () => {
  const [key, cert] = [join(folder, "ca-key.pem"), join(folder, "ca.pem")];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ca"];
  execFileSync("openssl", [...made, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const pem = readFileSync(cert, "utf8");
  const wrapped = (text: string): string => Buffer.from(text).toString("base64").replaceAll(/.{76}/g, "$&\n");
  const block = (text: string): string => `|\n${text.replaceAll(/^/gm, "      ")}`;
  const caOf = async (data: string): Promise<unknown> => {
    const cluster = `clusters:\n- name: c\n  cluster:\n    server: https://k:1\n    certificate-authority-data: ${data}\n`;
    const path = fileOf(`${cluster}contexts: [{name: x, context: {cluster: c, user: ""}}]\ncurrent-context: x\n`);
    return (await kubeHttpConfigFrom(path, { component: "test" })).ca?.toString();
  };

  // https://github.com/nklmilojevic/sofka/issues/635
  it("may be tagged !!binary, and so be encoded twice", async () => {
    expect(await caOf(`!!binary ${block(wrapped(wrapped(pem)))}`)).toBe(pem);
  });

  // https://github.com/kubernetes/kubernetes/issues/53661
  it("may contain line breaks, but no other characters outside base64", async () => {
    expect(await caOf(block(wrapped(pem)))).toBe(pem);
    await expect(caOf(`${Buffer.from(pem).toString("base64")}$`)).rejects.toThrow("certificate-authority-data is not base64");
  });
});

describe("a static pod's manifest", () => {
  const HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: bug}\nspec:\n  containers:\n  - image: debian:buster\n    name: bug\n";
  const podOf = (text: string) => manifestPod(text, "/m/bug.yaml", "n1");

  // https://github.com/kubernetes/kubernetes/issues/90905
  it("is rejected if an argument is 0999, which YAML reads as a number", () => {
    expect(() => podOf(`${HEAD}    args:\n    - echo\n    - 0999\n`)).toThrow("spec.containers[0].args[1] is a number, not a string");
  });

  // https://github.com/kubernetes/website/issues/45751
  it("may escape a slash in JSON, but not in YAML", () => {
    const json = JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "bug" },
      spec: { containers: [{ name: "bug", image: "registry.test/a/b:1" }] },
    });
    expect(podOf(` \n${json.replaceAll("/", String.raw`\/`)}`).spec.containers[0]?.image).toBe("registry.test/a/b:1");
    expect(() => podOf(`${HEAD}    args: ["a\\/b"]\n`)).toThrow("not YAML: an escape that YAML 1.1 does not have");
    expect(() => podOf(json.replace(",", ", # a comment\n"))).toThrow("not JSON, although it begins with a brace");
  });

  // https://github.com/kubernetes-sigs/kustomize/issues/4212
  it("resolves a merge key with an explicit tag", () => {
    const { spec } = podOf(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: bug}\nspec:\n  containers:\n  - &a {image: debian:buster, name: bug, env: [{name: A, value: b}]}\n  - !!merge <<: *a\n    name: two\n",
    );
    expect(spec.containers[1]).toMatchObject({ name: "two", image: "debian:buster", env: [{ name: "A", value: "b" }] });
  });

  // https://github.com/coreos/coreos-kubernetes/pull/840
  it("uses the last value of a repeated key", () => {
    expect(podOf(HEAD.replace("spec:\n", "spec:\n  hostNetwork: false\n  hostNetwork: true\n")).spec.hostNetwork).toBe(true);
  });

  // https://github.com/kubernetes/kubernetes/issues/34146
  it("is rejected with a directive for YAML 1.2", () => {
    expect(() => podOf(`%YAML 1.2\n---\n${HEAD}`)).toThrow("names version 1.2, and only 1.1 is supported");
  });

  // https://github.com/docker/compose/issues/3290, https://github.com/go-yaml/yaml/issues/34
  it("reads times, ports and large exponents as strings", () => {
    const { metadata, spec } = podOf(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {commit: 12e345, window: 08:30}}\n" +
        "spec: {containers: [{name: c, image: 'web:1', args: [--forward, 2222:22], env: [{name: AT, value: 12:30}]}]}\n",
    );
    expect(metadata.annotations).toMatchObject({ commit: "12e345", window: "08:30" });
    expect(spec.containers[0]).toMatchObject({ args: ["--forward", "2222:22"], env: [{ name: "AT", value: "12:30" }] });
  });

  // https://github.com/rancher/rancher/issues/31252, https://github.com/fabric8io/kubernetes-client/issues/3648
  it.each(["---\n", "---\nfoo: bar\n", "...\nfoo: bar\n"])("reads only the document before %j", (tail) => {
    expect(podOf(HEAD + tail).metadata.name).toBe("bug-n1");
  });
});

describe("an HTTP probe", () => {
  const prober = createProber();
  const running: Server[] = [];
  afterEach(() => {
    for (const server of running.splice(0)) server.close();
  });

  async function portOf(server: Server): Promise<number> {
    running.push(server);
    await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
    return (server.address() as AddressInfo).port;
  }
  const serve = (listener: RequestListener): Promise<number> => portOf(createHttpServer(listener));
  const get = (port: number, fields: Partial<HttpProbe> = {}): Promise<ProbeOutcome> =>
    prober.httpGet({ scheme: "HTTP", host: LOOPBACK, port, path: "/health", headers: [], timeoutMs: 20_000, ...fields });

  // https://github.com/kubernetes/kubernetes/issues/136698
  it("follows a redirect to HTTPS on the same host, and fails on a server without TLS", async () => {
    const port: number = await serve((_request, response) => {
      response.writeHead(301, { location: `https://${LOOPBACK}:${port}/health` }).end();
    });
    expect(await get(port)).toEqual({
      result: "Failure",
      output: `Get "https://${LOOPBACK}:${port}/health": http: server gave HTTP response to HTTPS client`,
    });
  });

  // https://github.com/rucio/helm-charts/pull/323, https://github.com/kubernetes/kubernetes/issues/104731
  it("follows a redirect to a slash, and keeps a query", async () => {
    const seen: (string | undefined)[] = [];
    const port = await serve((request, response) => {
      seen.push(request.url);
      response.writeHead(request.url === "/ping" ? 308 : 200, { location: "/ping/" }).end("pong");
    });
    expect(await get(port, { path: "/ping" })).toEqual({ result: "Success", output: "pong" });
    await get(port, { path: "/livez?exclude=etcd" });
    expect(seen).toEqual(["/ping", "/ping/", "/livez?exclude=etcd"]);
  });

  // https://github.com/istio/istio/pull/46172, https://github.com/kubernetes/kubernetes/issues/24288
  it("sends the first of two Host headers, and no other", async () => {
    const seen: (readonly string[])[] = [];
    const port = await serve((request, response) => {
      seen.push(request.rawHeaders.filter((_, i, all) => all[i - (i % 2)]?.toLowerCase() === "host"));
      response.end();
    });
    const headers = ["foo", "bar"].map((value, i) => ({ name: i === 0 ? "Host" : "host", value }));
    await get(port, { headers });
    expect(seen).toEqual([["Host", "foo"]]);
  });

  // https://github.com/kubernetes/kubernetes/issues/120519
  it("presents no certificate, and fails on a server that requires one", async () => {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=own"];
    execFileSync("openssl", [...made, "-keyout", key, "-out", cert], { stdio: "ignore" });
    const options = { key: readFileSync(key), cert: readFileSync(cert), requestCert: true, rejectUnauthorized: true };
    const port = await portOf(createHttpsServer(options, (_request, response) => response.end()));
    const { result, output } = await get(port, { scheme: "HTTPS" });
    expect(result).toBe("Failure");
    expect(output).toMatch(/^Get "https:\/\/127\.0\.0\.1:\d+\/health": tls: /);
  });
});

describe("an audit log", () => {
  const replicaSet = (rv: number): object => ({
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "web-1", namespace: "shop", uid: "u-1", resourceVersion: String(rv), creationTimestamp: "2026-05-01T10:00:00Z" },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "a", image: "i" }] } },
    },
    status: { replicas: 2 },
  });
  const eventOf = (rv: number, more: object = {}): string =>
    JSON.stringify({
      kind: "Event",
      apiVersion: "audit.k8s.io/v1",
      level: "RequestResponse",
      auditID: String(rv),
      stage: "ResponseComplete",
      verb: rv === 10 ? "create" : "update",
      requestURI: "/apis/apps/v1/namespaces/shop/replicasets/web-1",
      user: { username: "u" },
      objectRef: { resource: "replicasets", namespace: "shop", name: "web-1", apiGroup: "apps", apiVersion: "v1" },
      responseStatus: { metadata: {}, code: 200 },
      stageTimestamp: `2026-05-01T10:00:${rv}.001000Z`,
      responseObject: replicaSet(rv),
      ...more,
    });
  const [first, second, third] = [10, 13, 15].map((rv) => eventOf(rv)) as [string, string, string];

  interface Line {
    readonly type?: string;
    readonly by?: string;
    readonly object?: { readonly metadata: { readonly resourceVersion: string } };
  }

  async function imported(text: string) {
    const report = new ImportReport();
    const values = await importFiles([fileOf(text)], report);
    const lines = [...captureLines(values, { digester: createDigester("a key"), redact: false, report })]
      .map((line) => JSON.parse(line) as Line)
      .filter(({ type, object }) => type !== undefined && object !== undefined);
    return {
      versions: lines.map(({ type, object }) => `${type} ${object?.metadata.resourceVersion}`),
      writers: lines.map(({ by }) => by),
      report: report.lines(),
    };
  }

  const CUT = "not imported (once): an audit event that the log service truncated: the object's next write shows the effect";

  // https://github.com/Azure/AKS/issues/4635
  it("reports and omits an event that the AKS log service truncated after 16 KiB", async () => {
    const record = (log: string): string => JSON.stringify({ category: "kube-audit", properties: { log, stream: "stdout" } });
    const { versions, report } = await imported([first, second.slice(0, 300), third].map(record).join("\n"));
    expect(versions).toEqual(["ADDED 10", "MODIFIED 15"]);
    expect(report).toEqual([CUT]);
  });

  // https://github.com/falcosecurity/plugins/issues/297
  it("reports and omits an event that CloudWatch truncated and marked", async () => {
    const messages = [first, `${second.slice(0, 300)}[Truncated...]`, third].map((message) => ({ timestamp: 1, message }));
    const { versions, report } = await imported(JSON.stringify({ events: messages }));
    expect(versions).toEqual(["ADDED 10", "MODIFIED 15"]);
    expect(report).toEqual([CUT]);
  });

  // https://github.com/kubernetes/kubernetes/issues/108551: `deltaloop shadow --audit` did not report it.
  it("reports truncated lines and records in shadow mode as well", async () => {
    const record = (log: string): string => JSON.stringify({ properties: { log } });
    const lines = [record(first), second.slice(0, 200), record(second.slice(0, 300)), record(third), third.slice(0, 200)];
    const report = new ImportReport();
    const read: unknown[] = [];
    for await (const { auditID } of auditEventsIn(Readable.from([Buffer.from(lines.join("\n"))]), "audit.log", report)) read.push(auditID);
    expect(read).toEqual(["10", "15"]);
    expect(report.lines()).toEqual([expect.stringContaining("a truncated line"), CUT, expect.stringContaining("a truncated last value")]);
  });

  // https://github.com/rancher/rancher/issues/38536
  it("names the impersonated user as the writer", async () => {
    const { writers } = await imported([first, eventOf(13, { impersonatedUser: { username: "u-xunnontx2o" } })].join("\n"));
    expect(writers).toEqual(["u", "u-xunnontx2o"]);
  });

  // https://github.com/kubernetes/kubernetes/issues/117988
  it("omits dry-run writes, wherever dryRun is in the URL", async () => {
    const requestURI = "/apis/apps/v1/namespaces/shop/replicasets/web-1?fieldManager=x&dryRun=All";
    expect((await imported([first, eventOf(12, { verb: "patch", requestURI }), second].join("\n"))).versions).toEqual([
      "ADDED 10",
      "MODIFIED 13",
    ]);
  });

  // https://github.com/kubernetes/kubernetes/issues/126466, https://github.com/openshift/cluster-debug-tools/pull/10
  it("counts each write once, whatever its logged stages, and ignores watches", async () => {
    const watch = { verb: "watch", responseObject: undefined, objectRef: { resource: "replicasets", apiGroup: "apps" } };
    const stages = ["RequestReceived", "ResponseStarted", "ResponseStarted", "ResponseComplete"];
    const received = { stage: "RequestReceived", responseObject: undefined, responseStatus: undefined };
    const { versions, report } = await imported(
      [first, ...stages.map((stage) => eventOf(11, { ...watch, stage })), eventOf(13, received), second].join("\n"),
    );
    expect(versions).toEqual(["ADDED 10", "MODIFIED 13"]);
    expect(report).toEqual([]);
  });
});
