/** Converts cgroup limits to cgroup v1 and v2 files (node-agent §7.6.1). */
import type { CgroupFile, Cgroups } from "../../ports/cgroups.ts";
import { QUOTA_PERIOD, SHARES_MIN, SHARES_MAX } from "./cpu-limits.ts";
import type { ResourceConfig } from "./resource-config.ts";

/** The maximum of `cpu.weight`. */
const WEIGHT_MAX = 10_000;

/**
 * Returns the files to write, in order. Omits controllers that the machine lacks, and limits huge page sizes that have no limit in the
 * config to 0.
 *
 *     version 1: memory.limit_in_bytes 67108864, cpu.shares 512, cpu.cfs_period_us 100000, cpu.cfs_quota_us 50000
 *     version 2: memory.max 67108864, cpu.weight 20, cpu.max "50000 100000"
 *
 * Source: pkg/kubelet/cm/cgroup_manager_linux.go toResources, maybeSetHugetlb; github.com/opencontainers/cgroups fs and fs2 Set.
 */
export function cgroupFiles(
  config: ResourceConfig,
  { version, controllers }: Pick<Cgroups, "version" | "controllers">,
  hugePageSizes: readonly string[],
): readonly CgroupFile[] {
  const files = [...(version === 1 ? filesOfVersion1(config) : filesOfVersion2(config)), ...hugePageFiles(config, version, hugePageSizes)];
  return files.filter(({ controller }) => controllers.includes(controller));
}

/** Zero means unset, as in libcontainer. */
function filesOfVersion1({
  cpus,
  memoryBytes = 0,
  cpuShares = 0,
  cpuPeriod = 0,
  cpuQuota = 0,
  pidsMax,
}: ResourceConfig): readonly CgroupFile[] {
  return [
    ...(cpus === undefined ? [] : [file("cpuset", "cpuset.cpus", cpus)]),
    ...(memoryBytes === 0 ? [] : [file("memory", "memory.limit_in_bytes", memoryBytes)]),
    ...(cpuShares === 0 ? [] : [file("cpu", "cpu.shares", cpuShares)]),
    ...(cpuPeriod === 0 ? [] : [file("cpu", "cpu.cfs_period_us", cpuPeriod)]),
    ...(cpuQuota === 0 ? [] : [file("cpu", "cpu.cfs_quota_us", cpuQuota)]),
    ...(pidsMax === undefined ? [] : [file("pids", "pids.max", pidsText(pidsMax))]),
  ];
}

function filesOfVersion2({
  cpus,
  memoryBytes = 0,
  cpuShares = 0,
  cpuPeriod = 0,
  cpuQuota = 0,
  pidsMax,
}: ResourceConfig): readonly CgroupFile[] {
  const hasQuota = cpuPeriod !== 0 || cpuQuota !== 0;
  return [
    ...(pidsMax === undefined ? [] : [file("pids", "pids.max", pidsText(pidsMax))]),
    ...(memoryBytes === 0 ? [] : [file("memory", "memory.max", memoryBytes < 0 ? "max" : memoryBytes)]),
    ...(cpuShares === 0 ? [] : [file("cpu", "cpu.weight", cpuWeight(cpuShares))]),
    ...(hasQuota ? [file("cpu", "cpu.max", `${cpuQuota > 0 ? cpuQuota : "max"} ${cpuPeriod || QUOTA_PERIOD}`)] : []),
    ...(cpus === undefined ? [] : [file("cpuset", "cpuset.cpus", cpus)]),
  ];
}

/**
 * Maps cpu.shares linearly to cpu.weight. runc 1.3.2 and later use another formula for containers (1024 → 100); pod cgroups keep this one.
 *
 *     2 → 1        1024 → 39        262144 → 10000
 *
 * Source: pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight.
 */
export function cpuWeight(shares: number): number {
  if (shares >= SHARES_MAX) return WEIGHT_MAX;
  return 1 + Math.trunc(((shares - SHARES_MIN) * (WEIGHT_MAX - 1)) / (SHARES_MAX - SHARES_MIN));
}

/** Converts 0 to 1, as systemd does. */
function pidsText(pidsMax: number): string {
  return pidsMax < 0 ? "max" : String(Math.max(1, pidsMax));
}

/** The `rsvd` files are optional, because older kernels lack them. */
function hugePageFiles({ hugePageBytes = {} }: ResourceConfig, version: 1 | 2, sizes: readonly string[]): readonly CgroupFile[] {
  const suffix = version === 1 ? "limit_in_bytes" : "max";
  return sizes.flatMap((size): readonly CgroupFile[] => {
    const limit = String(hugePageBytes[size] ?? 0n);
    return [
      file("hugetlb", `hugetlb.${size}.${suffix}`, limit),
      { ...file("hugetlb", `hugetlb.${size}.rsvd.${suffix}`, limit), optional: true },
    ];
  });
}

function file(controller: string, name: string, value: string | number): CgroupFile {
  return { controller, name, value: String(value) };
}
