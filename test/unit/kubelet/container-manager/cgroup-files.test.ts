// Would catch: a limit in the wrong file or in none, a version 2 weight from a formula other than upstream's, and huge pages without a
// limit.
import { describe, expect, it } from "vitest";
import { cgroupFiles, cpuWeight } from "../../../../shared/node-agent/kubelet/container-manager/cgroup-files.ts";
import type { ResourceConfig } from "../../../../shared/node-agent/kubelet/container-manager/resource-config.ts";

const CONTROLLERS = ["cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb"];

/** Returns `name=value` per file, with a question mark after files that may be absent. */
function written(
  config: ResourceConfig,
  version: 1 | 2,
  { controllers = CONTROLLERS, sizes = [] as readonly string[] } = {},
): readonly string[] {
  return cgroupFiles(config, { version, controllers }, sizes).map(({ name, value, optional }) => `${name}=${value}${optional ? "?" : ""}`);
}

const table: readonly { name: string; config: ResourceConfig; one: readonly string[]; two: readonly string[] }[] = [
  { name: "no limits", config: {}, one: [], two: [] },
  {
    name: "all limits",
    config: { cpus: "0-3", memoryBytes: 67_108_864, cpuShares: 512, cpuPeriod: 100_000, cpuQuota: 50_000, pidsMax: 100 },
    one: [
      "cpuset.cpus=0-3",
      "memory.limit_in_bytes=67108864",
      "cpu.shares=512",
      "cpu.cfs_period_us=100000",
      "cpu.cfs_quota_us=50000",
      "pids.max=100",
    ],
    two: ["pids.max=100", "memory.max=67108864", "cpu.weight=20", "cpu.max=50000 100000", "cpuset.cpus=0-3"],
  },
  {
    name: "an unlimited quota",
    config: { cpuQuota: -1, cpuPeriod: 50_000 },
    one: ["cpu.cfs_period_us=50000", "cpu.cfs_quota_us=-1"],
    two: ["cpu.max=max 50000"],
  },
  { name: "a quota without a period", config: { cpuQuota: 1000 }, one: ["cpu.cfs_quota_us=1000"], two: ["cpu.max=1000 100000"] },
  { name: "limits of 0 are not written", config: { memoryBytes: 0, cpuShares: 0, cpuQuota: 0, cpuPeriod: 0 }, one: [], two: [] },
  { name: "a limit of 0 processes becomes 1", config: { pidsMax: 0 }, one: ["pids.max=1"], two: ["pids.max=1"] },
  { name: "an unlimited number of processes", config: { pidsMax: -1 }, one: ["pids.max=max"], two: ["pids.max=max"] },
];

describe("cgroupFiles", () => {
  it.each(table)("[node-agent 181] files of cgroup v1: $name", ({ config, one }) => expect(written(config, 1)).toEqual(one));
  it.each(table)("[node-agent 182] files of cgroup v2: $name", ({ config, two }) => expect(written(config, 2)).toEqual(two));

  const HUGE = { hugePageBytes: { "2MB": 1n << 62n } };
  const sizes = ["2MB", "1GB"];
  it("[node-agent 197] limits huge page sizes without a request to 0", () => {
    expect(written(HUGE, 1, { sizes })).toEqual([
      "hugetlb.2MB.limit_in_bytes=4611686018427387904",
      "hugetlb.2MB.rsvd.limit_in_bytes=4611686018427387904?",
      "hugetlb.1GB.limit_in_bytes=0",
      "hugetlb.1GB.rsvd.limit_in_bytes=0?",
    ]);
    expect(written(HUGE, 2, { sizes: ["2MB"] })).toEqual([
      "hugetlb.2MB.max=4611686018427387904",
      "hugetlb.2MB.rsvd.max=4611686018427387904?",
    ]);
  });

  it("[node-agent 181] omits files of cgroup controllers that are not available", () => {
    const config = { ...HUGE, cpuShares: 2, pidsMax: 5, memoryBytes: 1 };
    expect(written(config, 1, { sizes, controllers: ["cpu", "memory"] })).toEqual(["memory.limit_in_bytes=1", "cpu.shares=2"]);
  });
});

describe("cpuWeight", () => {
  it.each([
    [2, 1],
    [28, 1],
    [29, 2],
    [102, 4],
    [1024, 39],
    [2048, 79],
    [262_143, 9999],
    [262_144, 10_000],
    [1_000_000_000, 10_000],
  ])("[node-agent 182] %d shares have weight %d", (shares, want) => expect(cpuWeight(shares)).toBe(want));
});
