/** A node of a cluster on its own containerd, with the images of upstream's tests. The agent is `deltaloop node` or upstream's kubelet. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { startContainerd } from "../../containerd/containerd.ts";
import type { ContainerdNode } from "../../containerd/containerd.ts";
import { startComponent } from "../../envtest/component.ts";
import { deltaloop, eventually, killHard } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import type { UpstreamTests } from "../../upstream/program.ts";
import { importUpstreamImages } from "../../nodeconf/images.ts";
import { ON_ANY_DISK, ON_ANY_DISK_UPSTREAM } from "./any-disk.ts";

export type Side = "kubelet" | "ours";

export interface JudgedNode {
  readonly containerd: ContainerdNode;
  /** The log of the node agent. */
  log(): Promise<string>;
  /** Stops agent, containers and containerd. */
  stop(): Promise<void>;
}

/** A running node agent. */
export interface Agent {
  readonly pid: number;
  /** The log of the agent. */
  log(): Promise<string>;
  /** Ends only the program: its pods keep running, and the next start takes them over. */
  end(): Promise<void>;
  /** Simulates a crash: SIGKILL. */
  kill(): Promise<void>;
  /** Stops the program and deletes its Node object. */
  stop(): Promise<void>;
}

/** The node name that an agent registers by default. */
export const NAME = "judged";
/** An address for pods' DNS configuration, so that pods get no DNS warning; no server listens there. */
const CLUSTER_DNS = "10.0.0.10";
const READY_MS_MAX = 60_000;
const END_MS_MAX = 8_000;

/** Settings that make both agents comparable, and flags for each agent. */
export interface JudgedNodeOptions {
  /** The node's name. Default: `NAME`. */
  readonly name?: string;
  /** The static pod directory, read about once a second. */
  readonly manifests?: string;
  /** Part of the kubelet configuration; overrides the defaults here. */
  readonly configuration?: object;
  /** Flags of the kubelet; they override the defaults here. */
  readonly kubeletFlags?: readonly string[];
  /** Flags of `deltaloop node`. */
  readonly flags?: readonly string[];
  /** Environment of `deltaloop node`, added to this process's own. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Resolves when the node is Ready. @throws with the end of the agent's log after the deadline */
export async function startJudgedNode(
  cluster: Cluster,
  side: Side,
  upstream: UpstreamTests,
  options: JudgedNodeOptions = {},
): Promise<JudgedNode> {
  const containerd = await startContainerd();
  try {
    await importUpstreamImages(containerd, upstream);
    const agent = await startAgent(cluster, side, containerd, upstream.programs, {
      ...options,
      configuration: { clusterDNS: [CLUSTER_DNS], ...options.configuration },
      flags: ["--cluster-dns", CLUSTER_DNS, ...(options.flags ?? [])],
    });
    return {
      containerd,
      log: agent.log,
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

/**
 * Starts an agent on a containerd that has the images. `deltaloop` is a bundle; by default the sources run. Resolves when the node is
 * Ready.
 */
export async function startAgent(
  cluster: Cluster,
  side: Side,
  containerd: ContainerdNode,
  programs: { readonly kubelet: string; readonly deltaloop?: string },
  options: JudgedNodeOptions = {},
): Promise<Agent> {
  const { name = NAME } = options;
  const agent = await (side === "ours"
    ? startOurs(cluster, containerd, options, programs.deltaloop)
    : startKubelet(cluster, containerd, options, programs.kubelet));
  await eventually(
    `the node of ${side} is registered`,
    async () => (await cluster.get(`/api/v1/nodes/${name}`)) !== undefined,
    READY_MS_MAX,
  );
  await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=60s", `node/${name}`);
  return {
    ...agent,
    async stop() {
      await agent.end();
      await cluster.kubectl("delete", "node", name, "--ignore-not-found");
    },
  };
}

type Program = Omit<Agent, "stop">;

/** The host's address on the pods' bridge, at which pods reach the API server. */
function addressOf({ podCidr }: ContainerdNode): string {
  return podCidr.replace(/0\/24$/u, "1");
}

async function startOurs(
  { plane }: Cluster,
  containerd: ContainerdNode,
  { name = NAME, manifests, flags = [], environment = {} }: JudgedNodeOptions,
  program?: string,
): Promise<Program> {
  const folder = (of: string): string => join(containerd.directory, of);
  await writeFile(folder("ca.crt"), plane.ca);
  const args = [
    ...["node", "--kubeconfig", await credentials(plane, name), "--cri", containerd.endpoint, "--name", name],
    ...["--node-ip", addressOf(containerd), "--port", String(AGENT_PORT), "--client-ca-file", folder("ca.crt")],
    ...["--root-dir", folder("kubelet"), "--pod-logs-dir", folder("pods"), "--container-logs-dir", folder("containers")],
    ...["--cgroup-root", containerd.cgroupParent, "--serialize-image-pulls=false"],
    ...ON_ANY_DISK,
    ...(manifests === undefined ? [] : ["--manifests", manifests]),
    ...flags,
  ];
  const agent = deltaloop(args, environment, program);
  await agent.line("ready");
  return {
    pid: agent.pid,
    log: () => Promise.resolve(agent.output()),
    async end() {
      await agent.stop();
    },
    async kill() {
      killHard(agent.pid);
      await agent.exited;
    },
  };
}

/** Configures the kubelet as kubeadm does, with exceptions for test hosts: it accepts cgroup v1 and lowers no OOM score. */
async function startKubelet({ plane }: Cluster, containerd: ContainerdNode, options: JudgedNodeOptions, program: string): Promise<Program> {
  const { name = NAME, manifests, kubeletFlags = [] } = options;
  const folder = (of: string): string => join(containerd.directory, of);
  await writeFile(folder("ca.crt"), plane.ca);
  await makeCgroup(containerd.cgroup);
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    containerRuntimeEndpoint: containerd.endpoint,
    address: addressOf(containerd),
    port: AGENT_PORT,
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
    ...ON_ANY_DISK_UPSTREAM,
    podLogsDir: folder("pods"),
    volumePluginDir: folder("plugins"),
    clusterDomain: "cluster.local",
    resolvConf: "/etc/resolv.conf",
    syncFrequency: "1m",
    serializeImagePulls: false,
    ...(manifests !== undefined && { staticPodPath: manifests, fileCheckFrequency: "1s" }),
    ...options.configuration,
  };
  await writeFile(folder("kubelet.json"), JSON.stringify(configuration));
  const kubelet = await startComponent(
    program,
    [
      `--config=${folder("kubelet.json")}`,
      ...[`--kubeconfig=${await credentials(plane, name)}`, `--hostname-override=${name}`, `--node-ip=${addressOf(containerd)}`],
      ...[`--root-dir=${folder("kubelet")}`, `--cert-dir=${folder("certificates")}`, ...kubeletFlags],
    ],
    { name: "kubelet", logFile: folder("kubelet.log") },
  );
  return {
    pid: kubelet.pid,
    log: () => readFile(kubelet.logFile, "utf8"),
    end: () => kubelet.stop(END_MS_MAX),
    async kill() {
      killHard(kubelet.pid);
      await kubelet.ended;
    },
  };
}

/** The port of the kubelet's server, which listens on the node's own address. */
const AGENT_PORT = 10_250;

async function credentials(plane: Cluster["plane"], name: string): Promise<string> {
  return await plane.kubeconfigFor({ user: `system:node:${name}`, groups: ["system:nodes"] });
}

/** The kubelet requires its cgroup root to exist in every hierarchy. */
async function makeCgroup(name: string): Promise<void> {
  const mount = "/sys/fs/cgroup";
  const entries = await readdir(mount, { withFileTypes: true });
  const hierarchies = entries.filter((entry) => entry.isDirectory()).map((entry) => join(mount, entry.name));
  const isSecond = entries.some((entry) => entry.name === "cgroup.controllers");
  for (const hierarchy of isSecond ? [mount] : hierarchies) await mkdir(join(hierarchy, name), { recursive: true });
}
