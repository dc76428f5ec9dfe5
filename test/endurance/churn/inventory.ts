/** Everything that a node may leave behind on its host, by kind. If nothing is left, the names before and after are equal. */
import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import type { CriAdapter } from "../../../shared/node-agent/cri/cri.ts";
import type { ContainerdNode } from "../../containerd/containerd.ts";
import { CTR } from "../../containerd/programs.ts";

export type Inventory = Readonly<Record<string, readonly string[]>>;

const run = promisify(execFile);
const CGROUPS = "/sys/fs/cgroup";

export async function takeInventory(
  { directory, cgroup, bridge, name }: ContainerdNode,
  cri: CriAdapter,
  agentPid: number,
): Promise<Inventory> {
  const ctr = async (...args: readonly string[]): Promise<readonly string[]> =>
    lines((await run(CTR, ["--address", join(directory, "containerd.sock"), "--namespace", "k8s.io", ...args])).stdout);
  const at = (...path: readonly string[]): string => join(directory, ...path);
  const cri1 = at("root", "io.containerd.grpc.v1.cri");
  const kinds: Readonly<Record<string, () => Promise<readonly string[]>>> = {
    "control groups": async () => {
      const roots = [CGROUPS, ...(await namesIn(CGROUPS)).map((hierarchy) => join(CGROUPS, hierarchy))];
      return (await Promise.all(roots.map((root) => foldersBelow(join(root, cgroup))))).flat();
    },
    mounts: async () =>
      lines(await readFile("/proc/self/mounts", "utf8"))
        .flatMap((line) => line.split(" ")[1] ?? [])
        .filter((point) => point.startsWith(`${directory}/`)),
    "agent's root": () => allBelow(at("kubelet")),
    "pod logs": () => allBelow(at("pods")),
    "links to logs": () => namesIn(at("containers")),
    sandboxes: async () => (await cri.listPodSandbox()).map(({ id }) => id),
    containers: async () => (await cri.listContainers()).map(({ id }) => id),
    tasks: () => ctr("tasks", "list", "-q"),
    "containerd's containers": () => ctr("containers", "list", "-q"),
    leases: () => ctr("leases", "list", "-q"),
    // Snapshots of images have the kind Committed and are removed with the images, so they do not count.
    "layers of containers": async () =>
      (await ctr("snapshots", "list")).filter((line) => /\bActive\s*$/u.test(line)).flatMap((line) => line.split(/\s+/u)[0] ?? []),
    "runtime's folders": async () =>
      (
        await Promise.all(
          [
            join(cri1, "containers"),
            join(cri1, "sandboxes"),
            at("state", "io.containerd.grpc.v1.cri", "containers"),
            at("state", "io.containerd.grpc.v1.cri", "sandboxes"),
            at("state", "io.containerd.runtime.v2.task", "k8s.io"),
            at("root", "io.containerd.runtime.v2.task", "k8s.io"),
            at("runc", "k8s.io"),
          ].map(async (of) => (await namesIn(of)).map((one) => join(of, one))),
        )
      ).flat(),
    "network namespaces": () =>
      namesIn(at("state", "io.containerd.grpc.v1.cri", "netns")).then(async (names) => [...names, ...(await namesIn(at("netns")))]),
    addresses: async () => (await allBelow(at("ipam"))).filter((path) => /\/10\.[\d.]+$/u.test(path)),
    "network's results": async () => (await namesIn("/var/lib/cni/results")).filter((one) => one.startsWith(`${name}-`)),
    "bridge ports": () => namesIn(`/sys/class/net/${bridge}/brif`),
    shims: () => processesOf("containerd-shim", directory),
    "agent's files": async () => await openFiles(agentPid, directory),
    "agent's children": async () => lines(await readFile(`/proc/${agentPid}/task/${agentPid}/children`, "utf8").catch(() => "")),
  };
  return Object.fromEntries(
    await Promise.all(Object.entries(kinds).map(async ([kind, look]) => [kind, (await look()).toSorted()] as const)),
  );
}

/** Returns the new objects as `kind: name`. */
export function surplus(before: Inventory, now: Inventory): readonly string[] {
  return Object.entries(now).flatMap(([kind, names]) =>
    names.filter((one) => before[kind]?.includes(one) !== true).map((one) => `${kind}: ${one}`),
  );
}

/** Returns the number of leftovers of each kind; omits kinds without leftovers. */
export function countsOf(before: Inventory, left: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.keys(before).map((kind) => [kind, left.filter((one) => one.startsWith(`${kind}: `)).length]));
}

/** Returns the number of open files and sockets of a process, and its resident memory in MiB. */
export async function appetite(pid: number): Promise<{ readonly files: number; readonly rssMiB: number }> {
  const files = (await readdir(`/proc/${pid}/fd`)).length;
  const rss = /^VmRSS:\s+(\d+)/mu.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1];
  return { files, rssMiB: Number(rss) / 1024 };
}

function lines(text: string): readonly string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return await readdir(folder).catch(() => []);
}

async function allBelow(folder: string): Promise<readonly string[]> {
  return (await readdir(folder, { recursive: true }).catch(() => [])).map((path) => `/${path}`);
}

async function foldersBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const paths = entries.filter((entry) => entry.isDirectory()).map((entry) => join(folder, entry.name));
  return [...paths, ...(await Promise.all(paths.map(foldersBelow))).flat()];
}

async function processesOf(program: string, directory: string): Promise<readonly string[]> {
  const pids = (await readdir("/proc")).filter((pid) => /^\d+$/u.test(pid));
  const commands = await Promise.all(
    pids.map(async (pid) => [pid, await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")] as const),
  );
  return commands.flatMap(([pid, command]) =>
    // The sandbox id in the command line of a shim.
    command.includes(program) && command.includes(directory) ? [/-id\0([0-9a-f]+)/u.exec(command)?.[1] ?? pid] : [],
  );
}

/** Returns the open files below the node's directory; `appetite` also counts connections. */
async function openFiles(pid: number, directory: string): Promise<readonly string[]> {
  const fds = await namesIn(`/proc/${pid}/fd`);
  const paths = await Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => "")));
  return paths.filter((path) => path.startsWith(`${directory}/`));
}
