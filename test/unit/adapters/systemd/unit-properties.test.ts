// Unit properties of a slice, compared with the kernel's cgroup files.
import { expect, it } from "vitest";
import { unitProperties } from "../../../../shared/node-agent/systemd/unit-properties.ts";
import { cgroupFiles } from "../../../../shared/node-agent/kubelet/container-manager/cgroup-files.ts";
import type { ResourceConfig } from "../../../../shared/node-agent/kubelet/container-manager/resource-config.ts";

const CONTROLLERS = ["cpu", "cpuset", "memory", "pids", "hugetlb"];
const INFINITY = 2n ** 64n - 1n;

function told(config: ResourceConfig, version: 1 | 2): ReturnType<typeof unitProperties> {
  return unitProperties(cgroupFiles(config, { version, controllers: CONTROLLERS }, ["2MB"]));
}

const ALL: ResourceConfig = { cpus: "0-2,9", memoryBytes: 67_108_864, cpuShares: 1024, cpuQuota: 50_000, cpuPeriod: 100_000, pidsMax: 17 };

it("[node-agent 283] cgroup v2: sets properties for weight, memory, tasks, CPU time and CPUs, and writes huge page limits only to files", () => {
  const { properties, files } = told(ALL, 2);
  expect(Object.fromEntries(properties)).toEqual({
    CPUWeight: ["t", 39n],
    MemoryMax: ["t", 67_108_864n],
    TasksMax: ["t", 17n],
    CPUQuotaPeriodUSec: ["t", 100_000n],
    CPUQuotaPerSecUSec: ["t", 500_000n],
    AllowedCPUs: ["ay", [0b111, 0b10]],
  });
  expect(files.map(({ name }) => name)).toContain("hugetlb.2MB.max");
});

it("[node-agent 283] cgroup v1: sets shares and MemoryLimit", () => {
  const { properties } = told(ALL, 1);
  expect(Object.fromEntries(properties)).toMatchObject({ CPUShares: ["t", 1024n], MemoryLimit: ["t", 67_108_864n], TasksMax: ["t", 17n] });
  expect(Object.fromEntries(properties)).toMatchObject({ CPUQuotaPeriodUSec: ["t", 100_000n], CPUQuotaPerSecUSec: ["t", 500_000n] });
});

it.each([
  { quota: 12_300, perSecond: 130_000n, file: 13_000 },
  { quota: 1_000, perSecond: 10_000n, file: 1_000 },
  { quota: 1_001, perSecond: 20_000n, file: 2_000 },
  { quota: 250_000, perSecond: 2_500_000n, file: 250_000 },
])(
  "[node-agent 283] rounds CPU time of $quota µs in each 100 ms up to a percent, for both cgroup versions",
  ({ quota, perSecond, file }) => {
    const config = { cpuQuota: quota, cpuPeriod: 100_000 };
    for (const version of [1, 2] as const)
      expect(Object.fromEntries(told(config, version).properties)["CPUQuotaPerSecUSec"]).toEqual(["t", perSecond]);
    expect(told(config, 2).files.find(({ name }) => name === "cpu.max")?.value).toBe(`${file} 100000`);
    expect(told(config, 1).files.find(({ name }) => name === "cpu.cfs_quota_us")?.value).toBe(`${file}`);
  },
);

it("[node-agent 283] sends an unlimited value to systemd as infinity, and omits absent values", () => {
  const none = { memoryBytes: -1, cpuQuota: -1, cpuPeriod: 100_000, pidsMax: -1 };
  expect(Object.fromEntries(told(none, 2).properties)).toEqual({
    MemoryMax: ["t", INFINITY],
    TasksMax: ["t", INFINITY],
    CPUQuotaPeriodUSec: ["t", 100_000n],
    CPUQuotaPerSecUSec: ["t", INFINITY],
  });
  expect(Object.fromEntries(told(none, 1).properties)).toMatchObject({ MemoryLimit: ["t", INFINITY], CPUQuotaPerSecUSec: ["t", INFINITY] });
  expect(told({ pidsMax: 0 }, 2).properties).toEqual([["TasksMax", ["t", 1n]]]);
});
