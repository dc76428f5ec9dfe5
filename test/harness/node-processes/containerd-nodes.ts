/**
 * Nodes of a real cluster: each has its own containerd (test/containerd) and `deltaloop node` as a child process of the test.
 * NA1 an agent has only its own node's certificate, its own folders, and its own part of the cgroup tree.
 * NA2 all that a node writes is in its containerd's directory, so stopping containerd also stops the agent and leaves nothing.
 */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { it } from "vitest";

import { createCri } from "../../../shared/node-agent/cri/cri.ts";
import type { CriAdapter } from "../../../shared/node-agent/cri/cri.ts";
import { LABELS } from "../../../shared/node-agent/kubelet/types/labels.ts";
import type { Container } from "../../../shared/node-agent/ports/cri-types.ts";
import { startContainerd } from "../../containerd/containerd.ts";
import type { ContainerdNode, ContainerdOptions } from "../../containerd/containerd.ts";
import { ensureContainerd } from "../../containerd/programs.ts";
import { deltaloop, eventually, killHard, measured, whereRealPartsAre } from "../../support/e2e.ts";
import type { AuditEntry, Cluster, Running } from "../../support/e2e.ts";
import { ON_ANY_DISK } from "./any-disk.ts";

export interface NodeAgent {
  readonly name: string;
  readonly containerd: ContainerdNode;
  /** The test's own connection to the runtime. */
  readonly cri: CriAdapter;
  /** The agent's static pod directory. */
  readonly manifests: string;
  /** The current process, or the last one. */
  agent(): Running;
  /** Writes a copy of the node's kubeconfig with another server, and returns its path. */
  kubeconfigTo(server: string): Promise<string>;
  /** Starts the agent again, for example after a simulated crash; resolves when it is ready. `kubeconfig` replaces the node's own one. */
  start(kubeconfig?: string): Promise<void>;
  /** SIGKILL; containers keep running. */
  kill(): Promise<void>;
  /** The runtime's containers of a pod, or of all pods. */
  containers(podUid?: string): Promise<readonly Container[]>;
  /** UIDs with a pod directory; names of log directories, of links to logs, and of cgroups. */
  leftovers(): Promise<{ readonly [what in "directories" | "logs" | "links" | "cgroups"]: readonly string[] }>;
  /** Stops agent, containers and containerd. */
  stop(): Promise<void>;
}

export interface NodeAgentOptions extends ContainerdOptions {
  /** Additional flags of `deltaloop node`. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs `suite` where a control plane, Redis and containers can run; otherwise reports why not. */
export async function whereNodesCanRun(title: string, suite: () => void): Promise<void> {
  const missing = ensureContainerd();
  if (missing === undefined) return await whereRealPartsAre(title, suite);
  process.stderr.write(`!!!!  ${title} cannot run: ${missing}\n`);
  it.skip(`${title}: ${missing}`);
}

/** Resolves when the agents run; their nodes may not be Ready yet. */
export async function startNodes(
  cluster: Cluster,
  names: readonly string[],
  options: NodeAgentOptions = {},
): Promise<readonly NodeAgent[]> {
  const settled = await Promise.allSettled(names.map((name) => startNode(cluster, name, options)));
  const nodes = settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failure = settled.find((result) => result.status === "rejected");
  if (failure === undefined) return nodes;
  await Promise.all(nodes.map((node) => node.stop()));
  throw failure.reason;
}

/** Waits with `kubectl wait`. */
export async function nodesReady(cluster: Cluster, ...nodes: readonly NodeAgent[]): Promise<void> {
  // `kubectl wait` fails for a node that does not exist yet.
  for (const { name } of nodes) await eventually(`node ${name} is registered`, () => cluster.get(`/api/v1/nodes/${name}`), 60_000);
  await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=60s", ...nodes.map(({ name }) => `node/${name}`));
}

/**
 * Returns requests of nodes that the API server refused and did not grant shortly after: its authorizer may see a pod somewhat later than a
 * fast node does. Omits requests for a deleted pod that the node has not seen again: the authorizer no longer relates the pod to the node,
 * so a request before the watch reports the deletion is refused, not answered with 404.
 * @throws {Error} if no node sent any request
 */
export async function refusedForGood(cluster: Cluster): Promise<readonly string[]> {
  const asked = withoutRemoved(await cluster.audit()).filter(({ user }) => user.username.startsWith("system:node:"));
  if (asked.length === 0) throw new Error("no node sent a request");
  const sameRequest = ({ user, verb, requestURI }: AuditEntry): string => `${user.username}: ${verb} ${requestURI.split("?")[0]}`;
  const refused: string[] = [];
  for (const [request, answers] of Map.groupBy(asked, sameRequest)) {
    const codes = answers.map(({ responseStatus }) => responseStatus?.code);
    const early = codes.filter((code) => code === 403).length;
    if (early > 0) measured(`${request}: refused ${early} of ${codes.length} times`);
    const [first, last] = [codes.indexOf(403), codes.findLastIndex((code) => code !== 403)];
    if (first !== -1 && last < first) refused.push(request);
  }
  return refused;
}

/** Omits refused requests for pods that were deleted before and that the requesting node has not seen since. */
function withoutRemoved(entries: readonly AuditEntry[]): readonly AuditEntry[] {
  const deleted = new Map<string, number>();
  const seen = new Map<string, number>();
  return entries.filter(({ user, verb, requestURI, objectRef, responseStatus }, index) => {
    if (objectRef?.resource !== "pods" || objectRef.subresource !== undefined) return true;
    const [pod = ""] = requestURI.split("?");
    const question = `${user.username}: ${pod}`;
    const wasGranted = (responseStatus?.code ?? 0) < 300;
    if (wasGranted && verb === "delete") deleted.set(pod, index);
    if (wasGranted && verb === "get") seen.set(question, index);
    return !(verb === "get" && responseStatus?.code === 403 && (deleted.get(pod) ?? -1) > (seen.get(question) ?? -1));
  });
}

async function startNode({ plane }: Cluster, name: string, options: NodeAgentOptions): Promise<NodeAgent> {
  const containerd = await startContainerd(options);
  const cri = createCri(containerd.endpoint);
  const folder = (of: string): string => join(containerd.directory, of);
  const manifests = folder("manifests");
  let agent: Running | undefined;
  try {
    await mkdir(manifests);
    const own = await plane.kubeconfigFor({ user: `system:node:${name}`, groups: ["system:nodes"] });
    await writeFile(folder("ca.crt"), await authorityOf(own));
    const start = async (kubeconfig = own): Promise<void> => {
      const args = [
        "node",
        ...["--kubeconfig", kubeconfig, "--cri", containerd.endpoint, "--name", name, "--node-ip", "127.0.0.1", "--port", "0"],
        ...["--root-dir", folder("kubelet"), "--pod-logs-dir", folder("pods"), "--container-logs-dir", folder("containers")],
        ...["--cgroup-root", containerd.cgroupParent, "--manifests", manifests, "--client-ca-file", folder("ca.crt")],
        // No server listens there; without an address each start would report a warning on pod and Node.
        ...["--cluster-dns", "10.96.0.10"],
        ...ON_ANY_DISK,
        ...(options.flags ?? []),
      ];
      agent = deltaloop(args, options.environment);
      await agent.line("ready");
    };
    const running = (): Running => {
      if (agent === undefined) throw new Error(`the agent of ${name} was never started`);
      return agent;
    };
    await start();
    return {
      name,
      containerd,
      cri,
      manifests,
      agent: running,
      async kubeconfigTo(server) {
        const config = await readKubeconfig(own);
        const clusters = config.clusters.map((one) => ({ ...one, cluster: { ...one.cluster, server } }));
        await writeFile(folder("other.kubeconfig"), JSON.stringify({ ...config, clusters }), { mode: 0o600 });
        return folder("other.kubeconfig");
      },
      start,
      async kill() {
        killHard(running().pid);
        await running().exited;
      },
      containers: async (podUid) => await cri.listContainers(podUid === undefined ? {} : { labelSelector: { [LABELS.podUid]: podUid } }),
      async leftovers() {
        const [directories = [], logs = [], links = []] = await Promise.all(
          ["kubelet/pods", "pods", "containers"].map((of) => namesIn(folder(of))),
        );
        const cgroups = await podCgroups(containerd.cgroupParent);
        return { directories, logs, links, cgroups };
      },
      async stop() {
        await running().stop();
        cri.close();
        await containerd.stop();
      },
    };
  } catch (error) {
    await agent?.stop();
    cri.close();
    await containerd.stop();
    throw error;
  }
}

interface KubeconfigFile {
  readonly clusters: readonly { readonly cluster: { readonly server: string; readonly "certificate-authority-data": string } }[];
}

async function readKubeconfig(path: string): Promise<KubeconfigFile> {
  return JSON.parse(await readFile(path, "utf8")) as KubeconfigFile; // written by test/envtest
}

/** The cluster's only CA, which also signs the API server's client certificate for kubelets. */
async function authorityOf(kubeconfig: string): Promise<Buffer> {
  const { clusters } = await readKubeconfig(kubeconfig);
  return Buffer.from(clusters[0]?.cluster["certificate-authority-data"] ?? "", "base64");
}

/** Returns the cgroups of pods below `parent`, in all hierarchies. */
export async function podCgroups(parent: string): Promise<readonly string[]> {
  const mount = "/sys/fs/cgroup";
  const below = async (folder: string): Promise<readonly string[]> =>
    await readdir(join(folder, parent), { recursive: true }).catch(() => []);
  const found = await Promise.all([mount, ...(await namesIn(mount)).map((name) => join(mount, name))].map(below));
  return [...new Set(found.flat().filter((path) => /(?:^|\/)pod[0-9a-f-]+$/u.test(path)))];
}

/** A folder that does not exist is empty. */
async function namesIn(folder: string): Promise<readonly string[]> {
  return await readdir(folder).catch(() => []);
}
