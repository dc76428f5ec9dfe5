/**
 * Trust bundles and certificates of pods on one of our nodes: a real API server and scheduler, `deltaloop node`, real containers, and a
 * signer of the test. The agent's clock can be advanced, because the API server refuses certificates that are refreshed within ten minutes.
 */
import { execFile } from "node:child_process";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, expect, it } from "vitest";

import { certificateBlocks, pemBlock } from "../../shared/node-agent/kubelet/certificate/pem.ts";
import { createPki } from "../envtest/pki.ts";
import type { Pki } from "../envtest/pki.ts";
import { eventually, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, refusedForGood, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import {
  containerOf,
  eventsOf,
  eventsSay,
  getPod,
  isReady,
  podGone,
  podOf,
  podReady,
  podWhere,
  runtimeId,
  server,
  shell,
  STAY,
} from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";

const run = promisify(execFile);
const SIGNER = "example.test/pods";
const DENYING = "example.test/denies";
const REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
const KEY_TYPES = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"] as const;
/** Longer than the lifetime of certificates that the test's PKI issues. */
const MAX_SECONDS = 40 * 24 * 3_600;
const MINUTE_MS = 60_000;
/** Replaces Date.now in the agent's process by the real time plus the milliseconds in a file. */
const SHIFTED_CLOCK = `
import { readFileSync } from "node:fs";
const realNow = Date.now;
let shiftMs = 0;
setInterval(() => (shiftMs = Number(readFileSync(process.env.TEST_CLOCK_SHIFT, "utf8"))), 100).unref();
Date.now = () => realNow() + shiftMs;
`;

interface CertificateRequest {
  readonly metadata: { readonly name: string; readonly generateName?: string; readonly ownerReferences?: readonly object[] };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly signerName: string;
    readonly podName: string;
    readonly stubPKCS10Request: string;
  };
  readonly status?: { readonly conditions?: readonly object[] };
}

await whereNodesCanRun("certificates of pods", () => {
  let cluster: Cluster;
  let node: NodeAgent;
  let folder: string;
  let signer: Pki;
  let other: Pki;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-pod-certificates-"));
    const [clock, shift] = [join(folder, "clock.mjs"), join(folder, "shift")];
    await writeFile(clock, SHIFTED_CLOCK);
    await writeFile(shift, "0");
    [signer, other, cluster] = await Promise.all([
      createPki(join(folder, "signer")),
      createPki(join(folder, "other")),
      startCluster({ machines: "scheduler" }),
    ]);
    const [only] = await startNodes(cluster, ["node-a"], {
      environment: { NODE_OPTIONS: `--import ${clock}`, TEST_CLOCK_SHIFT: shift },
    });
    if (only === undefined) throw new Error("no node was started");
    node = only;
    await nodesReady(cluster, node);
  });

  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const read = async (pod: PodView, command: string): Promise<string> => {
    const { stdout, stderr, exitCode } = await node.cri.execSync(runtimeId(containerOf(pod)), ["sh", "-c", command], 10);
    if (exitCode !== 0) throw new Error(`${command}: exit ${exitCode}: ${stderr}`);
    return stdout;
  };
  const requestsOf = async (pod: string): Promise<readonly CertificateRequest[]> =>
    (await cluster.list<CertificateRequest>(REQUESTS)).filter(({ spec }) => spec.podName === pod);

  /** The time in ms until a certificate is refreshed; initially the API server's minimum. */
  let refreshAfterMs = 10 * MINUTE_MS;

  /** Acts as the signer: issues or denies each pending request. */
  async function decidePending(): Promise<void> {
    for (const request of await cluster.list<CertificateRequest>(REQUESTS))
      if ((request.status?.conditions ?? []).length === 0) await decide(request);
  }

  async function decide(request: CertificateRequest): Promise<void> {
    const { signerName, stubPKCS10Request } = request.spec;
    const lastTransitionTime = timeOf(new Date());
    if (signerName === DENYING) {
      const denied = { type: "Denied", status: "True", reason: "NotYou", message: 'pod has no "pass"', lastTransitionTime };
      return await putStatus(request, { conditions: [denied] });
    }
    const leaf = await signer.signRequest(pemBlock("CERTIFICATE REQUEST", Buffer.from(stubPKCS10Request, "base64")));
    const { validFromDate, validToDate } = new X509Certificate(leaf);
    await putStatus(request, {
      conditions: [{ type: "Issued", status: "True", reason: "Issued", message: "", lastTransitionTime }],
      certificateChain: `the leaf\n${leaf}its authority\n${signer.ca}`,
      notBefore: timeOf(validFromDate),
      beginRefreshAt: timeOf(new Date(validFromDate.getTime() + refreshAfterMs)),
      notAfter: timeOf(validToDate),
    });
  }

  async function putStatus(request: CertificateRequest, status: object): Promise<void> {
    const path = `${REQUESTS}/${request.metadata.name}/status`;
    const input = JSON.stringify({ ...request, status });
    const { code, stderr } = await cluster.plane.kubectl(["replace", "--raw", path, "-f", "-"], { input });
    if (code !== 0) throw new Error(stderr);
  }

  /** Changes a label to cause a sync, because a running pod is otherwise synced every 60 to 90 s. */
  let labels = 0;
  const syncNow = async (pod: string): Promise<string> => await cluster.kubectl("label", "pod", pod, "--overwrite", `sync=s${++labels}`);

  const issued = async (pod: string): Promise<PodView> =>
    await eventually(`pod ${pod} has its certificates`, async () => {
      await decidePending();
      const found = await getPod(cluster, pod);
      return found !== undefined && isReady(found) ? found : undefined;
    });

  const mounted = (sources: readonly object[], more: object = {}): object => ({
    containers: [shell("main", STAY, { volumeMounts: [{ name: "certs", mountPath: "/certs" }] })],
    volumes: [{ name: "certs", projected: { sources } }],
    ...more,
  });
  const certificate = (more: object): object => ({
    podCertificate: {
      signerName: SIGNER,
      keyType: "ECDSAP256",
      maxExpirationSeconds: MAX_SECONDS,
      credentialBundlePath: "bundle.pem",
      ...more,
    },
  });

  /** Returns the parts of a credential bundle after checking that the key matches the leaf certificate. */
  function partsOf(bundle: string): { readonly key: string; readonly leaf: X509Certificate; readonly chain: readonly Buffer[] } {
    const end = "-----END PRIVATE KEY-----\n";
    const key = bundle.slice(0, bundle.indexOf(end) + end.length);
    const chain = certificateBlocks(bundle);
    const leaf = new X509Certificate(chain[0] ?? Buffer.alloc(0));
    expect(leaf.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(bundle).toBe(key + chain.map((der) => pemBlock("CERTIFICATE", der)).join(""));
    return { key, leaf, chain };
  }

  it("requests neither bundles nor certificates for a pod without such volumes [node-agent 513]", async () => {
    await cluster.apply(podOf("plain", { containers: [server()] }));
    await podReady(cluster, "plain");
    const uris = (await cluster.audit()).filter(({ user }) => user.username === "system:node:node-a").map(({ requestURI }) => requestURI);
    expect(uris.length).toBeGreaterThan(0);
    expect(uris.filter((uri) => /clustertrustbundles|podcertificaterequests|serviceaccounts\/[^/?]+(?:\?|$)/u.test(uri))).toEqual([]);
  });

  it("gives a pod a certificate of each key type, in tmpfs and for its user only [node-agent 513]", async () => {
    await cluster.apply(
      podOf(
        "types",
        mounted(
          KEY_TYPES.map((keyType) =>
            certificate({
              keyType,
              credentialBundlePath: `${keyType}.pem`,
              keyPath: `${keyType}.key`,
              certificateChainPath: `${keyType}.crt`,
            }),
          ),
          { securityContext: { runAsUser: 65_534 } },
        ),
      ),
    );
    const pod = await issued("types");
    for (const keyType of KEY_TYPES) {
      const bundle = await read(pod, `cat /certs/${keyType}.pem`);
      const { chain } = partsOf(bundle);
      expect(chain.map(String)).toEqual([String(chain[0]), String(certificateBlocks(signer.ca)[0])]);
      expect(await read(pod, `cat /certs/${keyType}.key /certs/${keyType}.crt`)).toBe(bundle);
      expect(await read(pod, `busybox stat -L -c '%a %u' /certs/${keyType}.pem`)).toBe("600 65534\n");
    }
    expect(await read(pod, "busybox grep -c ' /certs tmpfs ' /proc/mounts")).toBe("1\n");
    const requests = await requestsOf("types");
    expect(requests).toHaveLength(KEY_TYPES.length);
    const account = await cluster.get<PodView>("/api/v1/namespaces/default/serviceaccounts/default");
    const itsNode = await cluster.get<PodView>("/api/v1/nodes/node-a");
    for (const { metadata, spec } of requests) {
      expect(metadata).toMatchObject({
        generateName: "req-",
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "types", uid: pod.metadata.uid }],
      });
      expect(spec).toEqual({
        signerName: SIGNER,
        podName: "types",
        podUID: pod.metadata.uid,
        serviceAccountName: "default",
        serviceAccountUID: account?.metadata.uid,
        nodeName: "node-a",
        nodeUID: itsNode?.metadata.uid,
        maxExpirationSeconds: MAX_SECONDS,
        stubPKCS10Request: expect.any(String),
      });
    }
    await cluster.kubectl("delete", "pod", "types", "--timeout=30s");
  });

  const bundle = (name: string, signerName: string | undefined, labelled: object, trustBundle: string): object => ({
    apiVersion: "certificates.k8s.io/v1",
    kind: "ClusterTrustBundle",
    metadata: { name, labels: labelled },
    spec: { ...(signerName && { signerName }), trustBundle },
  });

  it("gives a pod the trust anchors of a bundle and of a signer's bundles, and each change [node-agent 514]", async () => {
    const anchors = (...pki: readonly Pki[]): readonly string[] =>
      pki
        .flatMap(({ ca }) => certificateBlocks(ca))
        .map((der) => der.toString("base64"))
        .toSorted();
    await cluster.apply(
      bundle("anchors", undefined, {}, `a comment\n${signer.ca}`),
      bundle("example.test:pods:one", SIGNER, { live: "yes" }, signer.ca),
      bundle("example.test:pods:two", SIGNER, { live: "yes" }, `${other.ca}${signer.ca.replace(/\n$/u, "")}`),
      bundle("example.test:pods:old", SIGNER, { live: "no" }, cluster.plane.ca),
    );
    await cluster.apply(
      podOf(
        "trusts",
        mounted([
          { clusterTrustBundle: { path: "by-name.pem", name: "anchors" } },
          { clusterTrustBundle: { path: "by-signer.pem", signerName: SIGNER, labelSelector: { matchLabels: { live: "yes" } } } },
          { clusterTrustBundle: { path: "all.pem", signerName: SIGNER, labelSelector: {} } },
          { clusterTrustBundle: { path: "none.pem", signerName: SIGNER, optional: true } },
          { clusterTrustBundle: { path: "absent.pem", name: "absent", optional: true } },
        ]),
      ),
    );
    const pod = await podReady(cluster, "trusts");
    const contents = async (file: string): Promise<readonly string[]> =>
      certificateBlocks(await read(pod, `cat /certs/${file}`))
        .map((der) => der.toString("base64"))
        .toSorted();
    expect(await read(pod, "cat /certs/by-name.pem")).toBe(signer.ca);
    expect(await contents("by-signer.pem")).toEqual(anchors(signer, other));
    expect(await contents("all.pem")).toHaveLength(3);
    expect(await read(pod, "cat /certs/none.pem /certs/absent.pem")).toBe("");

    await cluster.apply(bundle("anchors", undefined, {}, other.ca), bundle("absent", undefined, {}, other.ca));
    await cluster.kubectl("delete", "clustertrustbundle", "example.test:pods:two");
    await eventually("the changed bundles reach the files", async () => {
      await syncNow("trusts");
      expect(await read(pod, "cat /certs/by-name.pem /certs/absent.pem")).toBe(`${other.ca}${other.ca}`);
      expect(await read(pod, "cat /certs/by-signer.pem")).toBe(signer.ca);
      return true;
    });
    await cluster.kubectl("delete", "pod", "trusts", "--timeout=30s");
  });

  it("reports missing bundles and waits for them [node-agent 514]", async () => {
    await cluster.apply(
      podOf(
        "lacks",
        mounted([
          { clusterTrustBundle: { path: "a.pem", name: "later" } },
          { clusterTrustBundle: { path: "b.pem", signerName: SIGNER, labelSelector: { matchLabels: { live: "soon" } } } },
        ]),
      ),
    );
    await eventsSay(
      cluster,
      "lacks",
      'FailedMount: MountVolume.SetUp failed for volume "certs" : [while getting ClusterTrustBundle: ' +
        'clustertrustbundle.certificates.k8s.io "later" not found, combination of signerName and labelSelector matched zero ClusterTrustBundles]',
    );
    await cluster.apply(bundle("later", undefined, {}, other.ca), bundle("example.test:pods:soon", SIGNER, { live: "soon" }, signer.ca));
    expect(await read(await podReady(cluster, "lacks"), "cat /certs/a.pem /certs/b.pem")).toBe(`${other.ca}${signer.ca}`);
    await cluster.kubectl("delete", "pod", "lacks", "--timeout=30s");
  });

  it("reports a denied request once and never retries it [node-agent 515]", async () => {
    await cluster.apply(podOf("denied", mounted([certificate({ signerName: DENYING })])));
    await eventually("the request is denied", async () => {
      await decidePending();
      return (await requestsOf("denied")).some(({ status }) => (status?.conditions ?? []).length > 0);
    });
    const [request] = await requestsOf("denied");
    const why = String.raw`reason="NotYou"`;
    const message = String.raw`message="pod has no \"pass\""`;
    await eventsSay(
      cluster,
      "denied",
      'FailedMount: MountVolume.SetUp failed for volume "certs" : credential bundle is not issued yet',
      `Denied: PodCertificateRequest default/${request?.metadata.name} was denied, ${why}, ${message}`,
      `FailedMount: MountVolume.SetUp failed for volume "certs" : PodCertificateRequest was permanently denied: ${why} ${message}`,
    );
    await podWhere(cluster, "denied", "waits", ({ status }) => status.phase === "Pending");
    expect(await requestsOf("denied")).toHaveLength(1);
    expect((await eventsOf(cluster, "denied")).filter((event) => event.startsWith("Denied:"))).toHaveLength(1);
    await cluster.kubectl("delete", "pod", "denied", "--timeout=30s");
    await podGone(cluster, "denied");
  });

  it("replaces a certificate once it is due, and after a restart of the agent, in the running pod [node-agent 516]", async () => {
    await cluster.apply(podOf("refreshed", mounted([certificate({ keyType: "ED25519" })])));
    const pod = await issued("refreshed");
    const first = partsOf(await read(pod, "cat /certs/bundle.pem"));
    await syncNow("refreshed");
    expect(await requestsOf("refreshed")).toHaveLength(1);

    const replaced = async (previous: typeof first): Promise<typeof first> =>
      await eventually("the certificate is replaced", async () => {
        await syncNow("refreshed");
        await decidePending();
        const now = partsOf(await read(pod, "cat /certs/bundle.pem"));
        return now.key === previous.key ? undefined : now;
      });
    refreshAfterMs = 24 * 60 * MINUTE_MS;
    // Advances the clock by the first certificate's ten minutes plus the maximum jitter of five minutes.
    await writeFile(join(folder, "shift"), String(16 * MINUTE_MS));
    const second = await replaced(first);
    expect(second.leaf.serialNumber).not.toBe(first.leaf.serialNumber);
    expect(await requestsOf("refreshed")).toHaveLength(2);

    await writeFile(join(folder, "shift"), "0");
    await node.kill();
    await node.start();
    const third = await replaced(second);
    expect(third.leaf.serialNumber).not.toBe(second.leaf.serialNumber);
    const after = await getPod(cluster, "refreshed");
    expect(after?.status.containerStatuses).toMatchObject([{ ready: true, restartCount: 0 }]);

    const secrets = [first, second, third].map(({ key }) => key.split("\n")[1] ?? "");
    expect(secrets.map(({ length }) => length)).toEqual([64, 64, 64]);
    const events = (await eventsOf(cluster, "refreshed")).join("\n");
    for (const secret of secrets) {
      expect(node.agent().output()).not.toContain(secret);
      expect(events).not.toContain(secret);
      // Searches the file system of the agent's and the runtime's folders, without tmpfs mounts.
      const found = await run("find", [node.containerd.directory, "-xdev", "-type", "f", "-exec", "grep", "-lF", secret, "{}", "+"]).catch(
        ({ stdout }: { readonly stdout: string }) => ({ stdout }),
      );
      expect(found.stdout).toBe("");
    }
  });

  it("sends no request that the API server permanently denies to nodes [node-agent 513]", async () => {
    expect(await refusedForGood(cluster)).toEqual([]);
  });
});

function timeOf(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/u, "Z");
}
