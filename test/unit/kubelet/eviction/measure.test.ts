// Would catch: a value in the wrong field, and a pod that is wrongly counted as measured or unmeasured.
import { expect, it } from "vitest";
import type { NodePorts } from "../../../../shared/node-agent/kubelet/node-ports/node-ports.ts";
import { measureNode, measurePods } from "../../../../shared/node-agent/kubelet/eviction/measure.ts";
import { recordingLog } from "../../recording-log.ts";
import { nodePod } from "../fixtures.ts";
import { OPTIONS } from "../../../harness/node/fixtures.ts";

const disk = (usedBytes: number) => ({ usedBytes, inodesUsed: 1 });
const fileSystem = (device: number, inodes = 10) => ({ capacityBytes: 100, availableBytes: 40, inodes, inodesFree: 5, device });

it.each([
  { images: 1, want: false },
  { images: 2, want: true },
])("[node-agent 228] detects a dedicated image filesystem if images are on device $images: $want", async ({ images, want }) => {
  const ports = {
    machine: { usage: async () => ({ memoryBytes: 1000, workingSetBytes: 300, processes: { count: 5, max: 50 } }) },
    cri: { imageFsInfo: async () => [{ mountpoint: "/images", timestampMs: 7 }] },
    files: { diskSpace: async (path: string) => (path === "/images" ? { ...fileSystem(images, 0), availableBytes: 20 } : fileSystem(1)) },
    containerManager: { memory: async () => (images === 1 ? { available: 60, capacity: 80 } : undefined) },
    options: OPTIONS,
  };
  const { observations, disks } = await measureNode(ports as unknown as NodePorts); // the only dependencies that it reads
  expect([disks.hasImageFs, Object.fromEntries(observations)]).toEqual([
    want,
    {
      "memory.available": { available: 700, capacity: 1000 },
      ...(!want && { "allocatableMemory.available": { available: 60, capacity: 80 } }),
      "nodefs.available": { available: 40, capacity: 100 },
      "nodefs.inodesFree": { available: 5, capacity: 10 },
      "imagefs.available": { available: 20, capacity: 100, takenMs: 7 },
      "containerfs.available": want ? { available: 20, capacity: 100, takenMs: 7 } : { available: 40, capacity: 100 },
      ...(!want && { "containerfs.inodesFree": { available: 5, capacity: 10 } }),
      "pid.available": { available: 45, capacity: 50 },
    },
  ]);
});

it("[node-agent 228] returns the usage of a running pod, a pod with only a sandbox, a pod without a sandbox, and a pod whose logs cannot be measured", async () => {
  const ports = {
    cri: {
      listContainerStats: async () =>
        ["a", "b"].map((name) => ({
          id: name,
          metadata: { name, attempt: 0 },
          labels: { "io.kubernetes.pod.uid": "runs", "io.kubernetes.container.name": name },
          memory: { timestampMs: 0, workingSetBytes: 50 },
          writableLayer: disk(10),
        })),
      listPodSandbox: async () => ["runs", "waits", "odd"].map((uid) => ({ metadata: { uid } })),
    },
    containerManager: { processes: async () => new Map([["runs", 7]]) },
    files: {
      podDiskUsage: async (uid: string) => {
        if (uid === "odd") throw new Error("the disk says no");
        return { logs: new Map([["a", disk(1)]]), hostsFile: disk(2) };
      },
    },
    volumes: {
      of: () =>
        new Map([
          ["scratch", disk(100)],
          ["fast", disk(1000)],
        ]),
    },
    log: recordingLog(),
  };
  const volumes = [
    { name: "scratch", emptyDir: {} },
    { name: "fast", emptyDir: { medium: "Memory" } },
  ];
  const pods = ["runs", "waits", "none", "odd"].map((uid) => nodePod({ uid, containers: ["a", "b"], spec: { volumes } }));
  const usages = await measurePods(ports as unknown as NodePorts, pods); // the only dependencies that it reads
  expect([...usages.keys()]).toEqual(["runs", "waits", "odd"]);
  expect(usages.get("runs")).toMatchObject({
    containers: [
      { name: "a", memoryBytes: 50, rootfs: disk(10), logs: disk(1) },
      { name: "b", memoryBytes: 50, rootfs: disk(10) },
    ],
    memoryBytes: 100,
    processes: 7,
    ephemeralBytes: 123,
  });
  expect(usages.get("waits")).toEqual({ containers: [], volumes: expect.any(Map), ephemeralBytes: 103 });
  expect(usages.get("odd")).toEqual({ containers: [], volumes: expect.any(Map), ephemeralBytes: 100 });
});
