/**
 * A machine with a container runtime and a bootstrap token becomes a node: a real API server with its own approving and signing
 * controllers, a real containerd, the agent. One story; each test goes on where the one before it ended.
 *
 * Catches: a request that upstream's approver or signer does not take, certificates that end while the agent works, a serving
 * certificate that the API server could not verify, and a key that others can read.
 */
import { readFile, readlink, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { readCertificate } from "../../shared/kubelet/certificate/certificate-request.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { deltaloop, eventually, startCluster } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { whereNodesCanRun } from "../support/node-agents.ts";
import { podOf, podReady, server } from "../support/real-pods.ts";

const NAME = "joiner";
/** The signer dates them back by 5 minutes, so that 90 % of their life are over when they come: each is replaced at once. */
const CERTIFICATE_SECONDS = 20;
const TOKEN = { id: "abcdef", secret: "0123456789abcdef" };

await whereNodesCanRun("a machine that joins", () => {
  let cluster: Cluster;
  let containerd: ContainerdNode;
  let agent: Running;
  let port = 0;

  const file = (name: string): string => join(containerd.directory, name);
  const currentCertificate = async (): Promise<string> => await readlink(file("kubelet/pki/kubelet-client-current.pem"));

  beforeAll(async () => {
    [cluster, containerd] = await Promise.all([
      startCluster({ machines: "scheduler", signing: { seconds: CERTIFICATE_SECONDS } }),
      startContainerd(),
    ]);
    await cluster.apply(
      {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name: `bootstrap-token-${TOKEN.id}`, namespace: "kube-system" },
        type: "bootstrap.kubernetes.io/token",
        stringData: { "token-id": TOKEN.id, "token-secret": TOKEN.secret, "usage-bootstrap-authentication": "true" },
      },
      binding("system:node-bootstrapper", "system:bootstrappers"),
      binding("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"),
      binding("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
    );
    await writeFile(file("bootstrap.kubeconfig"), bootstrapKubeconfig(cluster));
    await writeFile(file("ca.crt"), cluster.plane.ca);
    agent = deltaloop([
      "node",
      ...["--bootstrap-kubeconfig", file("bootstrap.kubeconfig"), "--kubeconfig", file("node.kubeconfig")],
      ...["--rotate-certificates", "--rotate-server-certificates", "--client-ca-file", file("ca.crt")],
      ...["--cri", containerd.endpoint, "--name", NAME, "--node-ip", "127.0.0.1", "--port", "0", "--healthz-port", "0"],
      ...["--root-dir", file("kubelet"), "--pod-logs-dir", file("pods"), "--container-logs-dir", file("containers")],
      ...["--cgroup-root", containerd.cgroupParent],
    ]);
    port = Number(/127\.0\.0\.1:(\d+)/u.exec(await agent.line("ready"))?.[1]);
  });

  afterAll(async () => {
    await agent?.stop();
    await containerd?.stop();
    await cluster?.stop();
  });

  describe("it", () => {
    it("is Ready, with a certificate that upstream's controllers approved and signed [node-agent 430]", async () => {
      await eventually("the node is registered", () => cluster.get(`/api/v1/nodes/${NAME}`), 60_000);
      await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=60s", `node/${NAME}`);
      const path = await currentCertificate();
      expect((await stat(path)).mode & 0o777).toBe(0o600);
      expect(readCertificate(await readFile(path, "utf8"))).toMatchObject({
        commonName: `system:node:${NAME}`,
        organizations: ["system:nodes"],
      });
      const kubeconfig = await readFile(file("node.kubeconfig"), "utf8");
      expect(kubeconfig).toContain(`client-certificate: ${file("kubelet/pki/kubelet-client-current.pem")}`);
      expect(kubeconfig).not.toContain(TOKEN.secret);
      expect((await cluster.plane.kubectl(["get", "node", NAME], { kubeconfig: file("node.kubeconfig") })).code).toBe(0);
    });

    it("shows nothing to who calls it before its serving request is approved, then a certificate of the cluster [node-agent 431]", async () => {
      await expect(handshake()).rejects.toThrow(/alert handshake failure/u);
      const requests = await eventually("it asked", async () => {
        const all = await cluster.list<SigningRequest>("/apis/certificates.k8s.io/v1/certificatesigningrequests");
        const serving = all.filter(({ spec }) => spec.signerName === "kubernetes.io/kubelet-serving");
        return serving.length > 0 && serving;
      });
      expect(requests.map(({ spec }) => spec.username)).toEqual([`system:node:${NAME}`]);
      await cluster.kubectl("certificate", "approve", ...requests.map(({ metadata }) => metadata.name));
      const names = await eventually("it shows it", async () => await handshake());
      expect(names).toBe(`DNS:${NAME}, IP Address:127.0.0.1`);
    });

    it("goes on with other certificates after the first one has ended [node-agent 432]", async () => {
      const first = await currentCertificate();
      const { notAfterMs } = readCertificate(await readFile(first, "utf8"));
      await eventually("another one", async () => (await currentCertificate()) !== first, (CERTIFICATE_SECONDS + 5) * 1_000);
      expect(Date.now()).toBeLessThan(notAfterMs);
      await eventually("the first one has ended", () => Date.now() > notAfterMs + 1_000, (CERTIFICATE_SECONDS + 5) * 1_000);
      await cluster.apply(podOf("late", { containers: [server()] }));
      await podReady(cluster, "late");
      await cluster.kubectl("delete", "pod", "late", "--timeout=30s");
      const refused = (await cluster.audit()).filter(
        ({ user, responseStatus }) => user.username === `system:node:${NAME}` && responseStatus?.code === 401,
      );
      expect(refused).toEqual([]);
      expect(agent.output()).not.toContain("not signed");
    });
  });

  /** The alternative names that the agent's server shows, if the cluster's authority vouches for them. */
  async function handshake(): Promise<string | undefined> {
    return await new Promise((resolve, reject) => {
      const socket = connect({ host: "127.0.0.1", port, ca: cluster.plane.ca }, () => {
        resolve(socket.getPeerX509Certificate()?.subjectAltName);
        socket.destroy();
      });
      socket.once("error", reject);
    });
  }
});

interface SigningRequest {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly signerName: string; readonly username: string };
}

function binding(role: string, group: string): object {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: `joins:${role.split(":").at(-1)}` },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "Group", name: group }],
  };
}

function bootstrapKubeconfig({ plane }: Cluster): string {
  const cluster = { server: plane.url, "certificate-authority-data": Buffer.from(plane.ca).toString("base64") };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user: { token: `${TOKEN.id}.${TOKEN.secret}` } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}
