/** Reads the properties of the machine for its Node object. */
import { readFile, readdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { arch, cpus, hostname, release } from "node:os";
import type { MachineFacts } from "../kubelet/node/node-object.ts";

/** Go's architecture names, by the names in Node.js. */
const GO_ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386", arm64: "arm64", arm: "arm", loong64: "loong64" };
/** Upstream's default of `--max-pods`. */
const PODS_MAX = 110;
/** File system type of cgroup v2 in `statfs`: CGROUP2_SUPER_MAGIC in linux/magic.h. */
const CGROUP2 = 0x63677270;
const HUGE_PAGES = "/sys/kernel/mm/hugepages";
/** Number of users in the machine's initial user namespace: all except the invalid 2³² − 1. */
const ALL_USERS = 2 ** 32 - 1;
const KIB_PER_MIB = 1024;
const KIB_PER_GIB = 1024 * 1024;

/**
 * Reads the properties of the machine; unreadable ones are empty, as in upstream. `ephemeralStorageBytes` is the size of the file system
 * that contains `rootDir`. With `singleProcessOomKill`, an OOM kill ends only a single process of a container.
 *
 * Source: google/cadvisor machine/info.go, utils/sysinfo; pkg/kubelet/kubelet_node_status.go; pkg/kubelet/kubelet_node_status_linux.go
 * runningInUserNS; kuberuntime/kuberuntime_container_linux.go isCgroup2UnifiedMode, GetHugepageLimitsFromResources;
 * stats/pidlimit/pidlimit_linux.go Stats.
 */
export async function readMachineFacts(
  rootDir: string,
  { singleProcessOomKill = false }: { readonly singleProcessOomKill?: boolean } = {},
): Promise<MachineFacts> {
  const [machineId, systemUuid, bootId, osRelease, meminfo, storage, cgroups, hugePages, cpusOnline, ...pidLimits] = await Promise.all([
    firstOf(["/etc/machine-id", "/var/lib/dbus/machine-id"]),
    firstOf(["/sys/class/dmi/id/product_uuid", "/proc/device-tree/vm,uuid", "/etc/machine-id"]),
    firstOf(["/proc/sys/kernel/random/boot_id"]),
    firstOf(["/etc/os-release", "/usr/lib/os-release"]),
    firstOf(["/proc/meminfo"]),
    statfs(rootDir),
    statfs("/sys/fs/cgroup").catch(() => undefined),
    hugePageBytes(HUGE_PAGES),
    firstOf(["/sys/devices/system/cpu/online"]),
    firstOf(["/proc/sys/kernel/pid_max"]),
    firstOf(["/proc/sys/kernel/threads-max"]),
  ]);
  const swapKib = Number(/^SwapTotal:\s+(\d+) kB$/mu.exec(meminfo)?.[1] ?? 0);
  const pidsMax = pidLimits.filter((limit) => /^\d+$/u.test(limit)).map(Number);
  return {
    hostname: hostname().toLowerCase(),
    os: "linux",
    architecture: GO_ARCHITECTURES[arch()] ?? arch(),
    kernelVersion: release(),
    osImage: /^PRETTY_NAME="?(.*?)"?$/mu.exec(osRelease)?.[1] ?? "Unknown",
    machineId,
    systemUuid,
    bootId,
    runningInUserNamespace: isInUserNamespace(await readFile("/proc/self/uid_map", "utf8").catch(() => undefined)),
    ...(swapKib > 0 && { swapBytes: swapKib * 1024 }),
    resources: {
      cpuMilli: cpus().length * 1000,
      memoryBytes: Number(/^MemTotal:\s+(\d+) kB$/mu.exec(meminfo)?.[1] ?? 0) * 1024,
      ephemeralStorageBytes: storage.blocks * storage.bsize,
      pods: PODS_MAX,
      hugePageSizes: Object.keys(hugePages),
      hugePageBytes: hugePages,
      ...(pidsMax.length > 0 && { pids: Math.min(...pidsMax) }),
      ...(cpusOnline !== "" && { cpus: cpusOnline }),
      ...(cgroups?.type === CGROUP2 && !singleProcessOomKill && { killsGroupOnOom: true }),
    },
  };
}

/**
 * Whether a process is in a user namespace other than the machine's initial one, which maps all users to themselves. A namespace that has
 * no map yet is not the initial one. @param uidMap `/proc/self/uid_map`; undefined if the kernel does not have this file
 * Source: github.com/moby/sys/userns userns_linux.go uidMapInUserNS
 */
export function isInUserNamespace(uidMap: string | undefined): boolean {
  const [line] = uidMap?.split("\n") ?? [];
  if (line === undefined) return false;
  if (line === "") return true;
  const [first, outside, count] = line.trim().split(/\s+/u).map(Number);
  const isReadable = [first, outside, count].every(Number.isInteger);
  return isReadable && (first !== 0 || outside !== 0 || count !== ALL_USERS);
}

/**
 * Returns the bytes reserved for huge pages when the agent started, by page size in cgroup notation, smallest first: `2MB`, `1GB`. Source:
 * google/cadvisor utils/sysinfo GetHugePagesInfo.
 */
export async function hugePageBytes(folder: string): Promise<Readonly<Record<string, number>>> {
  const bytes: Record<string, number> = {};
  for (const kib of pageSizesKib(await readdir(folder).catch(() => []))) {
    const count = await firstOf([join(folder, `hugepages-${kib}kB`, "nr_hugepages")]);
    bytes[pageSizeName(kib)] = Number(count) * kib * 1024;
  }
  return bytes;
}

function pageSizesKib(directories: readonly string[]): readonly number[] {
  return directories
    .flatMap((name) => /^hugepages-(\d+)kB$/u.exec(name)?.[1] ?? [])
    .map(Number)
    .toSorted((a, b) => a - b);
}

function pageSizeName(kib: number): string {
  return kib >= KIB_PER_GIB ? `${kib / KIB_PER_GIB}GB` : kib >= KIB_PER_MIB ? `${kib / KIB_PER_MIB}MB` : `${kib}KB`;
}

/** Returns the content of the first file that is not empty. Which files exist depends on the machine and on permissions. */
async function firstOf(paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.trim() !== "") return text.trim();
  }
  return "";
}
