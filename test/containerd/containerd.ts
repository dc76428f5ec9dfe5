/**
 * A private containerd per test node, so that several nodes can run on one machine.
 *
 * CN1 root, state, sockets, runc's state, network namespaces, CNI configuration, bridge, subnet and cgroup belong to the node alone.
 * CN2 it ends with the process that started it, even after a crash, and leaves nothing behind (node-cleanup.ts).
 * CN3 it contacts no registry other than registry.ts; images come from images.ts. Pods have no route out of the machine.
 */
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { createCri } from "../../shared/node-agent/cri/cri.ts";
import type { CriAdapter } from "../../shared/node-agent/cri/cri.ts";
import { startComponent, waitUntilReady } from "../envtest/component.ts";
import type { Component } from "../envtest/component.ts";
import { startNodeCleanup } from "./node-cleanup.ts";
import { newIdentity } from "./identity.ts";
import type { NodeIdentity } from "./identity.ts";
import { imageArchive, IMAGES } from "./images.ts";
import { ociArchive } from "../../infra/image/oci-archive.ts";
import type { ImageContent } from "../../infra/image/oci-archive.ts";
import { createPodNetwork } from "./network.ts";
import { CNI_PLUGINS, CONTAINERD, CTR } from "./programs.ts";

export interface ContainerdNode extends NodeIdentity {
  /** The CRI socket, as `unix://PATH`. */
  readonly endpoint: string;
  readonly podCidr: string;
  readonly bridge: string;
  readonly pid: number;
  /** Absolute path for a pod's `cgroupParent`: `/deltaloop-cri-…`. Its location in each cgroup hierarchy differs. */
  readonly cgroupParent: string;
  /** Sends SIGKILL to containerd only: shims and containers keep running. */
  kill(): Promise<void>;
  /** Starts it again after `kill`. */
  restart(): Promise<void>;
  /** Imports images in addition to those that are present from the start. */
  importImages(images: readonly ImageContent[]): Promise<void>;
  /** Imports an archive that contains images with these names. */
  importArchive(archive: Buffer, names: readonly string[]): Promise<void>;
  /** Ends everything; takes about half a second. */
  stop(): Promise<void>;
}

export interface ContainerdOptions {
  /** Size of a separate disk for images and snapshots. Default: the host's disk. */
  readonly diskBytes?: number;
  /** Size and inode count of a separate disk for the root directory of a node agent, `kubelet`. Default: the host's disk. */
  readonly agentDisk?: { readonly bytes: number; readonly inodes?: number };
}

const READY_MS_MAX = 30_000;
const run = promisify(execFile);

/** @throws {Error} with the end of containerd's log if it is not ready in time; leaves nothing behind in this case either */
export async function startContainerd({ diskBytes, agentDisk }: ContainerdOptions = {}): Promise<ContainerdNode> {
  const identity = await newIdentity();
  const guard = startNodeCleanup(identity);
  try {
    if (diskBytes !== undefined) await mountDisk(identity.directory, "root", diskBytes);
    if (agentDisk !== undefined) await mountDisk(identity.directory, "kubelet", agentDisk.bytes, agentDisk.inodes);
    const { bridge, podCidr } = await createPodNetwork(identity);
    const config = join(identity.directory, "config.toml");
    await writeFile(config, configuration(identity.directory));
    const endpoint = `unix://${join(identity.directory, "containerd.sock")}`;
    let containerd = await start(identity.directory, config, endpoint);
    const importArchive = (archive: Buffer, names: readonly string[]): Promise<void> =>
      importImages(identity.directory, endpoint, archive, names);
    await importArchive(await imageArchive(identity.directory), Object.values(IMAGES));
    return {
      ...identity,
      endpoint,
      podCidr,
      bridge,
      cgroupParent: `/${identity.cgroup}`,
      get pid() {
        return containerd.pid;
      },
      async kill() {
        process.kill(containerd.pid, "SIGKILL");
        await containerd.ended;
      },
      async restart() {
        containerd = await start(identity.directory, config, endpoint);
      },
      importImages: (images) =>
        importArchive(
          ociArchive(images),
          images.map(({ name }) => name),
        ),
      importArchive,
      stop: () => guard.end(),
    };
  } catch (error) {
    await guard.end();
    throw error;
  }
}

/** Mounts a new file system from a file. The cleanup process unmounts it, which also removes the loop device. */
async function mountDisk(directory: string, folder: string, bytes: number, inodes?: number): Promise<void> {
  const [file, root] = [join(directory, `${folder}.img`), join(directory, folder)];
  await run("truncate", ["-s", String(bytes), file]);
  await run("mkfs.ext4", ["-q", "-m", "0", ...(inodes === undefined ? [] : ["-N", String(inodes)]), file]);
  await mkdir(root);
  await run("mount", ["-o", "loop", file, root]);
}

async function start(directory: string, config: string, endpoint: string): Promise<Component> {
  const logFile = join(directory, "containerd.log");
  const containerd = await startComponent(CONTAINERD, ["--config", config], { name: "containerd", logFile });
  await withCri(endpoint, async (cri) => {
    const isReady = async (): Promise<boolean> => {
      const conditions = await cri.status().catch(() => []);
      return ["RuntimeReady", "NetworkReady"].every((type) => conditions.some((one) => one.type === type && one.status));
    };
    await waitUntilReady(containerd, isReady, { what: "containerd and its network", timeoutMs: READY_MS_MAX, pollMs: 50 });
  });
  return containerd;
}

/** containerd's CRI plugin learns of an import through an event, so this also waits until the plugin lists the images. */
async function importImages(directory: string, endpoint: string, archive: Buffer, names: readonly string[]): Promise<void> {
  const file = join(directory, "images.tar");
  await writeFile(file, archive);
  const socket = join(directory, "containerd.sock");
  await run(CTR, ["--address", socket, "--namespace", "k8s.io", "images", "import", "--no-unpack", file]);
  await rm(file);
  await withCri(endpoint, async (cri) => {
    const giveUpAt = performance.now() + READY_MS_MAX;
    for (const image of names) {
      while ((await cri.imageStatus({ image })) === undefined) {
        if (performance.now() > giveUpAt) throw new Error(`imported, and not seen: ${image}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  });
}

async function withCri(endpoint: string, act: (cri: CriAdapter) => Promise<void>): Promise<void> {
  const cri = createCri(endpoint);
  try {
    await act(cri);
  } finally {
    cri.close();
  }
}

/**
 * With `restrict_oom_score_adj`, containerd does not lower the OOM score: root without CAP_SYS_RESOURCE, as in many sandboxes, is not
 * permitted to, and runc then exits without an error message. Settings that are absent here keep their defaults (`containerd config
 * default`).
 * Source: containerd 1.6 docs/cri/config.md.
 */
function configuration(directory: string): string {
  const path = (name: string): string => JSON.stringify(join(directory, name));
  return `version = 2
root = ${path("root")}
state = ${path("state")}
temp = ${path("tmp")}
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = ${path("containerd.sock")}
[ttrpc]
  address = ${path("containerd.sock.ttrpc")}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${IMAGES.pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${CNI_PLUGINS}"
    conf_dir = ${path("cni")}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = ${path("runc")}
      SystemdCgroup = false
`;
}
