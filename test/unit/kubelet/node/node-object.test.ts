// Would catch: a node that reports capacity that it lacks, flapping conditions, a write every 10 s, and lost fields of other writers.
import { describe, expect, it } from "vitest";
import { parseTime } from "../../../../shared/kube/objects/time.ts";
import {
  nodeBody,
  nodeEvents,
  nodeLease,
  nodeStatus,
  nodeStatusChanged,
  nodeStatusPatch,
  renewedLease,
} from "../../../../shared/node-agent/kubelet/node/node-object.ts";
import type { NodeStatus, NodeStatusInput } from "../../../../shared/node-agent/kubelet/node/node-object.ts";
import { conditionOf } from "../../../../shared/node-agent/kubelet/node/node-conditions.ts";
import { allocatableOf, resourceQuantities } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { NodeOptions } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { JsonObject } from "../../../../shared/base/json.ts";
import { applyStrategicMergePatch } from "../../../../shared/api-server/rest/patch-strategic.ts";
import type { Image } from "../../../../shared/node-agent/ports/cri-types.ts";
import { ago, NOW_MS } from "../fixtures.ts";
import { FACTS, OPTIONS } from "../../../harness/node/fixtures.ts";
import { KUBERNETES_VERSION } from "../../../../shared/kube/objects/release.ts";

const GIB = 1024 ** 3;
const NOW = "2026-03-01T10:00:00Z";
const options: NodeOptions = { ...OPTIONS, hostIps: ["192.0.2.7", "2001:db8::7"], clusterDns: [] };
const facts = { ...FACTS, resources: { cpuMilli: 2000, memoryBytes: 16 * GIB, ephemeralStorageBytes: 61_255_492 * 1024, pods: 110 } };

function input(fields: Partial<NodeStatusInput> = {}): NodeStatusInput {
  return { options, facts, runtimeVersion: "containerd://1.6.20", images: [], nowMs: NOW_MS, ...fields };
}
function image(id: string, sizeBytes: number, names: number): Image {
  const repoTags = Array.from({ length: names }, (_, index) => `${id}:${index}`);
  return { id, repoTags, repoDigests: [`${id}@sha256:0`], sizeBytes, username: "", pinned: false };
}
const ready = (status: NodeStatus): unknown => conditionOf(status.conditions, "Ready");

describe("nodeBody", () => {
  it("[node-agent 179] the body of a Node is complete", () => {
    const condition = { lastHeartbeatTime: NOW, lastTransitionTime: NOW };
    expect(nodeBody(input())).toEqual({
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name: "n1",
        labels: {
          ...{ "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" },
          ...{ "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64" },
        },
        annotations: { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
      },
      spec: {},
      status: {
        addresses: [
          { type: "InternalIP", address: "192.0.2.7" },
          { type: "InternalIP", address: "2001:db8::7" },
          { type: "Hostname", address: "n1" },
        ],
        capacity: { cpu: "2", memory: "16Gi", pods: "110", "ephemeral-storage": "62725623808" },
        allocatable: { cpu: "2", memory: "16284Mi", pods: "110", "ephemeral-storage": "56453061334" },
        conditions: [
          {
            type: "MemoryPressure",
            status: "False",
            reason: "KubeletHasSufficientMemory",
            message: "kubelet has sufficient memory available",
            ...condition,
          },
          {
            type: "DiskPressure",
            status: "False",
            reason: "KubeletHasNoDiskPressure",
            message: "kubelet has no disk pressure",
            ...condition,
          },
          {
            type: "PIDPressure",
            status: "False",
            reason: "KubeletHasSufficientPID",
            message: "kubelet has sufficient PID available",
            ...condition,
          },
          { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status", ...condition },
        ],
        nodeInfo: {
          machineID: "m",
          systemUUID: "s",
          bootID: "b",
          kernelVersion: "6.1.0",
          osImage: "Debian GNU/Linux 12 (bookworm)",
          containerRuntimeVersion: "containerd://1.6.20",
          kubeletVersion: KUBERNETES_VERSION,
          kubeProxyVersion: "",
          operatingSystem: "linux",
          architecture: "amd64",
          runningInUserNamespace: false,
        },
        daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
        images: [],
        declaredFeatures: ["InPlacePodVerticalScalingInitContainers"],
      },
    });
  });
});

describe("nodeStatus", () => {
  it.each<{ readonly name: string; readonly fields: Partial<NodeStatusInput>; readonly message: string }>([
    { name: "the runtime is down", fields: { runtimeError: "container runtime is down" }, message: "container runtime is down" },
    { name: "the network is not ready", fields: { networkError: "no cni" }, message: "no cni" },
    {
      name: "the runtime is down and the network is not ready",
      fields: { runtimeError: "down", networkError: "no cni" },
      message: "[down, no cni]",
    },
    {
      name: "the capacity is unknown",
      fields: { facts: { ...facts, resources: { ...facts.resources, memoryBytes: 0, ephemeralStorageBytes: 0 } } },
      message: "missing node capacity for resources: memory, ephemeral-storage",
    },
  ])("a node is not Ready: $name", ({ fields, message }) => {
    expect(ready(nodeStatus(input(fields)))).toMatchObject({ status: "False", reason: "KubeletNotReady", message });
  });

  it("changes lastTransitionTime only when the condition's status changes", () => {
    const before = nodeStatus(input({ nowMs: NOW_MS - 60_000, runtimeError: "a" }));
    const still = nodeStatus(input({ previous: before, runtimeError: "b" }));
    expect(ready(still)).toMatchObject({ message: "b", lastHeartbeatTime: NOW, lastTransitionTime: ago(60) });
    const well = nodeStatus(input({ previous: still }));
    expect(ready(well)).toMatchObject({ status: "True", lastTransitionTime: NOW });
  });

  it("keeps other writers' conditions, extended resources and attached volumes", () => {
    const previous: NodeStatus = {
      capacity: { "example.com/gpu": "2", cpu: "1" },
      conditions: [
        { type: "NetworkUnavailable", status: "False", reason: "RouteCreated" },
        { type: "Ready", status: "Unknown", lastTransitionTime: ago(60) },
      ],
      volumesAttached: [{ name: "v", devicePath: "/dev/v" }],
    };
    const status = nodeStatus(input({ previous }));
    expect(status.conditions?.map(({ type }) => type)).toEqual([
      "NetworkUnavailable",
      "Ready",
      "MemoryPressure",
      "DiskPressure",
      "PIDPressure",
    ]);
    expect(status.conditions?.[0]).toBe(previous.conditions?.[0]);
    expect([status.capacity, status.allocatable, status.volumesAttached]).toMatchObject([
      { "example.com/gpu": "2", cpu: "2" },
      { "example.com/gpu": "2", cpu: "2" },
      previous.volumesAttached ?? [],
    ]);
  });

  it("lists the 50 largest images, at most 5 names each, in a stable order", () => {
    const images = [...Array.from({ length: 60 }, (_, index) => image(`i${index}`, index, 1)), image("big", 1000, 9)];
    const named = nodeStatus(input({ images })).images;
    expect(named).toHaveLength(50);
    expect(named?.[0]).toEqual({ names: ["big@sha256:0", "big:0", "big:1", "big:2", "big:3"], sizeBytes: 1000 });
    expect(named?.[49]?.sizeBytes).toBe(11);
    const equal = [image("a", 1, 1), image("b", 1, 1)];
    expect(nodeStatus(input({ images: equal })).images).toEqual(nodeStatus(input({ images: equal.toReversed() })).images);
  });
});

describe("nodeStatusPatch", () => {
  it("replaces the addresses of a node whose IP address changed", () => {
    const { addresses: _moved, ...rest } = nodeStatus(input());
    const stored = { status: { ...rest, addresses: [{ type: "InternalIP", address: "192.0.2.99" }] } };
    const patch = nodeStatusPatch(nodeStatus(input())) as JsonObject; // the patch is sent as JSON
    // the API server stores JSON
    expect(applyStrategicMergePatch("Node", stored as unknown as JsonObject, patch)).toEqual({ status: nodeStatus(input()) });
  });
});

describe("resources", () => {
  it("allocatable is at least 0", () => {
    const small = { cpuMilli: 1500, memoryBytes: 50 * 1024 ** 2, ephemeralStorageBytes: 0, pods: 1000 };
    expect(allocatableOf(small)).toEqual({ ...small, memoryBytes: 0 });
    expect(resourceQuantities(allocatableOf(small))).toEqual({ cpu: "1500m", memory: "0", "ephemeral-storage": "0", pods: "1k" });
  });

  it("[node-agent 200] subtracts the configured hard thresholds of memory and disk", () => {
    const kept = { signal: "memory.available", value: { amount: 10 }, gracePeriodMs: 0 } as const;
    const soft = { ...kept, signal: "nodefs.available", gracePeriodMs: 1 } as const;
    const roomy = { cpuMilli: 1500, pods: 10, memoryBytes: 100, ephemeralStorageBytes: 100 };
    expect(allocatableOf(roomy, { thresholds: [soft, kept] })).toEqual({ ...roomy, memoryBytes: 90 });
  });

  it("formats bytes as the API server stores them", () => {
    const of = (memoryBytes: number): unknown => resourceQuantities({ ...facts.resources, memoryBytes })["memory"];
    expect([of(1), of(1023), of(1025), of(1024), of(1536 * 1024), of(8_388_604 * 1024)]).toEqual([
      "1",
      "1023",
      "1025",
      "1Ki",
      "1536Ki",
      "8388604Ki",
    ]);
  });
});

describe("nodeStatusChanged", () => {
  const before = nodeStatus(input());
  it.each<{ readonly name: string; readonly after: NodeStatus; readonly want: boolean }>([
    { name: "a heartbeat", after: nodeStatus(input({ previous: before, nowMs: NOW_MS + 10_000 })), want: false },
    { name: "keys and conditions in another order", after: reordered(before), want: false },
    {
      name: "a quantity in another notation",
      after: { ...before, capacity: { ...before.capacity, cpu: "2000m", memory: "16384Mi" } },
      want: false,
    },
    { name: "an absent field instead of an empty one", after: without(before, "images"), want: false },
    { name: "a changed quantity", after: { ...before, capacity: { ...before.capacity, cpu: "3" } }, want: true },
    { name: "a changed condition status", after: nodeStatus(input({ previous: before, networkError: "x" })), want: true },
    { name: "an additional image", after: nodeStatus(input({ images: [image("a", 1, 1)] })), want: true },
    { name: "a removed address", after: { ...before, addresses: [] }, want: true },
  ])("the status changes with $name: $want", ({ after, want }) => {
    expect(nodeStatusChanged(before, after)).toBe(want);
  });

  it("a node's status has changed if none was sent yet", () => {
    expect(nodeStatusChanged(undefined, before)).toBe(true);
  });
});

describe("nodeEvents", () => {
  const well = nodeStatus(input());
  const unwell = nodeStatus(input({ runtimeError: "down" }));
  const rebooted = nodeStatus(input({ facts: { ...facts, bootId: "b2" } }));
  it.each<{ readonly name: string; readonly before: NodeStatus | undefined; readonly after: NodeStatus; readonly want: readonly string[] }>(
    [
      { name: "none for a new node", before: undefined, after: well, want: [] },
      { name: "none if nothing has changed", before: well, after: well, want: [] },
      { name: "NodeNotReady when the node becomes NotReady", before: well, after: unwell, want: ["Normal NodeNotReady"] },
      { name: "NodeReady when the node becomes Ready again", before: unwell, after: well, want: ["Normal NodeReady"] },
      { name: "Rebooted and NodeReady after a reboot", before: unwell, after: rebooted, want: ["Warning Rebooted", "Normal NodeReady"] },
    ],
  )("Events of a node: $name", ({ before, after, want }) => {
    const events = nodeEvents("n1", before, after);
    expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual(want);
    for (const { involved } of events) expect(involved).toEqual({ kind: "Node", apiVersion: "v1", namespace: "", name: "n1", uid: "" });
  });
});

describe("Lease", () => {
  const lease = nodeLease({ name: "n1", uid: "u" }, NOW_MS);

  it("a Lease is held by the Node, lasts 40 s, and is owned by the Node object", () => {
    expect(lease).toEqual({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: "n1",
        namespace: "kube-node-lease",
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: "n1", uid: "u" }],
      },
      spec: { holderIdentity: "n1", leaseDurationSeconds: 40, renewTime: "2026-03-01T10:00:00.000000Z" },
    });
  });

  it("a renewal changes only the time of the Lease", () => {
    const stored = { ...lease, metadata: { ...lease.metadata, resourceVersion: "7" } };
    const renewed = renewedLease(stored, NOW_MS + 1_234);
    expect(renewed).toEqual({ ...stored, spec: { ...stored.spec, renewTime: "2026-03-01T10:00:01.234000Z" } });
    expect(parseTime(renewed.spec?.renewTime)).toBe(NOW_MS + 1_234);
  });
});

function reordered(status: NodeStatus): NodeStatus {
  const backwards = <T extends object>(object: T): T => Object.fromEntries(Object.entries(object).toReversed()) as T; // has the same fields
  return backwards({ ...status, conditions: (status.conditions ?? []).map(backwards).toReversed() });
}

function without(status: NodeStatus, field: keyof NodeStatus): NodeStatus {
  const { [field]: _gone, ...rest } = status;
  return rest;
}
