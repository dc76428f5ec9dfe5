/** The one node of a cluster on a containerd of its own, with the images of upstream's tests: `deltaloop node`, or upstream's kubelet. */
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { startComponent } from "../envtest/component.ts";
import { deltaloop, eventually } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import type { UpstreamTests } from "../upstream/program.ts";
import { importUpstreamImages } from "./images.ts";

export type Side = "kubelet" | "ours";

export interface JudgedNode {
  readonly containerd: ContainerdNode;
  /** Node agent, containers and all. */
  stop(): Promise<void>;
}

/** A node agent that runs. */
export interface Agent {
  readonly pid: number;
  stop(): Promise<unknown>;
}

/** The node that an agent registers. */
export const NAME = "judged";
const READY_MS_MAX = 60_000;
const END_MS_MAX = 8_000;

/** What both sides are told beside what makes them comparable; each in its own words. */
export interface JudgedNodeOptions {
  /** Of the kubelet's configuration; goes before what it is given here. */
  readonly configuration?: object;
  /** For `deltaloop node`. */
  readonly flags?: readonly string[];
}

/** Ready when it resolves. @throws with the end of the agent's log when it is not in time */
export async function startJudgedNode(
  cluster: Cluster,
  side: Side,
  { programs }: UpstreamTests,
  options: JudgedNodeOptions = {},
): Promise<JudgedNode> {
  const containerd = await startContainerd();
  try {
    await importUpstreamImages(containerd, programs.agnhost);
    const agent = await startAgent(cluster, side, containerd, programs, options);
    return {
      containerd,
      async stop() {
        await agent.stop();
        await containerd.stop();
      },
    };
  } catch (error) {
    await containerd.stop();
    throw error;
  }
}

/** On a containerd that has the images already; `deltaloop` is a bundle, else the sources run. Its node is Ready when it resolves, and goes with it. */
export async function startAgent(
  cluster: Cluster,
  side: Side,
  containerd: ContainerdNode,
  programs: { readonly kubelet: string; readonly deltaloop?: string },
  options: JudgedNodeOptions = {},
): Promise<Agent> {
  const agent = await (side === "ours"
    ? startOurs(cluster, containerd, options, programs.deltaloop)
    : startKubelet(cluster, containerd, options, programs.kubelet));
  await eventually(
    `the node of ${side} is registered`,
    async () => (await cluster.get(`/api/v1/nodes/${NAME}`)) !== undefined,
    READY_MS_MAX,
  );
  await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=60s", `node/${NAME}`);
  return {
    pid: agent.pid,
    async stop() {
      await agent.stop();
      await cluster.kubectl("delete", "node", NAME, "--ignore-not-found");
    },
  };
}

/** Pods reach the machine at its address on their bridge, and so does the API server. */
function addressOf({ podCidr }: ContainerdNode): string {
  return podCidr.replace(/0\/24$/u, "1");
}

async function startOurs(
  { plane }: Cluster,
  containerd: ContainerdNode,
  { flags = [] }: JudgedNodeOptions,
  program?: string,
): Promise<Agent> {
  const folder = (of: string): string => join(containerd.directory, of);
  await writeFile(folder("ca.crt"), plane.ca);
  const args = [
    ...["node", "--kubeconfig", await credentials(plane), "--cri", containerd.endpoint, "--name", NAME],
    ...["--node-ip", addressOf(containerd), "--port", "0", "--client-ca-file", folder("ca.crt")],
    ...["--root-dir", folder("kubelet"), "--pod-logs-dir", folder("pods"), "--container-logs-dir", folder("containers")],
    ...["--cgroup-root", containerd.cgroupParent, "--serialize-image-pulls=false"],
    ...flags,
  ];
  const agent = deltaloop(args, {}, program);
  await agent.line("ready");
  return agent;
}

/** As kubeadm would, but for what this machine lacks: control groups of version 1 are let pass, and no score is lowered. */
async function startKubelet({ plane }: Cluster, containerd: ContainerdNode, options: JudgedNodeOptions, program: string): Promise<Agent> {
  const folder = (of: string): string => join(containerd.directory, of);
  await writeFile(folder("ca.crt"), plane.ca);
  await makeCgroup(containerd.cgroup);
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    containerRuntimeEndpoint: containerd.endpoint,
    address: addressOf(containerd),
    port: KUBELET_PORT,
    readOnlyPort: 0,
    healthzPort: 0,
    authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: folder("ca.crt") } },
    authorization: { mode: "Webhook" },
    failCgroupV1: false,
    oomScoreAdj: 0,
    failSwapOn: false,
    cgroupDriver: "cgroupfs",
    cgroupRoot: containerd.cgroupParent,
    enforceNodeAllocatable: [],
    evictionHard: { "memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%" },
    imageGCHighThresholdPercent: 100,
    podLogsDir: folder("pods"),
    volumePluginDir: folder("plugins"),
    clusterDomain: "cluster.local",
    resolvConf: "/etc/resolv.conf",
    syncFrequency: "1m",
    serializeImagePulls: false,
    ...options.configuration,
  };
  await writeFile(folder("kubelet.json"), JSON.stringify(configuration));
  const kubelet = await startComponent(
    program,
    [
      `--config=${folder("kubelet.json")}`,
      ...[`--kubeconfig=${await credentials(plane)}`, `--hostname-override=${NAME}`, `--node-ip=${addressOf(containerd)}`],
      ...[`--root-dir=${folder("kubelet")}`, `--cert-dir=${folder("certificates")}`],
    ],
    { name: "kubelet", logFile: folder("kubelet.log") },
  );
  return { pid: kubelet.pid, stop: () => kubelet.stop(END_MS_MAX) };
}

/** On an address of the node's own. */
const KUBELET_PORT = 10_250;

async function credentials(plane: Cluster["plane"]): Promise<string> {
  return await plane.kubeconfigFor({ user: `system:node:${NAME}`, groups: ["system:nodes"] });
}

/** The kubelet wants its root to be there, in every hierarchy. */
async function makeCgroup(name: string): Promise<void> {
  const mount = "/sys/fs/cgroup";
  const entries = await readdir(mount, { withFileTypes: true });
  const hierarchies = entries.filter((entry) => entry.isDirectory()).map((entry) => join(mount, entry.name));
  const isSecond = entries.some((entry) => entry.name === "cgroup.controllers");
  for (const hierarchy of isSecond ? [mount] : hierarchies) await mkdir(join(hierarchy, name), { recursive: true });
}
