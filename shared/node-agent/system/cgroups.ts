/**
 * Implements Cgroups on cgroupfs. A cgroup is a directory below the cgroup mount; in version 1, it has one directory per hierarchy.
 *
 * Reads are synchronous, because the kernel answers from memory and a libuv thread costs more. Changes are asynchronous, because
 * they may wait for kernel locks or memory reclaim.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join, normalize } from "node:path";
import type { CgroupMemory, Cgroups } from "../ports/cgroups.ts";

const MOUNT = "/sys/fs/cgroup";
/** Controllers that every pod's cgroup must have in version 1 (CG2). Source: pkg/kubelet/cm/cgroup_v1_manager_linux.go Validate. */
const NEEDED = ["cpu", "cpuacct", "cpuset", "memory", "systemd", "pids", "hugetlb"];
/** Controllers that pods use in cgroup v2. Source: cgroup_v2_manager_linux.go getSupportedUnifiedControllers. */
const NEEDED_UNIFIED = ["cpu", "cpuset", "memory", "hugetlb", "pids"];
/**
 * Number of attempts to remove a group, because a killed process keeps it busy for a moment. Source: github.com/opencontainers/cgroups
 * utils.go rmdir.
 */
const RMDIR_TRIES = 10;
const LINKS_OF_EMPTY = 2;
/**
 * Number of attempts to kill all processes, because they may fork while they are listed. Source: pod_container_manager_linux.go
 * tryKillingCgroupProcesses.
 */
const KILL_TRIES = 5;

/** Files of the memory controller. Source: github.com/google/cadvisor container/libcontainer/handler.go setMemoryStats. */
const MEMORY_FILES = { usage: "memory.usage_in_bytes", limit: "memory.limit_in_bytes", inactive: "total_inactive_file" } as const;
const MEMORY_FILES_UNIFIED = { usage: "memory.current", limit: "memory.max", inactive: "inactive_file" } as const;
/**
 * A limit above this value means unlimited, because the kernel rounds its maximum. Source: pkg/kubelet/stats/helper.go isMemoryUnlimited.
 */
const LIMIT_MAX = 2 ** 62;

export interface CgroupOptions {
  /** Paths of the permitted groups, below the mount; see CG1. */
  readonly roots: readonly string[];
  /** Default: `/sys/fs/cgroup`. */
  readonly mount?: string;
}

/** A mounted hierarchy; cgroup v2 has one hierarchy for all controllers. */
interface Hierarchy {
  readonly folder: string;
  readonly controllers: readonly string[];
}

export function createCgroups({ roots, mount = MOUNT }: CgroupOptions): Cgroups {
  const unified = words(join(mount, "cgroup.controllers"));
  const hierarchies = unified === undefined ? hierarchiesOf(mount) : [{ folder: mount, controllers: unified }];
  const controllers = hierarchies.flatMap((one) => one.controllers);
  const places = (path: string): readonly string[] => {
    if (normalize(path) !== path || !roots.some((root) => path === root || path.startsWith(`${root}/`)))
      throw new Error(`${path} is outside the cgroup roots of this agent`);
    return hierarchies.map(({ folder }) => join(folder, path));
  };
  return {
    version: unified === undefined ? 1 : 2,
    controllers,
    async exists(path) {
      const folders = places(path);
      if (unified === undefined) {
        const needed = folders.filter((_folder, index) => hierarchies[index]?.controllers.some((one) => NEEDED.includes(one)));
        return needed.every(exists);
      }
      const enabled = words(join(mount, path, "cgroup.controllers"));
      return enabled !== undefined && unified.every((one) => !NEEDED_UNIFIED.includes(one) || enabled.includes(one));
    },
    async create(path) {
      places(path);
      for (const hierarchy of hierarchies) await makeGroup(hierarchy, path, unified !== undefined);
    },
    async write(path, files) {
      places(path);
      for (const { controller, name, value, optional } of files) {
        const hierarchy = hierarchies.find((one) => one.controllers.includes(controller));
        if (hierarchy === undefined) throw new Error(`failed to set ${name} of ${path}: no controller ${controller}`);
        await writeFile(join(hierarchy.folder, path, name), value).catch((error: unknown) => {
          if (optional !== true || !isMissingFile(error)) throw new Error(`failed to set ${name} of ${path} to ${value}`, { cause: error });
        });
      }
    },
    async children(path) {
      const folders = places(path);
      const links = folders.map(linksOf);
      // Groups are created in every hierarchy, so only one of several hierarchies with the same number of child groups is read.
      const differing = folders.filter((_folder, index) => links.indexOf(links[index] ?? LINKS_OF_EMPTY) === index);
      return [...new Set(differing.flatMap(subfolders))];
    },
    async processes(path) {
      places(path);
      const found = hierarchies.find(({ controllers }) => controllers.includes("pids"));
      const [count] = (found && words(join(found.folder, path, "pids.current"))) ?? [];
      return count === undefined ? undefined : Number(count);
    },
    async memory(path) {
      places(path);
      const found = hierarchies.find((one) => one.controllers.includes("memory"));
      return found && (await memoryOf(join(found.folder, path), unified === undefined ? MEMORY_FILES : MEMORY_FILES_UNIFIED));
    },
    async kill(path) {
      const folders = places(path);
      for (let attempt = 0; attempt < KILL_TRIES; attempt++) {
        const pids = new Set(folders.flatMap(processesIn));
        if (pids.size === 0) return;
        for (const pid of pids) killProcess(pid);
      }
    },
    async remove(path) {
      const removed = await Promise.allSettled(places(path).map(removeTree));
      for (const one of removed) if (one.status === "rejected") throw one.reason;
    },
  };
}

/** Reads `memory.stat` asynchronously, because the kernel first collects the counters of all CPUs. */
async function memoryOf(folder: string, files: typeof MEMORY_FILES | typeof MEMORY_FILES_UNIFIED): Promise<CgroupMemory | undefined> {
  const [usage, limit] = [files.usage, files.limit].map((file) => words(join(folder, file)));
  const stat = (await readFile(join(folder, "memory.stat"), "utf8").catch(() => undefined))?.split(/\s+/u);
  if (usage?.[0] === undefined || stat === undefined) return undefined;
  const limitBytes = limit?.[0] === undefined || limit[0] === "max" ? Infinity : Number(limit[0]);
  const inactive = Number(stat[stat.indexOf(files.inactive) + 1] ?? 0);
  return { workingSetBytes: Math.max(0, Number(usage[0]) - inactive), ...(limitBytes <= LIMIT_MAX && { limitBytes }) };
}

/** The name of a hierarchy's directory lists its controllers; symlinks with the name of one controller point to such directories. */
function hierarchiesOf(mount: string): readonly Hierarchy[] {
  return subfolders(mount).map((name) => ({ folder: join(mount, name), controllers: name.split(",") }));
}

async function makeGroup({ folder, controllers }: Hierarchy, path: string, isUnified: boolean): Promise<void> {
  let current = folder;
  for (const part of path.split("/").slice(1)) {
    if (isUnified) await delegate(current, controllers);
    const parent = current;
    current = join(parent, part);
    if (!exists(current))
      await mkdir(current).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // fs errors are ErrnoExceptions
      });
    if (!isUnified && controllers.includes("cpuset"))
      for (const file of ["cpuset.cpus", "cpuset.mems"]) await inherit(parent, current, file);
  }
}

/**
 * Enables controllers for child groups, one write per controller, because the kernel rejects a whole write if one controller fails. Source:
 * github.com/opencontainers/cgroups fs2/create.go.
 */
async function delegate(folder: string, controllers: readonly string[]): Promise<void> {
  const enabled = words(join(folder, "cgroup.subtree_control")) ?? [];
  for (const controller of controllers.filter((one) => !enabled.includes(one)))
    await writeFile(join(folder, "cgroup.subtree_control"), `+${controller}`).catch(() => undefined);
}

/**
 * In version 1, a new cpuset group has no CPUs and no memory nodes, and so accepts no process. Source: github.com/opencontainers/cgroups
 * fs/cpuset.go copyIfNeeded.
 */
async function inherit(parent: string, child: string, file: string): Promise<void> {
  if ((words(join(child, file)) ?? []).length > 0) return;
  const [given] = words(join(parent, file)) ?? [];
  if (given !== undefined) await writeFile(join(child, file), given);
}

/** Lists the pids of all processes in the group and below it. */
function processesIn(folder: string): readonly number[] {
  const own = words(join(folder, "cgroup.procs")) ?? [];
  const below = subfolders(folder).flatMap((name) => processesIn(join(folder, name)));
  // A process outside this PID namespace is listed as 0, which kill would interpret as the caller's process group.
  return [...own.map(Number).filter((pid) => pid > 0), ...below];
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // kill throws ErrnoExceptions
  }
}

/**
 * Removes child groups first. rmdir succeeds although the directories contain the kernel's files. Source:
 * github.com/opencontainers/cgroups utils.go RemovePath.
 */
async function removeTree(folder: string): Promise<void> {
  for (const name of subfolders(folder)) await removeTree(join(folder, name));
  for (let attempt = 1, delayMs = 1; ; attempt++, delayMs *= 2) {
    try {
      return await rmdir(folder);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException; // fs errors are ErrnoExceptions
      if (code === "ENOENT") return;
      if (code !== "EBUSY" || attempt === RMDIR_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
}

/** The link count of a kernel directory is 2 plus its subdirectories; a missing directory counts as empty. */
function linksOf(folder: string): number {
  return unlessUnreadable(() => statSync(folder).nlink) ?? LINKS_OF_EMPTY;
}

/** Most groups have no children. The link count shows this at a fifth of the cost of a directory listing. */
function subfolders(folder: string): readonly string[] {
  if (linksOf(folder) === LINKS_OF_EMPTY) return [];
  return (unlessUnreadable(() => readdirSync(folder, { withFileTypes: true })) ?? [])
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

function words(file: string): readonly string[] | undefined {
  return unlessUnreadable(() => readFileSync(file, "utf8"))
    ?.split(/\s+/u)
    .filter((word) => word !== "");
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Whether the file does not exist: creating a file in cgroupfs fails with one of these codes. */
function isMissingFile(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException; // fs errors are ErrnoExceptions
  return code === "ENOENT" || code === "EACCES" || code === "EPERM";
}
