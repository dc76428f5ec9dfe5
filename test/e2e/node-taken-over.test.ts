/**
 * A machine changes from upstream's kubelet to our agent and back, as docs/guides/node.md describes: the same Node, containerd, root
 * directory, kubeconfig, certificates and manifests. Runs a real API server with its CSR approver and signer, and a real containerd. The
 * tests are one sequence: each continues where the previous one ended.
 */
import { mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { createCri } from "../../shared/node-agent/cri/cri.ts";
import { LABELS } from "../../shared/node-agent/kubelet/types/labels.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { NAME, startAgent } from "../harness/node-processes/compared-node.ts";
import type { Agent, Side } from "../harness/node-processes/compared-node.ts";
import { administratorOf, commandsOf, stepsOf } from "../support/document-steps.ts";
import { eventually, measured, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { podCgroups } from "../harness/node-processes/containerd-nodes.ts";
import { isReady, podOf, podReady, podWhere, server, shell } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { UpstreamTests } from "../upstream/program.ts";

/** Longer than the test, so that a request for a certificate means that the agent has found none. */
const CERTIFICATE_SECONDS = 3_600;
const MIRROR = "kubernetes.io/config.mirror";
const STATIC = `still-${NAME}`;
const TIDY_MS_MAX = 60_000;

const missing = ensureContainerd();
const built = missing === undefined ? await upstreamTests() : { missing };
const title = "taking over from the kubelet";
if ("missing" in built) await whereRealPartsAre(title, () => undefined, built);
else await whereRealPartsAre(title, () => suite(built));

function suite({ programs }: UpstreamTests): void {
  let cluster: Cluster;
  let containerd: ContainerdNode;
  let onCluster: (script: string) => Promise<void>;
  let agent: Agent | undefined;
  let certificates: readonly string[];
  const told: ToldOfCertificates[] = [];
  const file = (name: string): string => join(containerd.directory, name);
  const steps = stepsOf("docs/guides/node.md");

  beforeAll(async () => {
    [cluster, containerd] = await Promise.all([
      startCluster({ machines: "scheduler", signing: { seconds: CERTIFICATE_SECONDS } }),
      startContainerd(),
    ]);
    onCluster = await administratorOf(cluster, file("etc"), NAME);
    await mkdir(file("manifests"));
    await writeFile(file("manifests/still.json"), JSON.stringify(podOf("still", { containers: [server()] })));
  });
  afterAll(async () => {
    await agent?.end();
    await containerd?.stop();
    await cluster?.stop();
  });

  /** Starts the kubelet as kubeadm does, or our agent as docs/guides/node.md does on such a machine. */
  const start = async (side: Side): Promise<void> => {
    const bootstrap = file("etc/bootstrap.kubeconfig");
    const kubeconfig = file("etc/kubelet.conf");
    agent = await startAgent(cluster, side, containerd, programs, {
      manifests: file("manifests"),
      configuration: { rotateCertificates: true, serverTLSBootstrap: true },
      kubeletFlags: [`--bootstrap-kubeconfig=${bootstrap}`, `--kubeconfig=${kubeconfig}`, `--cert-dir=${file("kubelet/pki")}`],
      flags: ["--kubeconfig", kubeconfig, "--rotate-certificates", "--rotate-server-certificates"],
    });
  };
  /**
   * Follows the document's steps of one section. `whenDrained` and `whenEnded` run when the previous agent is drained and when it has
   * ended.
   */
  const follow = async (
    section: string,
    between: { readonly whenDrained: () => Promise<void>; readonly whenEnded: () => Promise<void> },
  ): Promise<void> => {
    const drain = steps.find((step) => step.kind === "cluster" && step.script.includes("kubectl drain"));
    const own = steps.filter((one) => one.section.startsWith(section));
    for (const step of drain === undefined || own.includes(drain) ? own : [drain, ...own]) {
      if (step.kind === "cluster") {
        if (!step.script.includes("kubectl delete node")) await onCluster(step.script);
        continue;
      }
      if (step.kind !== "machine") throw new Error(`a file in ${section}`);
      for (const command of commandsOf(step.script)) {
        const [, verb, unit] = /^systemctl (enable|disable) --now (kubelet|deltaloop-node)$/u.exec(command.trim()) ?? [];
        if (verb === undefined) throw new Error(`docs/guides/node.md has a command for the machine that nobody follows: ${command}`);
        if (verb === "enable") await start(unit === "kubelet" ? "kubelet" : "ours");
        else {
          await between.whenDrained();
          await agent?.end();
          agent = undefined;
          await between.whenEnded();
        }
      }
    }
  };

  it("the kubelet joins as kubeadm configures it, and runs pods", async () => {
    for (const section of ["1.", "2."])
      for (const step of steps.filter((one) => one.section.startsWith(section))) if (step.kind === "cluster") await onCluster(step.script);
    await start("kubelet");
    const approve = steps.find((step) => step.kind === "cluster" && step.script.includes("certificate approve"));
    if (approve?.kind !== "cluster") throw new Error("nothing approves");
    await eventually("its serving request is there and approved", async () => {
      await onCluster(approve.script);
      return await currentCertificate("server");
    });
    await cluster.kubectl("label", "node", NAME, "example.com/rack=7");
    await cluster.apply(
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { colour: "blue" } },
      daemonSet("stays"),
      podOf("drained", { containers: [server()] }),
    );
    await Promise.all([podOfSet("stays"), podReady(cluster, "drained"), podReady(cluster, STATIC)]);
    expect(await cluster.kubectl("exec", "daemonset/stays", "-c", "side", "--", "cat", "/data/starts", "/memory/starts")).toBe("1\n1\n");
    certificates = [await currentCertificate("client"), await currentCertificate("server")];
    told.push(await toldOfCertificates());
  });

  for (const [one, to, section] of [
    ["kubelet", "ours", "5."],
    ["ours", "kubelet", "6."],
  ] as const)
    it(
      `from ${one} to ${to}: pods keep running, removed ones are cleaned up, and new ones start [node-agent 462]`,
      { timeout: 240_000 },
      async () => {
        const before = await podOfSet("stays");
        const stillBefore = await podReady(cluster, STATIC);
        await follow(section, {
          async whenDrained() {
            expect((await podsOf(cluster)).map(({ metadata }) => metadata.name.replace(/-\w{5}$/u, "")).toSorted()).toEqual([
              "stays",
              STATIC,
            ]);
            await cluster.apply(daemonSet("leaves"), daemonSet("lost"));
            await Promise.all([podOfSet("leaves"), podOfSet("lost")]);
          },
          async whenEnded() {
            const [leaves, lost] = [await podOfSet("leaves"), await podOfSet("lost")];
            await cluster.kubectl("delete", "daemonset", "leaves");
            await cluster.kubectl("delete", "daemonset", "lost", "--cascade=orphan");
            await cluster.kubectl("delete", "pod", lost.metadata.name, "--force", "--grace-period=0");
            await podWhere(cluster, leaves.metadata.name, "is to go", ({ metadata }) => metadata.deletionTimestamp !== undefined);
            expect(new Set((await remains()).containers)).toContain(lost.metadata.uid);
          },
        });
        await onCluster(`kubectl uncordon ${NAME}`);
        await cluster.apply(podOf(`after-${to}`, { containers: [server(), shell("side", "echo hello; sleep 3600")] }));
        const after = await podReady(cluster, `after-${to}`);
        expect(await cluster.kubectl("logs", `after-${to}`, "-c", "side")).toBe("hello\n");

        const stays = await podOfSet("stays");
        expect(stays.metadata.uid).toBe(before.metadata.uid);
        expect(stays.status.containerStatuses).toEqual(before.status.containerStatuses);
        expect(stays.status.podIP).toBe(before.status.podIP);
        expect(await cluster.kubectl("exec", "daemonset/stays", "-c", "side", "--", "cat", "/data/starts", "/memory/starts")).toBe(
          "1\n1\n",
        );

        const still = await podWhere(cluster, STATIC, "is another", (pod) => isReady(pod) && pod.metadata.uid !== stillBefore.metadata.uid);
        const mounting = [stays.metadata.uid, after.metadata.uid].toSorted();
        const wanted = [...mounting, still.metadata.annotations?.[MIRROR] ?? ""].toSorted();
        const whole = { ...Object.fromEntries(THINGS.map((thing) => [thing, wanted])), mounts: mounting };
        const from = performance.now();
        await eventually("nothing else is left", async () => (expect(await remains()).toEqual(whole), true), TIDY_MS_MAX);
        measured(`cleared away ${((performance.now() - from) / 1_000).toFixed(1)} s after new pods were ready`);
        expect((await podsOf(cluster)).map(({ metadata }) => metadata.uid).toSorted()).toEqual(
          [stays, after, still].map(({ metadata }) => metadata.uid).toSorted(),
        );
        expect((await cluster.get<NodeView>(`/api/v1/nodes/${NAME}`))?.metadata.labels).toMatchObject({ "example.com/rack": "7" });
        expect([await currentCertificate("client"), await currentCertificate("server")]).toEqual(certificates);
        told.push(await toldOfCertificates());
      },
    );

  it("kubelet and agent report the same certificate metrics [node-agent 465]", () => {
    const [theirs, ...later] = told;
    expect(Object.keys(theirs?.series ?? {}).length).toBeGreaterThan(10);
    expect(theirs?.endsSeconds).toHaveLength(2);
    for (const each of later) {
      expect(each.series).toEqual(theirs?.series);
      for (const [i, seconds] of each.endsSeconds.entries()) expect(Math.abs(seconds - (theirs?.endsSeconds[i] ?? 0))).toBeLessThan(10);
    }
  });

  it("each certificate was requested once, and no request was denied [node-agent 462]", async () => {
    const audit = await cluster.audit();
    const requests = audit.filter(({ verb, objectRef }) => verb === "create" && objectRef?.resource === "certificatesigningrequests");
    expect(requests.map(({ user }) => user.username.replace(/^(system:bootstrap):.*/u, "$1"))).toEqual([
      "system:bootstrap",
      `system:node:${NAME}`,
    ]);
    expect(audit.filter(({ user, responseStatus }) => user.username === `system:node:${NAME}` && responseStatus?.code === 401)).toEqual([]);
  });

  /** Returns the certificate metrics of `/metrics`; Go prints large numbers differently. */
  async function toldOfCertificates(): Promise<ToldOfCertificates> {
    const text = await cluster.kubectl("get", "--raw", `/api/v1/nodes/${NAME}/proxy/metrics`);
    const all = [...text.matchAll(/^(kubelet_(?:certificate_manager|server_expiration)\w+)(?:\{le="(\S+)"\})? (\S+)$/gmu)];
    const series = all.map(
      ([, name = "", le = "", value = ""]) => [`${name} ${le.replace(/^[\d.e+]+$/u, (bucket) => `${Number(bucket)}`)}`, value] as const,
    );
    const isTtl = ([name]: readonly [string, string]): boolean => name.includes("_ttl_seconds");
    return {
      series: Object.fromEntries(series.map((each) => (isTtl(each) ? [each[0], "later"] : each))),
      endsSeconds: series.filter(isTtl).map(([, value]) => Date.now() / 1_000 + Number(value)),
    };
  }

  async function currentCertificate(of: "client" | "server"): Promise<string> {
    return await readlink(file(`kubelet/pki/kubelet-${of}-current.pem`));
  }

  /** Returns the DaemonSet's only pod once it is ready. */
  async function podOfSet(name: string): Promise<PodView> {
    return await eventually(
      `the pod of ${name} is ready`,
      async () => {
        const pod = (await podsOf(cluster)).find(({ metadata }) => metadata.labels?.["set"] === name);
        return pod !== undefined && isReady(pod) && pod;
      },
      60_000,
    );
  }

  /**
   * Returns the UIDs of the pods with data on the machine. Both agents delete terminated containers and logs within a minute; this does not
   * wait for it.
   */
  async function remains(): Promise<Record<(typeof THINGS)[number], readonly string[]>> {
    const cri = createCri(containerd.endpoint);
    try {
      const unique = (uids: readonly string[]): readonly string[] => [...new Set(uids)].toSorted();
      const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map((line) => line.split(" ")[4] ?? "");
      return {
        containers: unique((await cri.listContainers({ state: "CONTAINER_RUNNING" })).map(({ labels }) => labels[LABELS.podUid] ?? "")),
        sandboxes: unique((await cri.listPodSandbox({ state: "SANDBOX_READY" })).map(({ metadata }) => metadata.uid)),
        directories: unique(await readdir(file("kubelet/pods"))),
        mounts: unique(
          mounts.flatMap((path) =>
            path.startsWith(file("kubelet/pods/")) ? [path.slice(file("kubelet/pods/").length).split("/")[0] ?? ""] : [],
          ),
        ),
        cgroups: unique((await podCgroups(containerd.cgroupParent)).map((path) => basename(path).replace(/^pod/u, ""))),
      };
    } finally {
      cri.close();
    }
  }
}

const THINGS = ["containers", "sandboxes", "directories", "mounts", "cgroups"] as const;

interface ToldOfCertificates {
  readonly series: Readonly<Record<string, string>>;
  /** Expiry of the client and the serving certificate. */
  readonly endsSeconds: readonly number[];
}

interface NodeView {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
}

async function podsOf(cluster: Cluster): Promise<readonly PodView[]> {
  return await cluster.list<PodView>("/api/v1/namespaces/default/pods");
}

/** A DaemonSet whose pods count their starts, on disk and in memory. */
function daemonSet(name: string): object {
  const count = "for of in data memory; do echo $(($(cat /$of/starts 2>/dev/null || echo 0) + 1)) > /$of/starts; done";
  const volumeMounts = [
    { name: "data", mountPath: "/data" },
    { name: "memory", mountPath: "/memory" },
    { name: "settings", mountPath: "/settings" },
  ];
  const spec = {
    terminationGracePeriodSeconds: 1,
    initContainers: [shell("first", "true")],
    containers: [
      server({
        readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
        livenessProbe: { httpGet: { port: 8080 }, periodSeconds: 2 },
      }),
      shell("side", `${count}; trap "exit 0" TERM; sleep 3600 & wait`, { volumeMounts }),
    ],
    volumes: [
      { name: "data", emptyDir: {} },
      { name: "memory", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
      { name: "settings", configMap: { name: "settings" } },
    ],
  };
  const labels = { set: name };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}
