/**
 * Control groups and the capacity and allocatable resources of a Node: `deltaloop node` compared with upstream's kubelet. Both run the same
 * pods on the same machine, one after the other, each on a real containerd and below its own control group.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { ensureContainerd } from "../containerd/programs.ts";
import { startJudgedNode } from "../harness/node-processes/compared-node.ts";
import type { JudgedNode, JudgedNodeOptions, Side } from "../harness/node-processes/compared-node.ts";
import { eventually, measured, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { getPod, podOf, podReady, server, shell } from "../harness/node-processes/pods.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { UpstreamTests } from "../upstream/program.ts";

const MOUNT = "/sys/fs/cgroup";
/** Files that hold limits in cgroup v1. */
const FILES = [
  ...["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpuset.cpus", "cpuset.mems", "memory.limit_in_bytes"],
  ...["memory.soft_limit_in_bytes", "memory.swappiness", "pids.max"],
];

const resources = (requests: object, limits: object = {}): object => ({ resources: { requests, limits } });
const some = { cpu: "50m", memory: "32Mi" };
const more = { cpu: "200m", memory: "64Mi" };
const PODS = {
  guaranteed: { containers: [server(resources(more, more))] },
  burstable: { containers: [server(resources(some, more))] },
  "in-part": { containers: [server(resources(some, more)), shell("side", "sleep 3600", resources({ cpu: "150m" }))] },
  besteffort: { containers: [server()] },
  init: {
    initContainers: [shell("first", "true", resources({ cpu: "300m", memory: "80Mi" }, { cpu: "300m", memory: "80Mi" }))],
    containers: [server(resources(more, more))],
  },
} as const;

/** Hard eviction thresholds, which the harness disables. The default shares of a disk are larger, and a full disk would taint the nodes. */
const EVICTION = { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "2%", "nodefs.inodesFree": "1%" };
const EVICTING = {
  configuration: { evictionHard: EVICTION, enforceNodeAllocatable: ["pods"] },
  flags: [
    "--eviction-hard",
    Object.entries(EVICTION)
      .map((pair) => pair.join("<"))
      .join(),
  ],
};
const KEPT_BACK = {
  configuration: {
    ...EVICTING.configuration,
    kubeReserved: { cpu: "100m", memory: "256Mi", pid: "1000" },
    systemReserved: { cpu: "150m", memory: "100M", "ephemeral-storage": "1Gi" },
    podPidsLimit: 333,
  },
  flags: [
    ...EVICTING.flags,
    ...["--kube-reserved", "cpu=100m,memory=256Mi,pid=1000", "--system-reserved", "cpu=150m,memory=100M,ephemeral-storage=1Gi"],
    ...["--pod-max-pids", "333"],
  ],
};

const missing = ensureContainerd();
const built = missing === undefined ? await upstreamTests() : { missing };
const title = "control groups beside the kubelet";
if ("missing" in built) await whereRealPartsAre(title, () => undefined, built);
else if ((await readdir(MOUNT)).includes("cgroup.controllers")) it.skip(`${title}: requires cgroup v1`);
else await whereRealPartsAre(title, () => suite(built));

function suite(upstream: UpstreamTests): void {
  let cluster: Cluster;
  let node: JudgedNode | undefined;
  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
  });
  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
  });

  /** Starts a node of `side`, inspects it, and stops it. */
  const on = async <T>(side: Side, options: JudgedNodeOptions, look: (node: JudgedNode) => Promise<T>): Promise<T> => {
    node = await startJudgedNode(cluster, side, upstream, options);
    try {
      return await look(node);
    } finally {
      await node.stop();
      node = undefined;
    }
  };

  it("[node-agent 194] [node-agent 195] pods have the same limits, and nodes the same allocatable resources, as with the kubelet", async () => {
    const look = async ({ containerd }: JudgedNode): Promise<Seen> => {
      const room = await roomOf(cluster);
      for (const [name, spec] of Object.entries(PODS)) {
        await cluster.apply(podOf(name, { automountServiceAccountToken: false, ...spec }));
        await podReady(cluster, name);
      }
      const groups = await groupsBelow(containerd.cgroup, await namesOf(cluster));
      for (const name of Object.keys(PODS)) await cluster.kubectl("delete", "pod", name, "--wait=true");
      const left = await podGroups(containerd.cgroup);
      return { room, groups, left };
    };
    const [theirs, ours] = [await on("kubelet", KEPT_BACK, look), await on("ours", KEPT_BACK, look)];
    measured(`control groups compared: ${Object.keys(ours.groups).length}`);
    expect(ours).toEqual(theirs);
    // a group for each pod, its sandbox and its container; one pod has two containers
    expect(Object.keys(ours.groups)).toHaveLength(3 + Object.keys(PODS).length * 3 + 1);
    expect(ours.left).toEqual([]);
  });

  it("[node-agent 195] nodes have the same allocatable resources as with the kubelet without reservations", async () => {
    const look = (): Promise<object> => roomOf(cluster);
    const [theirs, ours] = [await on("kubelet", EVICTING, look), await on("ours", EVICTING, look)];
    expect(ours).toEqual(theirs);
  });
}

interface Seen {
  readonly room: NodeView["status"];
  readonly groups: Awaited<ReturnType<typeof groupsBelow>>;
  /** Groups of deleted pods that remain. */
  readonly left: readonly string[];
}

interface NodeView {
  readonly status: { readonly capacity: Readonly<Record<string, string>>; readonly allocatable: Readonly<Record<string, string>> };
}

async function roomOf(cluster: Cluster): Promise<NodeView["status"]> {
  const node = await eventually("the node says what it has", async () => {
    const said = await cluster.get<NodeView>("/api/v1/nodes/judged");
    return said?.status.capacity["ephemeral-storage"] === undefined ? undefined : said;
  });
  const { capacity, allocatable } = node.status;
  return { capacity, allocatable };
}

/** Returns names by pod UID and container id. */
async function namesOf(cluster: Cluster): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const name of Object.keys(PODS)) {
    const pod = await getPod(cluster, name);
    names.set(pod?.metadata.uid ?? "", name);
    for (const { name: container, containerID = "" } of pod?.status.containerStatuses ?? [])
      names.set(containerID.replace(/^.*\//u, ""), container);
  }
  return names;
}

/**
 * Returns for every cgroup of pods its limits by file, the hierarchies that contain it, and the OOM score adjustment of its processes:
 *
 *     kubepods/burstable/<pod>/<container> → { "cpu.shares": "51", …, hierarchies: "blkio cpu …", oom: "998" }
 */
async function groupsBelow(
  root: string,
  names: ReadonlyMap<string, string>,
): Promise<Readonly<Record<string, Readonly<Record<string, string>>>>> {
  const groups: Record<string, Record<string, string>> = {};
  for (const hierarchy of (await readdir(MOUNT)).toSorted()) {
    const base = join(MOUNT, hierarchy, root);
    for (const path of await foldersBelow(join(base, "kubepods"))) {
      const called = path.slice(base.length + 1).replaceAll(/(?:pod)?([0-9a-f-]{36,})/gu, (_all, id: string) => names.get(id) ?? "sandbox");
      const group = (groups[called] ??= {});
      group["hierarchies"] = `${group["hierarchies"] ?? ""} ${hierarchy}`.trim();
      for (const file of FILES) {
        const text = await readFile(join(path, file), "utf8").catch(() => undefined);
        if (text !== undefined) group[file] = text.trim();
      }
      const pid = (await readFile(join(path, "cgroup.procs"), "utf8")).split("\n")[0] ?? "";
      if (pid !== "") group["oom"] = (await readFile(`/proc/${pid}/oom_score_adj`, "utf8")).trim();
    }
  }
  return groups;
}

async function podGroups(root: string): Promise<readonly string[]> {
  const all = await Promise.all((await readdir(MOUNT)).map((hierarchy) => foldersBelow(join(MOUNT, hierarchy, root, "kubepods"))));
  return all.flat().filter((path) => /\/pod[^/]*$/u.test(path));
}

async function foldersBelow(path: string): Promise<readonly string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return [];
  const below = await Promise.all(entries.filter((entry) => entry.isDirectory()).map(({ name }) => foldersBelow(join(path, name))));
  return [path, ...below.flat()];
}
