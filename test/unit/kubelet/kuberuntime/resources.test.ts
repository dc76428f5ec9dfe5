// Would catch: a limit that is not enforced or wrong by a power of ten, a request that is ignored, and a container that the kernel kills
// before those with lower requests.
import { describe, expect, it } from "vitest";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import {
  containerResources,
  oomScoreAdj,
  overheadResources,
  sandboxResources,
} from "../../../../shared/node-agent/kubelet/kuberuntime/resources.ts";
import { cpuQuota, cpuShares } from "../../../../shared/node-agent/kubelet/container-manager/cpu-limits.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";
import { MACHINE } from "../../../harness/node/fixtures.ts";

type Resources = NonNullable<ContainerSpec["resources"]>;
const MIB = 2 ** 20;

describe("cpuShares and cpuQuota", () => {
  const table = [
    { cpu: 0, shares: 2, quota: 0 },
    { cpu: 1, shares: 2, quota: 1000 },
    { cpu: 2, shares: 2, quota: 1000 },
    { cpu: 10, shares: 10, quota: 1000 },
    { cpu: 11, shares: 11, quota: 1100 },
    { cpu: 200, shares: 204, quota: 20_000 },
    { cpu: 500, shares: 512, quota: 50_000 },
    { cpu: 1000, shares: 1024, quota: 100_000 },
    { cpu: 1500, shares: 1536, quota: 150_000 },
    { cpu: 300_000, shares: 262_144, quota: 30_000_000 },
  ];
  for (const { cpu, quota, shares } of table)
    it(`[node-agent 89] cpuShares and cpuQuota are ${shares} and ${quota} for ${cpu}m`, () =>
      expect([cpuShares(cpu), cpuQuota(cpu)]).toEqual([shares, quota]));
});

describe("containerResources", () => {
  const of = (resources: Resources | undefined, machine = MACHINE) => {
    const container = containerSpec("foo1", resources && { resources });
    return containerResources(nodePod({ containers: [container] }), container, machine);
  };

  const table: { name: string; resources?: Resources; want: object }[] = [
    { name: "no requests and limits", want: { cpuShares: 2, cpuPeriod: 100_000, cpuQuota: 0, oomScoreAdj: 1000, hugepageLimits: [] } },
    {
      name: "requests and limits",
      resources: { requests: { cpu: "500m", memory: "64Mi" }, limits: { cpu: "1", memory: "128Mi" } },
      want: { cpuShares: 512, cpuPeriod: 100_000, cpuQuota: 100_000, memoryLimitInBytes: 128 * MIB, oomScoreAdj: 992, hugepageLimits: [] },
    },
    {
      name: "a limit that is used as the request",
      resources: { limits: { cpu: "2" } },
      want: { cpuShares: 2048, cpuPeriod: 100_000, cpuQuota: 200_000, oomScoreAdj: 999, hugepageLimits: [] },
    },
    {
      name: "a request of 0 under a limit",
      resources: { requests: { cpu: "0" }, limits: { cpu: "2" } },
      want: { cpuShares: 2, cpuPeriod: 100_000, cpuQuota: 200_000, oomScoreAdj: 999, hugepageLimits: [] },
    },
    {
      name: "fractions of a milli-CPU and of a byte, rounded up",
      resources: { requests: { cpu: "10.5m" }, limits: { memory: "1000.5" } },
      want: { cpuShares: 11, cpuPeriod: 100_000, cpuQuota: 0, memoryLimitInBytes: 1001, oomScoreAdj: 999, hugepageLimits: [] },
    },
  ];
  for (const { name, resources, want } of table)
    it(`containerResources are correct for ${name}`, () => expect(of(resources)).toEqual(want));

  it("limits every huge page size of the node; a size without a request is limited to 0", () => {
    const machine = { ...MACHINE, hugePageSizes: ["2MB", "1GB", "64KB"] };
    expect(of({ limits: { "hugepages-2Mi": "4Mi", "hugepages-64Ki": "128Ki", "hugepages-16Mi": "16Mi" } }, machine).hugepageLimits).toEqual(
      [
        { pageSize: "2MB", limit: 4 * MIB },
        { pageSize: "1GB", limit: 0 },
        { pageSize: "64KB", limit: 131_072 },
      ],
    );
  });

  it("an OOM kills all processes of a container if configured", () =>
    expect(of(undefined, { ...MACHINE, killsGroupOnOom: true }).unified).toEqual({ "memory.oom.group": "1" }));
});

const requesting = (name: string, memory: string): ContainerSpec => containerSpec(name, { resources: { requests: { memory } } });

describe("oomScoreAdj", () => {
  const CAPACITY = 4_000_000_000;
  const guaranteed = containerSpec("foo1", { resources: { limits: { cpu: "5m", memory: "10G" }, requests: { cpu: "5m", memory: "10G" } } });
  const critical = { priority: 2_000_001_000, priorityClassName: "system-node-critical" };
  const table: { name: string; pod: PodOptions; container?: string; want: number }[] = [
    { name: "BestEffort", pod: { containers: ["foo1"] }, want: 1000 },
    { name: "Guaranteed", pod: { containers: [guaranteed] }, want: -997 },
    { name: "Burstable with CPU only", pod: { containers: [containerSpec("foo1", { resources: { limits: { cpu: "10" } } })] }, want: 999 },
    { name: "Burstable with a tenth of the memory", pod: { containers: [requesting("foo1", "400M")] }, want: 900 },
    { name: "Burstable with hardly any memory", pod: { containers: [requesting("foo1", "1")] }, want: 999 },
    { name: "Burstable with all memory but one byte", pod: { containers: [requesting("foo1", String(CAPACITY - 1))] }, want: 3 },
    { name: "Burstable with all memory", pod: { containers: [requesting("foo1", String(CAPACITY))] }, want: 3 },
    { name: "Burstable with more than all memory", pod: { containers: [requesting("foo1", "40G")] }, want: 3 },
    { name: "a node-critical pod", pod: { containers: ["foo1"], spec: critical }, want: -997 },
    {
      name: "a static node-critical pod",
      pod: {
        containers: ["foo1"],
        annotations: { "kubernetes.io/config.source": "file" },
        spec: { priorityClassName: "system-node-critical" },
      },
      want: -997,
    },
    {
      name: "a cluster-critical pod",
      pod: { containers: ["foo1"], spec: { ...critical, priorityClassName: "system-cluster-critical" } },
      want: 1000,
    },
    {
      name: "a sidecar: that of the regular container with the smallest request",
      pod: { containers: [requesting("foo1", "1G"), requesting("foo2", "400M")], initContainers: [sidecarSpec("s1")] },
      container: "s1",
      want: 900,
    },
    {
      name: "a sidecar with a larger request",
      pod: { containers: [requesting("foo1", "400M")], initContainers: [sidecarSpec("s1", { resources: { requests: { memory: "2G" } } })] },
      container: "s1",
      want: 500,
    },
    {
      name: "a plain init container: that of its own request",
      pod: { containers: [requesting("foo1", "400M")], initContainers: ["init1"] },
      container: "init1",
      want: 999,
    },
  ];
  for (const { container: name = "foo1", name: title, pod: options, want } of table)
    it(`oom_score_adj is ${want} for ${title}`, () => {
      const pod = nodePod(options);
      const container = [...pod.spec.containers, ...(pod.spec.initContainers ?? [])].find((candidate) => candidate.name === name);
      expect(container && oomScoreAdj(pod, container, CAPACITY)).toBe(want);
    });
});

describe("sandboxResources", () => {
  const pair = (cpu: string, memory?: string) => ({ cpu, ...(memory !== undefined && { memory }) });
  const both = (name: string, cpu: string, memory?: string) => ({ name, resources: { requests: pair(cpu), limits: pair(cpu, memory) } });

  it("sums the requests of containers that run together", () => {
    const pod = nodePod({
      containers: [both("foo1", "250m", "64Mi"), both("foo2", "250m", "64Mi")],
      initContainers: [{ ...both("s1", "500m", "1Mi"), restartPolicy: "Always" }],
    });
    expect(sandboxResources(pod, MACHINE)).toEqual({
      cpuShares: 1024,
      cpuPeriod: 100_000,
      cpuQuota: 100_000,
      memoryLimitInBytes: 129 * MIB,
    });
  });

  it("uses an init container plus the sidecars before it if their sum is larger", () => {
    const pod = nodePod({
      containers: [both("foo1", "250m")],
      initContainers: [{ ...both("s1", "500m"), restartPolicy: "Always" }, both("init1", "1")],
    });
    expect(sandboxResources(pod, MACHINE)).toMatchObject({ cpuShares: 1536, cpuQuota: 150_000 });
  });

  it("excludes the overhead, which is a separate field", () => {
    const pod = nodePod({ containers: [both("foo1", "250m")], spec: { overhead: { cpu: "500m", memory: "1Mi" } } });
    expect(sandboxResources(pod, MACHINE)).toMatchObject({ cpuShares: 256, cpuQuota: 25_000 });
    expect(overheadResources(pod, MACHINE)).toEqual({ cpuShares: 512, cpuPeriod: 100_000, cpuQuota: 50_000, memoryLimitInBytes: MIB });
    expect(overheadResources(nodePod(), MACHINE)).toEqual({});
  });
});
