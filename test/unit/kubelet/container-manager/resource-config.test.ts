// Would catch: a pod above its limits, a pod without its requested CPU, a QoS class with a wrong weight, and pods that use the node's
// reserved resources.
import { describe, expect, it } from "vitest";
import {
  kubepodsConfig,
  qosConfigs,
  reservedConfig,
  resourceConfigForPod,
} from "../../../../shared/node-agent/kubelet/container-manager/resource-config.ts";
import type { ResourceConfig } from "../../../../shared/node-agent/kubelet/container-manager/resource-config.ts";
import type { ContainerSpec, NodePod, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";
import { MACHINE } from "../../../harness/node/fixtures.ts";

type Resources = NonNullable<ContainerSpec["resources"]>;
const MIB = 1024 ** 2;
const list = (cpu: string, memory: string): Readonly<Record<string, string>> => ({ ...(cpu && { cpu }), ...(memory && { memory }) });
const asks = (requests: readonly [string, string], limits: readonly [string, string] = ["", ""]): Resources => ({
  requests: list(...requests),
  limits: list(...limits),
});
const NONE = asks(["", ""]);
const PART = asks(["100m", "100Mi"]);
const BOTH = asks(["100m", "100Mi"], ["200m", "200Mi"]);
const FULL = asks(["100m", "100Mi"], ["100m", "100Mi"]);

interface Case {
  readonly name: string;
  readonly containers: readonly Resources[];
  readonly init?: readonly Resources[];
  readonly sidecars?: readonly Resources[];
  readonly spec?: Partial<PodSpec>;
  readonly podMaxPids?: number;
  readonly want: ResourceConfig;
}

const quota = (cpuQuota: number) => ({ cpuQuota, cpuPeriod: 100_000 });
const table: readonly Case[] = [
  { name: "besteffort", containers: [NONE], want: { cpuShares: 2 } },
  { name: "burstable-no-limits", containers: [PART], want: { cpuShares: 102 } },
  { name: "burstable-with-limits", containers: [BOTH], want: { cpuShares: 102, ...quota(20_000), memoryBytes: 200 * MIB } },
  { name: "burstable-partial-limits", containers: [BOTH, PART], want: { cpuShares: 204 } },
  { name: "guaranteed", containers: [FULL], want: { cpuShares: 102, ...quota(10_000), memoryBytes: 100 * MIB } },
  {
    name: "burstable-partial-limits-with-init-containers",
    containers: [asks(["100m", "100m"], ["100m", "100Mi"]), asks(["100m", "100m"])],
    init: [asks(["100m", "100m"], ["100m", "100Mi"]), asks(["100m", "100m"])],
    want: { cpuShares: 204 },
  },
  { name: "no limit if an init container has none", containers: [BOTH], init: [PART], want: { cpuShares: 102 } },
  {
    name: "a memory limit, but no CPU limit if only one container has one",
    containers: [BOTH, asks(["100m", ""], ["", "100Mi"])],
    want: { cpuShares: 204, memoryBytes: 300 * MIB },
  },
  { name: "a limit of 0 is no limit", containers: [asks(["1m", ""], ["0", "1Mi"])], want: { cpuShares: 2, memoryBytes: MIB } },
  {
    name: "those of the largest init container if they exceed the sum of the regular containers",
    containers: [FULL],
    init: [asks(["300m", "400Mi"], ["300m", "400Mi"])],
    want: { cpuShares: 307, ...quota(30_000), memoryBytes: 400 * MIB },
  },
  {
    name: "a sidecar is added to the regular containers",
    containers: [FULL],
    sidecars: [FULL],
    want: { cpuShares: 204, ...quota(20_000), memoryBytes: 200 * MIB },
  },
  {
    name: "overhead is added to a limit",
    containers: [FULL],
    spec: { overhead: { cpu: "50m", memory: "10Mi" } },
    want: { cpuShares: 153, ...quota(15_000), memoryBytes: 110 * MIB },
  },
  {
    name: "overhead alone sets no limit",
    containers: [PART],
    spec: { overhead: { cpu: "50m", memory: "10Mi" } },
    want: { cpuShares: 153 },
  },
  { name: "pids.max is the pod PID limit", containers: [NONE], podMaxPids: 512, want: { cpuShares: 2, pidsMax: 512 } },
  { name: "a pod PID limit of 0 is no limit", containers: [NONE], podMaxPids: 0, want: { cpuShares: 2 } },
  {
    name: "huge pages are limited to their requests",
    containers: [
      { requests: { memory: "1Mi", "hugepages-2Mi": "4Mi" }, limits: { "hugepages-2Mi": "4Mi" } },
      { requests: { "hugepages-2Mi": "2Mi", "hugepages-1Gi": "1Gi" } },
    ],
    want: { cpuShares: 2, hugePageBytes: { "2MB": BigInt(6 * MIB), "1GB": 1n << 30n } },
  },
];

function podOf({ containers, init = [], sidecars = [], spec = {} }: Omit<Case, "name" | "want">): NodePod {
  return nodePod({
    containers: containers.map((resources, index) => containerSpec(`c${index}`, { resources })),
    initContainers: [
      ...init.map((resources, index) => containerSpec(`i${index}`, { resources })),
      ...sidecars.map((resources, index) => sidecarSpec(`s${index}`, { resources })),
    ],
    spec,
  });
}

describe("resourceConfigForPod", () => {
  it.each(table)("[node-agent 183] a pod's resource limits: $name", ({ want, podMaxPids = -1, ...rest }) => {
    expect(resourceConfigForPod(podOf(rest), { podMaxPids })).toEqual({ hugePageBytes: {}, ...want });
  });
});

describe("qosConfigs", () => {
  const machine = { ...MACHINE, hugePageSizes: ["2MB"] };
  const unbounded = { hugePageBytes: { "2MB": 4_611_686_018_427_387_904n } };

  it("[node-agent 184] the CPU shares of the Burstable cgroup are the total CPU request of Burstable pods", () => {
    const pods = [[asks(["1", "128Mi"], ["1", "128Mi"])], [asks(["1", "128Mi"], ["2", "256Mi"])], [asks(["2", "256Mi"])], [NONE]];
    const configs = qosConfigs(
      pods.map((containers) => podOf({ containers })),
      machine,
    );
    expect(configs).toEqual({
      Guaranteed: unbounded,
      Burstable: { cpuShares: 3072, ...unbounded },
      BestEffort: { cpuShares: 2, ...unbounded },
    });
  });

  it("[node-agent 184] both QoS cgroups have the minimum CPU shares if there are no pods", () => {
    expect(qosConfigs([], MACHINE)).toMatchObject({ Burstable: { cpuShares: 2 }, BestEffort: { cpuShares: 2 } });
  });
});

describe("kubepodsConfig", () => {
  const machine = {
    ...MACHINE,
    pids: 32_768,
    cpus: "0-3",
    hugePageSizes: ["2MB", "1GB"],
    hugePageBytes: { "2MB": 8 * MIB, "1GB": 0 },
    reserved: { cpuMilli: 500, memoryBytes: 1_000_000_000, pids: 768 },
  };
  const hugePageBytes = { "2MB": BigInt(8 * MIB), "1GB": 0n };

  it("[node-agent 185] the limit of the kubepods cgroup is capacity minus reservations when enforced, without subtracting eviction thresholds", () => {
    const want = { memoryBytes: 7_000_000_000, cpuShares: 3584, pidsMax: 32_000, cpus: "0-3", hugePageBytes };
    expect(kubepodsConfig(machine, { enforced: true })).toEqual(want);
  });
  it("[node-agent 185] the limit of the kubepods cgroup is the whole capacity when not enforced", () => {
    const want = { memoryBytes: 8_000_000_000, cpuShares: 4096, pidsMax: 32_768, cpus: "0-3", hugePageBytes };
    expect(kubepodsConfig(machine, { enforced: false })).toEqual(want);
  });
  it("[node-agent 185] the limit of the kubepods cgroup is never below 0", () => {
    const reserved = { cpuMilli: 5000, memoryBytes: 9_000_000_000, pids: 40_000 };
    expect(kubepodsConfig({ ...machine, reserved }, { enforced: true })).toMatchObject({ memoryBytes: 0, cpuShares: 2, pidsMax: 0 });
  });
});

describe("reservedConfig", () => {
  const kept = { cpuMilli: 250, memoryBytes: 100 * MIB, ephemeralStorageBytes: 1, pids: 1000 };
  it.each([
    {
      name: "all reserved resources",
      compressibleOnly: false,
      want: { memoryBytes: 100 * MIB, cpuShares: 256, pidsMax: 1000, cpus: "0-3" },
    },
    { name: "only compressible resources", compressibleOnly: true, want: { cpuShares: 256, cpus: "0-3" } },
  ])("[node-agent 185] the limits of a reserved cgroup: $name", ({ compressibleOnly, want }) => {
    expect(reservedConfig(kept, "0-3", compressibleOnly)).toEqual({ ...want, hugePageBytes: {} });
  });
  it("[node-agent 185] sets no limit without a reservation", () => {
    expect(reservedConfig({ cpuMilli: 250 }, undefined, false)).toEqual({ cpuShares: 256, hugePageBytes: {} });
  });
});
