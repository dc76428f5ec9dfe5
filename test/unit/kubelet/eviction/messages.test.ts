// Would catch: a message that differs from upstream's, a message that names the wrong container, and a wrong unit.
import { expect, it } from "vitest";
import { binaryQuantity, evictionMessage, nodeConditionMessage } from "../../../../shared/node-agent/kubelet/eviction/messages.ts";
import { storageExcess } from "../../../../shared/node-agent/kubelet/eviction/local-storage.ts";
import type { Threshold } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { PodUsage } from "../../../../shared/node-agent/kubelet/eviction/usage.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";

const MI = 1024 ** 2;
const NO_USAGE: PodUsage = { containers: [], volumes: new Map(), ephemeralBytes: 0 };
const disk = (usedBytes: number) => ({ usedBytes, inodesUsed: 1 });
const MEMORY: Threshold = { signal: "memory.available", value: { amount: 100 * MI }, gracePeriodMs: 0 };
const NODEFS: Threshold = { signal: "nodefs.available", value: { share: Math.fround(0.1) }, gracePeriodMs: 0 };
const INODES: Threshold = { signal: "nodefs.inodesFree", value: { share: Math.fround(0.05) }, gracePeriodMs: 0 };
const OBSERVATIONS = new Map([
  ["memory.available", { available: 50 * MI, capacity: 1024 * MI }],
  ["nodefs.available", { available: 5 * MI, capacity: 160 * MI }],
  ["nodefs.inodesFree", { available: 2000, capacity: 100_000 }],
] as const);
const POD = nodePod({
  containers: [containerSpec("a", { resources: { requests: { memory: "10Mi", "ephemeral-storage": "1Gi" } } }), "b"],
  initContainers: [sidecarSpec("s", { resources: { requests: { memory: "1Gi" } } })],
  ephemeralContainers: ["debug"],
});
const USAGE: PodUsage = {
  ...NO_USAGE,
  containers: ["a", "b", "s", "debug"].map((name) => ({ name, memoryBytes: 20 * MI, rootfs: disk(3000), logs: disk(1096) })),
};

it("[node-agent 210] lists containers whose memory usage exceeds their requests", () => {
  expect(evictionMessage(POD, USAGE, "memory", { met: [NODEFS, MEMORY], observations: OBSERVATIONS })).toEqual({
    message:
      "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
      "Container a was using 20Mi, request is 10Mi, has larger consumption of memory. " +
      "Container b was using 20Mi, request is 0, has larger consumption of memory. ",
    annotations: { offending_containers: "a,b", offending_containers_usage: "20Mi,20Mi", starved_resource: "memory" },
  });
});

it.each([
  {
    name: "adds writable layer and logs for the disk, and shows a percentage threshold in bytes",
    resource: "ephemeral-storage",
    met: [NODEFS],
    message:
      "The node was low on resource: ephemeral-storage. Threshold quantity: 16777216, available: 5Mi. ".replace(
        "16777216",
        binaryQuantity(Math.trunc(160 * MI * Math.fround(0.1))),
      ) +
      "Container b was using 4Ki, request is 0, has larger consumption of ephemeral-storage. " +
      "Container s was using 4Ki, request is 0, has larger consumption of ephemeral-storage. ",
    offending: "b,s",
  },
  {
    name: "lists no container for inodes",
    resource: "inodes",
    met: [INODES],
    message: "The node was low on resource: inodes. Threshold quantity: 5000, available: 2k. ",
    offending: "",
  },
  {
    name: "contains no threshold if no threshold of the resource is met",
    resource: "pids",
    met: [MEMORY],
    message: "The node was low on resource: pids. ",
    offending: "",
  },
] as const)("[node-agent 210] an eviction message $name", ({ resource, met, message, offending }) => {
  const words = evictionMessage(POD, USAGE, resource, { met, observations: OBSERVATIONS });
  expect([words.message, words.annotations["offending_containers"]]).toEqual([message, offending]);
});

it("[node-agent 210] contains only the node's values and no annotations for a pod without measurements", () => {
  expect(evictionMessage(POD, undefined, "memory", { met: [MEMORY], observations: OBSERVATIONS })).toEqual({
    message: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
    annotations: {},
  });
});

it.each([
  { amount: 0, want: "0" },
  { amount: 1000, want: "1k" },
  { amount: 1024, want: "1Ki" },
  { amount: 1025, want: "1025" },
  { amount: 3 * 1024 ** 3, want: "3Gi" },
])("[node-agent 210] $amount bytes are printed as $want", ({ amount, want }) => expect(binaryQuantity(amount)).toBe(want));

it("[node-agent 211] the message of a rejected pod lists the node conditions", () => {
  expect(nodeConditionMessage(["MemoryPressure", "DiskPressure"])).toBe("The node had condition: [MemoryPressure DiskPressure]. ");
});

const limited = (name: string, storage: string, fields: object = {}) =>
  containerSpec(name, { resources: { limits: { "ephemeral-storage": storage } }, ...fields });
const withEmptyDirs = (...limits: readonly (string | undefined)[]): NodePod =>
  nodePod({
    containers: ["a"],
    spec: { volumes: limits.map((sizeLimit, i) => ({ name: `v${i}`, emptyDir: sizeLimit === undefined ? {} : { sizeLimit } })) },
  });

it.each<{
  readonly name: string;
  readonly pod: NodePod;
  readonly usage: Partial<PodUsage>;
  readonly hasImageFs?: true;
  readonly want: string | undefined;
}>([
  {
    name: "keeps a pod whose emptyDir is at its limit",
    pod: withEmptyDirs("1Mi"),
    usage: { volumes: new Map([["v0", disk(MI)]]) },
    want: undefined,
  },
  {
    name: "evicts a pod whose second emptyDir exceeds its limit",
    pod: withEmptyDirs(undefined, "1024Ki"),
    usage: {
      volumes: new Map([
        ["v0", disk(9 * MI)],
        ["v1", disk(MI + 1)],
      ]),
    },
    want: 'emptydirfs.limit: Usage of EmptyDir volume "v1" exceeds the limit "1Mi". ',
  },
  { name: "treats a limit of 0 as none", pod: withEmptyDirs("0"), usage: { volumes: new Map([["v0", disk(1)]]) }, want: undefined },
  {
    name: "evicts a pod above the sum of its containers' limits",
    pod: nodePod({ containers: [limited("a", "1Mi"), limited("b", "2Mi"), "c"] }),
    usage: { ephemeralBytes: 3 * MI + 1 },
    want: "ephemeralpodfs.limit: Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ",
  },
  {
    name: "keeps a pod at the sum of its containers' limits",
    pod: nodePod({ containers: [limited("a", "1Mi"), limited("b", "2Mi")] }),
    usage: { ephemeralBytes: 3 * MI },
    want: undefined,
  },
  {
    name: "adds a sidecar's limit to the sum, and uses an init container's if it is larger",
    pod: nodePod({
      containers: [limited("a", "1Mi")],
      initContainers: [limited("s", "2Mi", { restartPolicy: "Always" }), limited("i", "3Mi")],
    }),
    usage: { ephemeralBytes: 5 * MI + 1 },
    want: "ephemeralpodfs.limit: Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
  },
  { name: "keeps a pod without a limit", pod: nodePod({ containers: ["a"] }), usage: { ephemeralBytes: 1e12 }, want: undefined },
  {
    name: "counts the writable layer and the logs of a container",
    pod: nodePod({ containers: [limited("a", "1M"), limited("b", "1G")] }),
    usage: { containers: [{ name: "a", rootfs: disk(600_000), logs: disk(400_001) }] },
    want: 'ephemeralcontainerfs.limit: Container a exceeded its local ephemeral storage limit "1M". ',
  },
  {
    name: "counts a sidecar as a regular container, but not an init container",
    pod: nodePod({ containers: ["a"], initContainers: [limited("i", "1M"), limited("s", "2M", { restartPolicy: "Always" })] }),
    usage: {
      containers: [
        { name: "i", rootfs: disk(3e6), logs: disk(0) },
        { name: "s", rootfs: disk(2e6), logs: disk(1) },
      ],
    },
    want: 'ephemeralcontainerfs.limit: Container s exceeded its local ephemeral storage limit "2M". ',
  },
  {
    name: "counts only the logs if images have their own disk",
    pod: nodePod({ containers: [limited("a", "1M"), limited("b", "1G")] }),
    usage: { containers: [{ name: "a", rootfs: disk(9e6), logs: disk(1e6) }] },
    hasImageFs: true,
    want: undefined,
  },
])("[node-agent 212] local storage: $name", ({ pod, usage, hasImageFs = false, want }) => {
  const excess = storageExcess(pod, { ...NO_USAGE, ...usage }, hasImageFs);
  expect(excess && `${excess.limit}: ${excess.message}`).toBe(want);
});
