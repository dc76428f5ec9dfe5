/** A group's limits as the files that the kernel has for them (node-agent §7.6.1): version 1 and 2 say the same differently. */
import type { CgroupFile, Cgroups } from "../../ports/cgroups.ts";
import { QUOTA_PERIOD, SHARES_MIN, SHARES_MAX } from "./cpu-limits.ts";
import type { ResourceConfig } from "./resource-config.ts";

/** The range of `cpu.shares`, from its least, and of `cpu.weight`. */
const WEIGHT_MAX = 10_000;

/**
 * What is to be written, in this order. What no controller of the machine looks after is left out, and every size of huge pages
 * that `config` does not name is limited to nothing.
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

/** Zeros say nothing: libcontainer takes them for absent. */
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
  const isQuotaSaid = cpuPeriod !== 0 || cpuQuota !== 0;
  return [
    ...(pidsMax === undefined ? [] : [file("pids", "pids.max", pidsText(pidsMax))]),
    ...(memoryBytes === 0 ? [] : [file("memory", "memory.max", memoryBytes < 0 ? "max" : memoryBytes)]),
    ...(cpuShares === 0 ? [] : [file("cpu", "cpu.weight", cpuWeight(cpuShares))]),
    ...(isQuotaSaid ? [file("cpu", "cpu.max", `${cpuQuota > 0 ? cpuQuota : "max"} ${cpuPeriod || QUOTA_PERIOD}`)] : []),
    ...(cpus === undefined ? [] : [file("cpuset", "cpuset.cpus", cpus)]),
  ];
}

/**
 * Version 1's shares as version 2's weight, from one range to the other in a straight line. Runtimes have another formula for their
 * containers since runc 1.3.2, by which 1024 is 100; groups of pods keep this one.
 *
 *     2 → 1        1024 → 39        262144 → 10000
 *
 * Source: pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight.
 */
export function cpuWeight(shares: number): number {
  if (shares >= SHARES_MAX) return WEIGHT_MAX;
  return 1 + Math.trunc(((shares - SHARES_MIN) * (WEIGHT_MAX - 1)) / (SHARES_MAX - SHARES_MIN));
}

/** None is one at least, as with systemd. */
function pidsText(pidsMax: number): string {
  return pidsMax < 0 ? "max" : String(Math.max(1, pidsMax));
}

/** What is reserved counts as used: older kernels have no file for it. */
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
