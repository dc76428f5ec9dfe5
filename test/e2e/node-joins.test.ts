/**
 * Follows docs/guides/node.md: a machine with a container runtime becomes a node, is drained, taken over and given back. Runs a real API
 * server with upstream's CSR approver and signer and a scheduler, a real containerd, and the agent. The tests are one sequence: each
 * continues where the previous one ended.
 */
import { execFile } from "node:child_process";
import { chmod, mkdir, readFile, readlink, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { connect } from "node:tls";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { VERSION } from "../../shared/base/version.ts";
import { readCertificate } from "../../shared/node-agent/kubelet/certificate/certificate-request.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { startRegistry } from "../containerd/registry.ts";
import type { TestRegistry } from "../containerd/registry.ts";
import { administratorOf, commandsOf, stepsOf } from "../support/document-steps.ts";
import type { DocumentStep } from "../support/document-steps.ts";
import { deltaloop, eventually, startCluster } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { ON_ANY_DISK } from "../harness/node-processes/any-disk.ts";
import { whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import { NODE_UNIT } from "../harness/node-processes/unit.ts";
import { podOf, podReady, server } from "../harness/node-processes/pods.ts";

const run = promisify(execFile);
const NAME = "joiner";
/**
 * Lifetime of certificates. The signer backdates them by 5 minutes, so that 90 % of the lifetime is over when one is issued, and the agent
 * replaces it immediately.
 */
const CERTIFICATE_SECONDS = 20;
const PASSWORD = "5ecret";

await whereNodesCanRun("docs/guides/node.md", () => {
  let cluster: Cluster;
  let containerd: ContainerdNode;
  let registry: TestRegistry;
  let onCluster: (script: string) => Promise<void>;
  let agent: Running | undefined;
  let port = 0;

  const steps = stepsOf("docs/guides/node.md");
  const file = (name: string): string => join(containerd.directory, name);
  const etc = (path: string): string => path.replaceAll("/etc/deltaloop", file("etc"));
  const currentCertificate = async (): Promise<string> => await readlink(file("kubelet/pki/kubelet-client-current.pem"));

  beforeAll(async () => {
    [cluster, containerd, registry] = await Promise.all([
      startCluster({ machines: "scheduler", signing: { seconds: CERTIFICATE_SECONDS } }),
      startContainerd(),
      startRegistry({ user: "AWS", password: PASSWORD }),
    ]);
    await mkdir(file("bin"));
    onCluster = await administratorOf(cluster, file("etc"), NAME);
  });

  afterAll(async () => {
    await agent?.stop();
    await registry?.stop();
    await containerd?.stop();
    await cluster?.stop();
  });

  /** Runs the document's steps of a section that this machine can run. */
  async function follow(section: string): Promise<void> {
    const own = steps.filter((step) => step.section.startsWith(section));
    expect(own.length, section).toBeGreaterThan(0);
    for (const step of own) await take(step);
  }

  async function take(step: DocumentStep): Promise<void> {
    switch (step.kind) {
      case "file":
        // The test's containerd runs without systemd.
        return await writeFile(etc(step.path), etc(step.content).replace("cgroupDriver: systemd\n", ""));
      case "cluster":
        return await onCluster(step.script);
      case "machine":
        for (const command of commandsOf(step.script)) await onMachine(command);
        return;
      default:
        throw new Error(`unknown step ${JSON.stringify(step satisfies never)}`);
    }
  }

  /** Runs the steps that start and stop the agent; only checks steps that would change this machine. */
  async function onMachine(command: string): Promise<void> {
    const [program = "", ...words] = command.trim().split(/\s+/u);
    switch (`${program} ${words[0]}`) {
      case "apt-get install":
        await run("apt-cache", ["show", "--no-all-versions", ...words.slice(1).filter((word) => !word.startsWith("-"))]);
        return;
      case "npm install":
        expect(words.at(-1)).toBe(`./deltaloop-${VERSION}.tgz`);
        return;
      case "install -m":
        expect(basename(NODE_UNIT)).toBe(basename(words.at(-1) ?? ""));
        return;
      case "apt-get update":
      case "systemctl daemon-reload":
        return;
      case "systemctl enable":
        return words.includes("deltaloop-node") ? await startAgent() : undefined;
      case "systemctl disable":
        // Steps that refer to a kubelet use the running agent.
        return await stopAgent();
      default:
        throw new Error(`docs/guides/node.md has a command for the machine that nobody follows: ${command}`);
    }
  }

  /** Starts the agent as the systemd unit does, with another root folder, runtime and ports, to avoid conflicts with other processes. */
  async function startAgent(): Promise<void> {
    if (agent !== undefined) return;
    const command = /^ExecStart=\S+ (.*)$/mu.exec(await readFile(NODE_UNIT, "utf8"))?.[1] ?? "";
    const [, more = ""] = /^DELTALOOP_NODE_FLAGS=(.*)$/mu.exec(await readFile(file("etc/node.env"), "utf8")) ?? [];
    const words = etc(command.replace("$DELTALOOP_NODE_FLAGS", more).replace("127.0.0.1:10248", "127.0.0.1:0")).split(" ");
    agent = deltaloop(
      [
        ...words,
        ...["--cri", containerd.endpoint, "--name", NAME, "--node-ip", "127.0.0.1", "--port", "0"],
        ...["--root-dir", file("kubelet"), "--pod-logs-dir", file("pods"), "--container-logs-dir", file("containers")],
        ...["--cgroup-root", containerd.cgroupParent, ...ON_ANY_DISK],
        ...["--image-credential-provider-config", file("providers.yaml"), "--image-credential-provider-bin-dir", file("bin")],
      ],
      { DBUS_SYSTEM_BUS_ADDRESS: "unix:path=/nowhere" },
    ); // instead of the host's logind
    port = Number(/https:\/\/127\.0\.0\.1:(\d+)/u.exec(await agent.line('"message":"ready"'))?.[1]);
    expect(port).toBeGreaterThan(0);
  }

  async function stopAgent(): Promise<void> {
    await agent?.stop();
    agent = undefined;
  }

  describe("a machine that joins as a node", () => {
    it("joins, and is Ready with a certificate that upstream's controllers approved and signed [node-agent 430 431]", async () => {
      await putProvider();
      await follow("1.");
      await follow("2.");
      await follow("3.");
      const [create, approve, untaint] = steps.filter(({ section }) => section.startsWith("4."));
      if (create === undefined || approve === undefined || untaint === undefined) throw new Error("no step 4");
      await take(create);
      const path = await currentCertificate();
      expect((await stat(path)).mode & 0o777).toBe(0o600);
      expect(readCertificate(await readFile(path, "utf8"))).toMatchObject({
        ...{ commonName: `system:node:${NAME}`, organizations: ["system:nodes"] },
      });
      const kubeconfig = await readFile(file("etc/node.kubeconfig"), "utf8");
      expect(kubeconfig).toContain(`client-certificate: ${file("kubelet/pki/kubelet-client-current.pem")}`);
      expect(kubeconfig).not.toContain("token");
      expect((await cluster.plane.kubectl(["get", "node", NAME], { kubeconfig: file("etc/node.kubeconfig") })).code).toBe(0);
      const node = await cluster.get<NodeView>(`/api/v1/nodes/${NAME}`);
      expect(node?.metadata.labels).toMatchObject({ "node.kubernetes.io/pool": "blue", "kubernetes.io/hostname": NAME });
      expect(node?.spec.taints).toContainEqual({ key: "example.com/new", effect: "NoSchedule" });

      await expect(handshake()).rejects.toThrow(/alert handshake failure/u);
      await eventually("its serving request is there and approved", async () => {
        await take(approve);
        return true;
      });
      expect(await eventually("it shows what was signed", async () => await handshake())).toBe(`DNS:${NAME}, IP Address:127.0.0.1`);
      await take(untaint);
    });

    it("continues with new certificates after the first one has expired [node-agent 432]", async () => {
      const first = await currentCertificate();
      const { notAfterMs } = readCertificate(await readFile(first, "utf8"));
      await eventually("another one", async () => (await currentCertificate()) !== first, (CERTIFICATE_SECONDS + 5) * 1_000);
      await eventually("the first one has ended", () => Date.now() > notAfterMs + 1_000, (CERTIFICATE_SECONDS + 5) * 1_000);
      await cluster.apply(podOf("late", { containers: [server()] }));
      await podReady(cluster, "late");
      const refused = (await cluster.audit()).filter(
        ({ user, responseStatus }) => user.username === `system:node:${NAME}` && responseStatus?.code === 401,
      );
      expect(refused).toEqual([]);
    });

    it("pulls from a registry with credentials of a credential provider [node-agent 451]", async () => {
      await registry.add("private", 0);
      await cluster.apply(podOf("private", { containers: [{ name: "main", image: registry.image("private") }] }));
      await podReady(cluster, "private");
      const asked = (await readFile(file("provider-calls"), "utf8")).trim().split("\n");
      expect(asked).toHaveLength(1);
      expect(asked[0]).toContain(registry.image("private").replace(/:1$/u, ""));
      expect(agent?.output()).not.toContain(PASSWORD);
    });

    it("a node is drained, handed over from the kubelet to this agent, and accepts pods again with its previous configuration [node-agent 452]", async () => {
      await cluster.kubectl("label", "node", NAME, "example.com/rack=7");
      const before = agent?.pid;
      await follow("5.");
      expect(agent?.pid).not.toBe(before);
      await cluster.apply(podOf("after", { containers: [server()] }));
      await podReady(cluster, "after");
      const node = await cluster.get<NodeView>(`/api/v1/nodes/${NAME}`);
      expect(node?.metadata.labels).toMatchObject({ "example.com/rack": "7", "node.kubernetes.io/pool": "blue" });
      expect(node?.spec.taints ?? []).toEqual([]);
    });

    it("a node is handed back to the kubelet [node-agent 452]", async () => {
      await follow("6.");
      expect(agent).toBeUndefined();
      expect(await cluster.get(`/api/v1/nodes/${NAME}`)).toBeUndefined();
    });
  });

  /** Installs a credential provider like ECR's, for the test's registry. */
  async function putProvider(): Promise<void> {
    const [host = ""] = registry.image("x").split("/");
    const provider = {
      ...{
        name: "ecr-credential-provider",
        apiVersion: "credentialprovider.kubelet.k8s.io/v1",
        matchImages: [host],
        defaultCacheDuration: "1h",
      },
    };
    const config = { apiVersion: "kubelet.config.k8s.io/v1", kind: "CredentialProviderConfig", providers: [provider] };
    await writeFile(file("providers.yaml"), JSON.stringify(config));
    const answer = {
      ...{ kind: "CredentialProviderResponse", apiVersion: provider.apiVersion, cacheKeyType: "Registry", cacheDuration: "12h" },
      auth: { [host]: { username: "AWS", password: PASSWORD } },
    };
    const path = file("bin/ecr-credential-provider");
    await writeFile(
      path,
      `#!/bin/sh\ncat >> ${file("provider-calls")}\necho >> ${file("provider-calls")}\necho '${JSON.stringify(answer)}'\n`,
    );
    await chmod(path, 0o755);
  }

  /** Returns the subject alternative names of the agent's serving certificate, if the cluster's CA signed it. */
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

interface NodeView {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly spec: { readonly taints?: readonly object[] };
}
