/** Would catch: a value under a name other than upstream's, a value of another pod or disk, and a total instead of a part. */
import { describe, expect, it } from "vitest";

import { machineStats } from "../../../../shared/node-agent/system/node-usage.ts";
import type { PodUsage } from "../../../../shared/node-agent/kubelet/eviction/usage.ts";
import { CpuRates } from "../../../../shared/node-agent/kubelet/stats/cpu-rates.ts";
import { summaryOf } from "../../../../shared/node-agent/kubelet/stats/summary.ts";
import type { Measured } from "../../../../shared/node-agent/kubelet/stats/summary.ts";

const T0 = Date.parse("2026-03-01T10:00:00.750Z");
const AT = "2026-03-01T10:00:00Z";
const labels = { "io.kubernetes.pod.uid": "u1", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop" };
const names = ["main", "side"] as const;
const space = { availableBytes: 60, capacityBytes: 100, freeBytes: 70, inodes: 50, inodesFree: 40 };
const shown = { time: AT, availableBytes: 60, capacityBytes: 100, inodes: 50, inodesFree: 40 };

const usage: PodUsage = {
  containers: [
    { name: "main", rootfs: { usedBytes: 11, inodesUsed: 1 }, logs: { usedBytes: 12, inodesUsed: 2 } },
    { name: "side", rootfs: { usedBytes: 13, inodesUsed: 3 } },
  ],
  processes: 7,
  volumes: new Map([["scratch", { usedBytes: 14, inodesUsed: 4 }]]),
  ephemeralBytes: 50,
};

const MEASURED: Measured = {
  nodeName: "n1",
  nowMs: T0,
  machine: {
    ...{ timestampMs: T0, bootMs: T0 - 3_600_000, cpuSeconds: 5, memoryBytes: 1000, workingSetBytes: 300, usageBytes: 500 },
    ...{ rssBytes: 200, pageFaults: 9, majorPageFaults: 1, processes: { count: 5, max: 50 } },
    network: ["ens3", "eth0"].map((name, n) => ({ name, rxBytes: n, rxErrors: 0, txBytes: 2, txErrors: 0 })),
  },
  sandboxes: ["s1", "empty", "foreign"].map((id) => ({
    ...{ id, metadata: { name: "web", namespace: "shop", uid: "u1", attempt: 0 }, state: "SANDBOX_READY" },
    ...{ createdAtMs: T0, labels: id === "foreign" ? {} : labels, annotations: {} },
  })),
  containers: [...names, "unmeasured"].map((name) => ({
    ...{ id: name, podSandboxId: "s1", metadata: { name, attempt: 0 }, image: "", imageRef: "", state: "CONTAINER_RUNNING" },
    ...{ createdAtMs: T0 + 1000, labels: { ...labels, "io.kubernetes.container.name": name }, annotations: {} },
  })),
  stats: names.map((name, n) => ({
    ...{ id: name, metadata: { name, attempt: 0 }, labels },
    cpu: { timestampMs: T0, usageCoreNanoSeconds: 100 * (n + 1) },
    memory: { timestampMs: T0, workingSetBytes: 10 * (n + 1), ...(n === 0 && { usageBytes: 15 }) },
  })),
  nanoCores: new Map([
    ["", 9],
    ["main", 3],
    ["side", 4],
  ]),
};
const WITH_DISK: Measured = {
  ...MEASURED,
  disk: {
    usages: new Map([["u1", usage]]),
    nodeFs: { ...space, device: 1 },
    imageFs: {
      usage: { timestampMs: T0, mountpoint: "/images", usedBytes: 33, inodesUsed: 3 },
      space: { ...space, capacityBytes: 200, device: 2 },
    },
  },
};
const onImages = { ...shown, capacityBytes: 200 };

describe("the stats summary", () => {
  it("[node-agent 309] the stats summary contains every measurement", () => {
    const { node, pods } = summaryOf(WITH_DISK);
    const [, eth0] = MEASURED.machine.network;
    expect(node).toEqual({
      nodeName: "n1",
      startTime: "2026-03-01T09:00:00Z",
      cpu: { time: AT, usageNanoCores: 9, usageCoreNanoSeconds: 5e9 },
      memory: {
        ...{ time: AT, availableBytes: 700, usageBytes: 500, workingSetBytes: 300 },
        ...{ rssBytes: 200, pageFaults: 9, majorPageFaults: 1 },
      },
      network: { time: AT, ...eth0, interfaces: MEASURED.machine.network },
      fs: { ...shown, usedBytes: 30, inodesUsed: 10 },
      runtime: { imageFs: { ...onImages, usedBytes: 33, inodesUsed: 3 }, containerFs: { ...onImages, usedBytes: 33, inodesUsed: 3 } },
      rlimit: { time: AT, maxpid: 50, curproc: 5 },
    });
    expect(pods).toEqual([
      {
        podRef: { name: "web", namespace: "shop", uid: "u1" },
        startTime: AT,
        containers: [
          {
            ...{ name: "main", startTime: "2026-03-01T10:00:01Z" },
            cpu: { time: AT, usageNanoCores: 3, usageCoreNanoSeconds: 100 },
            memory: { time: AT, usageBytes: 15, workingSetBytes: 10 },
            rootfs: { ...onImages, usedBytes: 11, inodesUsed: 1 },
            logs: { ...shown, usedBytes: 12, inodesUsed: 2 },
          },
          {
            ...{ name: "side", startTime: "2026-03-01T10:00:01Z" },
            cpu: { time: AT, usageNanoCores: 4, usageCoreNanoSeconds: 200 },
            memory: { time: AT, workingSetBytes: 20 },
            rootfs: { ...onImages, usedBytes: 13, inodesUsed: 3 },
          },
        ],
        cpu: { time: AT, usageNanoCores: 7, usageCoreNanoSeconds: 300 },
        memory: { time: AT, workingSetBytes: 30 }, // not all containers report their total usage
        volume: [{ ...shown, usedBytes: 14, inodesUsed: 4, name: "scratch" }],
        "ephemeral-storage": { ...shown, usedBytes: 50, inodesUsed: 6 },
        process_stats: { process_count: 7 },
      },
    ]);
  });

  it("[node-agent 309] the stats summary contains only CPU and memory on request, and omits an unknown rate", () => {
    const { node, pods } = summaryOf({ ...MEASURED, nanoCores: new Map([["main", 3]]) });
    expect(Object.keys(node)).toEqual(["nodeName", "startTime", "cpu", "memory"]);
    expect(pods).toHaveLength(1);
    expect(Object.keys(pods[0] ?? {})).toEqual(["podRef", "startTime", "containers", "cpu", "memory"]);
    expect(pods[0]?.["cpu"]).toEqual({ time: AT, usageCoreNanoSeconds: 300 });
  });
});

it("[node-agent 310] computes a rate over at least a second, and only within one process", () => {
  const rates = new CpuRates();
  const look = (timestampMs: number, nanoSeconds: number): number | undefined => rates.seen([["c", { timestampMs, nanoSeconds }]]).get("c");
  expect(look(0, 1_000)).toBeUndefined();
  expect(look(500, 9_000)).toBeUndefined();
  expect(look(2_000, 4_001_000)).toBe(2_000_000);
  expect(look(2_500, 9_999_000)).toBe(2_000_000);
  expect(look(4_000, 4_001_000)).toBe(0);
  expect(look(6_000, 5)).toBeUndefined();
  expect(rates.seen([]).size).toBe(0);
  expect(look(8_000, 10)).toBeUndefined();
});

it("[node-agent 309] uses the kernel's values for the node", () => {
  const heads =
    "Inter-|   Receive                  |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs\n";
  const row = (name: string, rx: number): string => `${name}: ${rx} 1 2 0 0 0 0 0 ${rx + 1} 1 3 0 0 0 0 0\n`;
  expect(
    machineStats({
      stat: "cpu  1 2 3\nbtime 1700000000\n",
      meminfo: "MemTotal:  1000 kB\nMemFree:  400 kB\nAnonPages:   50 kB\n",
      vmstat: "pgfault 77\npgmajfault 3\n",
      netDev: `${heads}${row("    lo", 1)}${row("  eth0", 100)}${row("enp0s31f6", 12_345_678_901)}`,
    }),
  ).toEqual({
    ...{ bootMs: 1_700_000_000_000, usageBytes: 600 * 1024, rssBytes: 50 * 1024, pageFaults: 77, majorPageFaults: 3 },
    network: [
      { name: "eth0", rxBytes: 100, rxErrors: 2, txBytes: 101, txErrors: 3 },
      { name: "enp0s31f6", rxBytes: 12_345_678_901, rxErrors: 2, txBytes: 12_345_678_902, txErrors: 3 },
    ],
  });
});
