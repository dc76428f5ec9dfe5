/**
 * A node of a cluster on Docker: it has its own dockerd (test/docker) and `deltaloop node --docker` as a child process of the test (NA1,
 * NA2).
 */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { createDockerCri } from "../../../shared/docker/docker.ts";
import type { Cri } from "../../../shared/node-agent/ports/cri.ts";
import { IMAGES } from "../../containerd/images.ts";
import { CNI_PLUGINS } from "../../containerd/programs.ts";
import { startDockerd } from "../../docker/dockerd.ts";
import type { DockerNode } from "../../docker/dockerd.ts";
import { deltaloop, killHard } from "../../support/e2e.ts";
import type { Cluster, Running } from "../../support/e2e.ts";
import { ON_ANY_DISK } from "./any-disk.ts";

export interface DockerAgent {
  readonly docker: DockerNode;
  /** The test's own connection to the runtime. */
  readonly cri: Cri;
  /** Starts the agent again after a simulated crash; resolves when it is ready. */
  start(): Promise<void>;
  /** SIGKILL; containers keep running. */
  kill(): Promise<void>;
  /** Names of the remaining files: sandbox checkpoints, allocated addresses, pod directories, logs, and links to logs. */
  leftovers(): Promise<Readonly<Record<"sandboxes" | "addresses" | "directories" | "logs" | "links", readonly string[]>>>;
  /** Stops agent, containers and dockerd. */
  stop(): Promise<void>;
}

export async function startDockerNode({ plane }: Cluster, name: string, program: string): Promise<DockerAgent> {
  const docker = await startDockerd(program);
  const folder = (of: string): string => join(docker.directory, of);
  const cni = { confDir: docker.cniConfDir, binDirs: [CNI_PLUGINS] };
  // The test's own CRI adapter; it starts no sandbox, so its own checkpoint folder stays empty.
  const cri = createDockerCri({ endpoint: docker.endpoint, pauseImage: IMAGES.pause, cni, stateDir: folder("none") });
  let agent: Running | undefined;
  const stop = async (): Promise<void> => {
    await agent?.stop();
    cri.close();
    await docker.stop();
  };
  try {
    const kubeconfig = await plane.kubeconfigFor({ user: `system:node:${name}`, groups: ["system:nodes"] });
    const { clusters } = JSON.parse(await readFile(kubeconfig, "utf8")) as Kubeconfig; // written by test/envtest
    await writeFile(folder("ca.crt"), Buffer.from(clusters[0]?.cluster["certificate-authority-data"] ?? "", "base64"));
    await mkdir(folder("manifests"));
    const start = async (): Promise<void> => {
      agent = deltaloop([
        "node",
        ...["--kubeconfig", kubeconfig, "--docker", docker.endpoint, "--name", name, "--node-ip", "127.0.0.1", "--port", "0"],
        ...["--pod-infra-container-image", IMAGES.pause, "--cni-conf-dir", docker.cniConfDir, "--cni-bin-dir", CNI_PLUGINS],
        ...["--root-dir", folder("kubelet"), "--pod-logs-dir", folder("pods"), "--container-logs-dir", folder("containers")],
        ...["--cgroup-root", docker.cgroupParent, "--manifests", folder("manifests"), "--client-ca-file", folder("ca.crt")],
        ...ON_ANY_DISK,
      ]);
      await agent.line("ready");
    };
    await start();
    return {
      docker,
      cri,
      start,
      async kill() {
        killHard(agent?.pid);
        await agent?.exited;
      },
      async leftovers() {
        const names = async (of: string): Promise<readonly string[]> => await readdir(folder(of)).catch(() => []);
        const addresses = (await names(join("ipam", docker.name))).filter((one) => /^\d/u.test(one));
        const [sandboxes, directories, logs, links] = await Promise.all(
          ["kubelet/docker-sandboxes", "kubelet/pods", "pods", "containers"].map(names),
        );
        return { sandboxes: sandboxes ?? [], addresses, directories: directories ?? [], logs: logs ?? [], links: links ?? [] };
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly "certificate-authority-data": string } }[];
}
