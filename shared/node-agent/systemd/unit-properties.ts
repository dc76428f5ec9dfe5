/** Converts the limits of a group to systemd properties. systemd writes the kernel's files, and may rewrite them at any time. */
import type { CgroupFile } from "../ports/cgroups.ts";
import type { DBusValue } from "./dbus-message.ts";

/** A name, and a value with its type: `["TasksMax", ["t", 333n]]`. */
export type UnitProperty = readonly [name: string, value: readonly [signature: string, value: DBusValue]];

const INFINITY = 2n ** 64n - 1n;
const SECOND_US = 1_000_000;
/** Unit to which systemd rounds CPU time: one percent of a second. */
const PERCENT_US = SECOND_US / 100;
/** The kernel's default period. */
const PERIOD_US = 100_000;

/** Property names by file name. Files of cgroup v1 and v2 never occur together. */
const AMOUNTS: Readonly<Record<string, string>> = {
  "memory.max": "MemoryMax",
  "memory.limit_in_bytes": "MemoryLimit",
  "pids.max": "TasksMax",
  "cpu.weight": "CPUWeight",
  "cpu.shares": "CPUShares",
};

/**
 * Converts cgroup files to systemd properties. Rounds the CPU quotas in the files as systemd does, so that the agent and systemd write
 * the same value. Files that have no systemd property, such as hugetlb limits, are written to cgroupfs only.
 *
 *     memory.max 67108864, cpu.max "12345 100000" → MemoryMax 67108864, CPUQuotaPeriodUSec 100000, CPUQuotaPerSecUSec 130000, cpu.max "13000 100000"
 *
 * Source: github.com/opencontainers/cgroups systemd/v1.go genV1ResourcesProperties, v2.go genV2ResourcesProperties, common.go
 * addCPUQuota, addCpuset.
 */
export function unitProperties(files: readonly CgroupFile[]): {
  readonly properties: readonly UnitProperty[];
  readonly files: readonly CgroupFile[];
} {
  const properties = files.flatMap(({ name, value }): readonly UnitProperty[] => {
    const amount = AMOUNTS[name];
    if (amount !== undefined) return [[amount, ["t", value === "max" || Number(value) < 0 ? INFINITY : BigInt(value)]]];
    return name === "cpuset.cpus" ? [["AllowedCPUs", ["ay", bytesOfCpus(value)]]] : [];
  });
  const time = cpuTime(files);
  if (time === undefined) return { properties, files };
  const { perSecondUs, periodUs } = time;
  const quota = perSecondUs === undefined ? undefined : Math.trunc((perSecondUs * periodUs) / SECOND_US);
  return {
    properties: [
      ...properties,
      ["CPUQuotaPeriodUSec", ["t", BigInt(periodUs)]],
      ["CPUQuotaPerSecUSec", ["t", perSecondUs === undefined ? INFINITY : BigInt(perSecondUs)]],
    ],
    files: files.map((file) => {
      if (quota === undefined) return file;
      if (file.name === "cpu.max") return { ...file, value: `${quota} ${periodUs}` };
      return file.name === "cpu.cfs_quota_us" ? { ...file, value: String(quota) } : file;
    }),
  };
}

/**
 * Returns the CPU time per second, rounded up to a percent; unlimited if `perSecondUs` is absent. Returns undefined if there are no CPU
 * files.
 */
function cpuTime(files: readonly CgroupFile[]): { readonly perSecondUs?: number; readonly periodUs: number } | undefined {
  const valueOf = (name: string): string | undefined => files.find((file) => file.name === name)?.value;
  const [maxQuota, maxPeriod] = valueOf("cpu.max")?.split(" ") ?? [];
  const [quota, period] = [maxQuota ?? valueOf("cpu.cfs_quota_us"), maxPeriod ?? valueOf("cpu.cfs_period_us")];
  if (quota === undefined && period === undefined) return undefined;
  const periodUs = Number(period ?? PERIOD_US);
  const isBounded = quota !== undefined && quota !== "max" && Number(quota) > 0;
  if (!isBounded) return { periodUs };
  const perSecondUs = Math.trunc((Number(quota) * SECOND_US) / periodUs);
  return { perSecondUs: Math.ceil(perSecondUs / PERCENT_US) * PERCENT_US, periodUs };
}

/**
 * Returns a bit mask that starts at the lowest bit of the first byte: `0-2,9` → 0b111, 0b10. Source: github.com/opencontainers/cgroups
 * systemd/cpuset.go RangeToBits.
 */
function bytesOfCpus(list: string): readonly number[] {
  const bytes: number[] = [];
  for (const range of list.split(",").filter((part) => part !== "")) {
    const [first = 0, last = first] = range.split("-").map(Number);
    for (let cpu = first; cpu <= last; cpu++) {
      while (bytes.length <= cpu >> 3) bytes.push(0);
      bytes[cpu >> 3] = (bytes[cpu >> 3] ?? 0) | (1 << (cpu & 7));
    }
  }
  return bytes;
}
