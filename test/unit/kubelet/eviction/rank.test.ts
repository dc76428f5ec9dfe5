// Would catch: the eviction of a pod although another one exceeds its requests or has a lower priority.
import { expect, it } from "vitest";
import { rankPods } from "../../../../shared/node-agent/kubelet/eviction/rank.ts";
import type { Disks, Signal } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { PodUsage } from "../../../../shared/node-agent/kubelet/eviction/usage.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

const ONE_DISK: Disks = { hasImageFs: false, splitsContainerFs: false };
const IMAGE_DISK: Disks = { hasImageFs: true, splitsContainerFs: false };
const SPLIT: Disks = { hasImageFs: true, splitsContainerFs: true };

interface Measured {
  readonly priority?: number;
  readonly requests?: Readonly<Record<string, string>>;
  readonly memory?: number;
  readonly processes?: number;
  /** Bytes, and the same number of inodes. */
  readonly rootfs?: number;
  readonly logs?: number;
  readonly emptyDir?: number;
  readonly config?: number;
  readonly inMemory?: number;
  readonly unmeasured?: true;
}

const disk = (amount = 0) => ({ usedBytes: amount, inodesUsed: amount });
const podOf = (name: string, { priority, requests = {} }: Measured): NodePod =>
  nodePod({
    name,
    uid: name,
    containers: [containerSpec("c", { resources: { requests } })],
    spec: {
      ...(priority !== undefined && { priority }),
      volumes: [
        { name: "scratch", emptyDir: {} },
        { name: "config", configMap: { name: "c" } },
        { name: "fast", emptyDir: { medium: "Memory" } },
      ],
    },
  });
const usageOf = ({ memory = 0, processes = 0, rootfs, logs, emptyDir, config, inMemory }: Measured): PodUsage => ({
  containers: [{ name: "c", rootfs: disk(rootfs), logs: disk(logs) }],
  memoryBytes: memory,
  processes,
  volumes: new Map([
    ["scratch", disk(emptyDir)],
    ["config", disk(config)],
    ["fast", disk(inMemory)],
  ]),
  ephemeralBytes: 0,
});

/** Returns the names of the pods in the order of their eviction. */
function ranked(signal: Signal, pods: Readonly<Record<string, Measured>>, disks = ONE_DISK): string {
  const all = Object.entries(pods);
  const usages = new Map(all.flatMap(([name, one]) => (one.unmeasured ? [] : [[name, usageOf(one)] as const])));
  return rankPods(
    signal,
    all.map(([name, one]) => podOf(name, one)),
    usages,
    disks,
  )
    .map(({ metadata }) => metadata.name)
    .join(" ");
}

it.each<{ readonly name: string; readonly pods: Readonly<Record<string, Measured>>; readonly want: string }>([
  {
    name: "pods above their request first",
    pods: { a: { memory: 100, requests: { memory: "100" } }, b: { memory: 2, requests: { memory: "1" } } },
    want: "b a",
  },
  {
    name: "among pods above their requests, those of lower priority first",
    pods: { a: { memory: 900, priority: 5 }, b: { memory: 1, priority: 1 }, c: { memory: 1, priority: -1 } },
    want: "c b a",
  },
  {
    name: "usage above the request before priority",
    pods: { a: { memory: 1, requests: { memory: "2" }, priority: 0 }, b: { memory: 3, requests: { memory: "2" }, priority: 9 } },
    want: "b a",
  },
  {
    name: "at equal priority, more usage above the request first",
    pods: { a: { memory: 500, requests: { memory: "400" } }, b: { memory: 300, requests: { memory: "100" } }, c: { memory: 50 } },
    want: "b a c",
  },
  {
    name: "also ranks pods below their requests",
    pods: { a: { memory: 10, requests: { memory: "100" } }, b: { memory: 10, requests: { memory: "50" } } },
    want: "b a",
  },
  { name: "pods without a measurement first", pods: { a: { memory: 900 }, b: { unmeasured: true, priority: 99 } }, want: "b a" },
  { name: "keeps the order of equal pods", pods: { b: {}, a: {}, c: {} }, want: "b a c" },
])("[node-agent 207] memory ranking: $name", ({ pods, want }) => {
  expect(ranked("memory.available", pods)).toBe(want);
  expect(ranked("allocatableMemory.available", pods)).toBe(want);
});

it.each<{
  readonly name: string;
  readonly signal: Signal;
  readonly disks?: Disks;
  readonly pods: Readonly<Record<string, Measured>>;
  readonly want: string;
}>([
  {
    name: "adds layers, logs and volumes",
    signal: "nodefs.available",
    pods: { a: { rootfs: 5, logs: 5 }, b: { emptyDir: 6, config: 6 }, c: { rootfs: 11 } },
    want: "b c a",
  },
  { name: "does not count volumes in memory", signal: "nodefs.available", pods: { a: { inMemory: 99 }, b: { logs: 1 } }, want: "b a" },
  {
    name: "pods above their request first, then by priority",
    signal: "nodefs.available",
    pods: {
      a: { logs: 10, requests: { "ephemeral-storage": "10" } },
      b: { logs: 2, requests: { "ephemeral-storage": "1" }, priority: 7 },
      c: { logs: 2, priority: 1 },
    },
    want: "c b a",
  },
  {
    name: "for inodes any usage exceeds the request; for bytes the request is subtracted",
    signal: "nodefs.inodesFree",
    pods: { a: { logs: 10, requests: { "ephemeral-storage": "8" } }, b: { logs: 5 }, c: {} },
    want: "b a c",
  },
  {
    name: "with a dedicated image filesystem, nodefs excludes writable layers",
    signal: "nodefs.available",
    disks: IMAGE_DISK,
    pods: { a: { rootfs: 99 }, b: { logs: 1 }, c: { emptyDir: 2 } },
    want: "c b a",
  },
  {
    name: "with a dedicated image filesystem, imagefs includes only writable layers",
    signal: "imagefs.available",
    disks: IMAGE_DISK,
    pods: { a: { rootfs: 1 }, b: { logs: 9, emptyDir: 9 }, c: { rootfs: 2 } },
    want: "c a b",
  },
  {
    name: "with a dedicated image filesystem, containerfs ranks as imagefs does",
    signal: "containerfs.available",
    disks: IMAGE_DISK,
    pods: { a: { logs: 9 }, b: { rootfs: 1 } },
    want: "b a",
  },
  {
    name: "with a split image filesystem, nodefs includes writable layers",
    signal: "nodefs.available",
    disks: SPLIT,
    pods: { a: { logs: 2 }, b: { rootfs: 3 } },
    want: "b a",
  },
  {
    name: "with a split image filesystem, pods have no usage on imagefs",
    signal: "imagefs.available",
    disks: SPLIT,
    pods: { a: { priority: 1 }, b: { rootfs: 3, priority: 2 } },
    want: "a b",
  },
])("[node-agent 208] disk ranking: $name", ({ signal, disks, pods, want }) => {
  expect(ranked(signal, pods, disks)).toBe(want);
});

it("[node-agent 209] PID ranking: lower priority first, then more processes, without regard to requests", () => {
  expect(
    ranked("pid.available", { a: { processes: 900, priority: 2 }, b: { processes: 1 }, c: { processes: 5 }, d: { unmeasured: true } }),
  ).toBe("d c b a");
});
