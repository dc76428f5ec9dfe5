/** Cgroups in memory, on this machine's cgroupfs below a root group of the test, and on folders that simulate versions 1 and 2. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { createMemoryCgroups } from "../../shared/node-agent/memory/cgroups.ts";
import { createCgroups } from "../../shared/node-agent/system/cgroups.ts";
import { cgroupFiles } from "../../shared/node-agent/kubelet/container-manager/cgroup-files.ts";
import type { ResourceConfig } from "../../shared/node-agent/kubelet/container-manager/resource-config.ts";
import { cgroupsConformance } from "./cgroups.ts";
import type { CgroupsUnderTest } from "./cgroups.ts";
import { MOUNT, openKernelCgroups, version } from "./kernel-cgroups.ts";

const POD = "pod0a1b2c3d-0000-4000-8000-000000000003";

cgroupsConformance("memory", async () => {
  const cgroups = createMemoryCgroups({ roots: ["/own/kubepods"] });
  const read: CgroupsUnderTest["read"] = async (path, _controller, file) => cgroups.files(path)?.[file];
  return { cgroups, root: "/own/kubepods", read, enter: (path) => cgroups.enter(path), close: async () => undefined };
});

if (missingHere() === undefined) {
  cgroupsConformance(`this machine's, version ${version}`, () => openKernelCgroups());
  if (version === 2) unifiedLimits();
} else it.skip(`Cgroups on this machine: ${missingHere()}`);

/** Returns why this machine has no writable cgroupfs. In version 2, only the root group may contain both processes and child groups. */
function missingHere(): string | undefined {
  if (process.getuid?.() !== 0) return "root is needed";
  if (version === 2 && readFileSync("/proc/self/cgroup", "utf8").trim() !== "0::/")
    return "of version 2, and this process is not in its root";
  if (version === 1 && !existsSync(join(MOUNT, "pids"))) return "there are none";
  try {
    accessSync(version === 2 ? join(MOUNT, "cgroup.subtree_control") : join(MOUNT, "pids"), constants.W_OK);
    return undefined;
  } catch {
    return "cgroupfs cannot be written";
  }
}

/** The limits that the agent writes, read back from the kernel: weight and period follow upstream's formulas (182). */
function unifiedLimits(): void {
  it("[node-agent 280] the kernel applies pod limits, changes to them, and their removal", async () => {
    const { cgroups, root, read, close } = await openKernelCgroups();
    const seen = async (config: ResourceConfig): Promise<readonly (string | undefined)[]> => {
      await cgroups.create(`${root}/${POD}`);
      await cgroups.write(`${root}/${POD}`, cgroupFiles(config, cgroups, []));
      return await Promise.all(["cpu.weight", "cpu.max", "memory.max", "pids.max"].map((file) => read(`${root}/${POD}`, "", file)));
    };
    try {
      expect(await seen({})).toEqual(["100", "max 100000", "max", "max"]);
      expect(await seen({ cpuShares: 2 })).toEqual(["1", "max 100000", "max", "max"]);
      const bounded = { cpuShares: 102, cpuQuota: 20_000, cpuPeriod: 100_000, memoryBytes: 67_108_864, pidsMax: 333 };
      expect(await seen(bounded)).toEqual(["4", "20000 100000", "67108864", "333"]);
      expect(await seen({ cpuShares: 1024, cpuQuota: 50_000 })).toEqual(["39", "50000 100000", "67108864", "333"]);
      expect(await seen({ cpuShares: 262_144, cpuQuota: -1, cpuPeriod: 100_000, memoryBytes: -1, pidsMax: -1 })).toEqual([
        ...["10000", "max 100000", "max", "max"],
      ]);
      expect(await seen({ pidsMax: 0 })).toEqual(["10000", "max 100000", "max", "1"]);
    } finally {
      await close();
    }
  });
}

describe("cgroupfs", () => {
  let mount = "";
  beforeEach(async () => {
    mount = await mkdtemp(join(tmpdir(), "deltaloop-cgroups-"));
  });
  afterEach(() => rm(mount, { recursive: true }));
  it.each([
    {
      version: 1,
      at: "memory/own",
      files: {
        "memory.usage_in_bytes": "1000",
        "memory.limit_in_bytes": "5000",
        "memory.stat": "inactive_file 1\ntotal_inactive_file 300",
      },
      want: { workingSetBytes: 700, limitBytes: 5000 },
    },
    {
      version: 1,
      at: "memory/own",
      files: {
        "memory.usage_in_bytes": "100",
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.stat": "inactive_file 1\ntotal_inactive_file 300",
      },
      want: { workingSetBytes: 0 },
    },
    {
      version: 2,
      at: "own",
      files: { "memory.current": "1000", "memory.max": "5000", "memory.stat": "file 1\ninactive_file 300" },
      want: { workingSetBytes: 700, limitBytes: 5000 },
    },
    {
      version: 2,
      at: "own",
      files: { "memory.current": "1000", "memory.max": "max", "memory.stat": "file 1\ninactive_file 300" },
      want: { workingSetBytes: 700 },
    },
  ])("[node-agent 250] cgroup v$version: reports the working set and the limit from $files", async ({ version, at, files, want }) => {
    await mkdir(join(mount, at), { recursive: true });
    if (version === 2) await writeFile(join(mount, "cgroup.controllers"), "cpu memory pids");
    for (const [name, text] of Object.entries(files)) await writeFile(join(mount, at, name), `${text}\n`);
    const cgroups = createCgroups({ roots: ["/own"], mount });
    expect(await cgroups.memory("/own")).toEqual(want);
  });

  const folders = async (): Promise<readonly string[]> => {
    const entries = await readdir(mount, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(mount.length + 1))
      .toSorted();
  };

  it("CG2 cgroup v1: creates the cgroup once in every hierarchy, with its parent's CPUs and memory nodes", async () => {
    for (const name of ["cpu,cpuacct", "cpuset", "memory", "systemd", "unified"]) await mkdir(join(mount, name));
    await symlink("cpu,cpuacct", join(mount, "cpu"));
    await writeFile(join(mount, "cpuset/cpuset.cpus"), "0-3\n");
    await writeFile(join(mount, "cpuset/cpuset.mems"), "0\n");
    const cgroups = createCgroups({ roots: ["/kubepods"], mount });
    expect([cgroups.version, cgroups.controllers.toSorted()]).toEqual([1, ["cpu", "cpuacct", "cpuset", "memory", "systemd", "unified"]]);
    await cgroups.create("/kubepods/besteffort");
    expect((await folders()).filter((path) => path.endsWith("besteffort"))).toEqual(
      ["cpu,cpuacct", "cpuset", "memory", "systemd", "unified"].map((name) => `${name}/kubepods/besteffort`),
    );
    const inherited = ["cpuset.cpus", "cpuset.mems"].map((file) => readFile(join(mount, "cpuset/kubepods/besteffort", file), "utf8"));
    expect(await Promise.all(inherited)).toEqual(["0-3", "0"]);
    await cgroups.write("/kubepods", [{ controller: "cpu", name: "cpu.shares", value: "2" }]);
    expect(await readFile(join(mount, "cpu,cpuacct/kubepods/cpu.shares"), "utf8")).toBe("2");
  });

  it("CG2 cgroup v1: reports a cgroup as missing if a required hierarchy lacks it", async () => {
    for (const path of ["cpu/kubepods", "memory", "freezer"]) await mkdir(join(mount, path), { recursive: true });
    const cgroups = createCgroups({ roots: ["/kubepods"], mount });
    expect(await cgroups.exists("/kubepods")).toBe(false);
    await mkdir(join(mount, "memory/kubepods"));
    expect(await cgroups.exists("/kubepods")).toBe(true);
    await mkdir(join(mount, "freezer/kubepods/pod1"), { recursive: true });
    expect(await cgroups.children("/kubepods")).toEqual(["pod1"]);
  });

  it("[node-agent 506] finds a cgroup in only one hierarchy if that hierarchy has a different number of cgroups", async () => {
    for (const path of ["cpu", "freezer", "memory"]) await mkdir(join(mount, path, "kubepods/pod1"), { recursive: true });
    const cgroups = createCgroups({ roots: ["/kubepods"], mount });
    expect(await cgroups.children("/kubepods")).toEqual(["pod1"]);
    await mkdir(join(mount, "memory/kubepods/pod2"));
    expect(await cgroups.children("/kubepods")).toEqual(["pod1", "pod2"]);
    await rm(join(mount, "memory/kubepods/pod1"), { recursive: true });
    expect(await cgroups.children("/kubepods")).toEqual(["pod1"]);
    await cgroups.remove("/kubepods/pod1");
    expect(await cgroups.children("/kubepods")).toEqual(["pod2"]);
    await cgroups.remove("/kubepods/pod2");
    expect(await cgroups.children("/kubepods")).toEqual([]);
  });

  it("CG2 cgroup v2: enables the controllers in every parent, and reports a cgroup that lacks controllers as missing", async () => {
    await writeFile(join(mount, "cgroup.controllers"), "cpuset cpu io memory pids rdma\n");
    const cgroups = createCgroups({ roots: ["/kubepods.slice"], mount });
    expect(cgroups.version).toBe(2);
    await cgroups.create("/kubepods.slice/kubepods-burstable.slice");
    // the kernel applies each write; a file in the simulation holds the last one
    expect(await readFile(join(mount, "kubepods.slice/cgroup.subtree_control"), "utf8")).toBe("+rdma");
    expect(await cgroups.exists("/kubepods.slice")).toBe(false);
    await writeFile(join(mount, "kubepods.slice/cgroup.controllers"), "cpuset cpu memory pids\n");
    expect(await cgroups.exists("/kubepods.slice")).toBe(true);
    await writeFile(join(mount, "kubepods.slice/cgroup.controllers"), "cpuset cpu memory\n");
    expect(await cgroups.exists("/kubepods.slice")).toBe(false);
    await cgroups.write("/kubepods.slice", [{ controller: "cpu", name: "cpu.weight", value: "79" }]);
    expect(await readFile(join(mount, "kubepods.slice/cpu.weight"), "utf8")).toBe("79");
  });

  it("CG5 does not kill a process of another PID namespace, whose pid is shown as 0", async () => {
    await writeFile(join(mount, "cgroup.controllers"), "pids\n");
    await mkdir(join(mount, "kubepods"));
    await writeFile(join(mount, "kubepods/cgroup.procs"), "0\n0\n");
    const cgroups = createCgroups({ roots: ["/kubepods"], mount });
    await expect(cgroups.kill("/kubepods")).resolves.toBeUndefined(); // otherwise this process and all others in the group would be killed
  });
});
