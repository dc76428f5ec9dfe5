// Would catch: a misread reservation, a node that reports reserved resources as allocatable, and flags that contradict each other.
import { describe, expect, it } from "vitest";
import { cgroupPolicy, cgroupRoots, withReserved } from "../../../../cli/node/node-cgroups.ts";
import type { CgroupFlags } from "../../../../cli/node/node-cgroups.ts";
import { parseReserved, together } from "../../../../shared/node-agent/kubelet/container-manager/reserved.ts";
import { admit } from "../../../../shared/node-agent/kubelet/allocation/admission.ts";
import { DEFAULT_EVICTION } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import { allocatableOf, resourceQuantities } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import { containerSpec, nodePod } from "../fixtures.ts";
import { FACTS, MACHINE, OPTIONS } from "../../../harness/node/fixtures.ts";

const MIB = 1024 ** 2;

describe("parseReserved", () => {
  it("[node-agent 186] parses all four resources in any quantity notation, rounded up, and CPU to the nearest millicore", () => {
    const want = { cpuMilli: 200, memoryBytes: 500 * MIB, ephemeralStorageBytes: 1024 * MIB, pids: 1000 };
    expect(parseReserved("cpu=200m, memory=500Mi,ephemeral-storage=1Gi,pid=1k")).toEqual(want);
    expect(parseReserved("cpu=0.5")).toEqual({ cpuMilli: 500 });
    expect(["100u", "499u", "500u", "1400u", "1500u"].map((cpu) => parseReserved(`cpu=${cpu}`).cpuMilli)).toEqual([0, 0, 1, 1, 2]);
    expect(parseReserved("memory=1500m")).toEqual({ memoryBytes: 2 });
    expect(parseReserved("")).toEqual({});
  });
  it.each([
    ["example.com/gpu=1", 'cannot reserve "example.com/gpu" resource'],
    ["constructor=1", 'cannot reserve "constructor" resource'],
    ["cpu=many", 'failed to parse quantity "many" for "cpu" resource'],
    ["memory=-1Mi", 'resource quantity for "memory" cannot be negative: -1Mi'],
    ["cpu", '"cpu" is not of the form resource=amount'],
  ])("[node-agent 186] rejects the reservation %s", (text, message) => expect(() => parseReserved(text)).toThrow(message));

  it("[node-agent 186] adds kube-reserved and system-reserved", () => {
    expect(together({ cpuMilli: 100, pids: 5 }, { cpuMilli: 50, memoryBytes: 7 })).toEqual({ cpuMilli: 150, memoryBytes: 7, pids: 5 });
  });
});

describe("allocatable", () => {
  const machine = {
    ...MACHINE,
    memoryBytes: 1024 * MIB,
    reserved: { cpuMilli: 1500, memoryBytes: 200 * MIB, ephemeralStorageBytes: 2 ** 30, pids: 100 },
    hugePageSizes: ["2MB", "1GB"],
    hugePageBytes: { "2MB": 64 * MIB, "1GB": 0 },
  };

  it("[node-agent 186] allocatable is capacity minus reservations, eviction thresholds and huge pages", () => {
    expect(resourceQuantities(machine)).toMatchObject({ cpu: "4", memory: "1Gi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0" });
    const { ephemeralStorageBytes } = allocatableOf(machine);
    expect(resourceQuantities(allocatableOf(machine))).toMatchObject({ cpu: "2500m", memory: "660Mi", "hugepages-2Mi": "64Mi" });
    expect(ephemeralStorageBytes).toBe(allocatableOf(MACHINE).ephemeralStorageBytes - 2 ** 30);
  });

  it.each([
    { name: "as many huge pages as the node has", request: { "hugepages-2Mi": "64Mi" }, want: undefined },
    { name: "more huge pages than the node has", request: { "hugepages-2Mi": "66Mi" }, want: "OutOfhugepages-2Mi" },
    { name: "huge pages of a size that the node does not have", request: { "hugepages-64Ki": "64Ki" }, want: "OutOfhugepages-64Ki" },
    { name: "reserved resources are not available", request: { cpu: "2600m" }, want: "OutOfcpu" },
  ])("[node-agent 186] admission with reservations: $name", ({ request, want }) => {
    const pod = nodePod({ containers: [containerSpec("a", { resources: { requests: request } })] });
    const node = { labels: {}, name: "n1", taints: [] };
    const answer = admit({ pod, others: [], node, allocatable: allocatableOf(machine) });
    expect(answer.admitted ? undefined : answer.reason).toBe(want);
  });
});

const FLAGS: CgroupFlags = {
  cgroupsPerQos: true,
  enforceNodeAllocatable: "pods",
  kubeReserved: "",
  systemReserved: "",
  podMaxPids: -1,
  oomScoreAdj: -999,
};

describe("flags", () => {
  it("[node-agent 187] the flags list the enforced levels and their cgroups", () => {
    const policy = cgroupPolicy({
      ...FLAGS,
      enforceNodeAllocatable: "pods,kube-reserved,system-reserved-compressible",
      kubeReserved: "cpu=1",
      kubeReservedCgroup: "kube/",
      systemReservedCgroup: "/system.slice",
    });
    expect(policy).toEqual({
      perQos: true,
      enforce: ["pods", "kube-reserved", "system-reserved-compressible"],
      kubeReserved: { resources: { cpuMilli: 1000 }, cgroup: "/kube" },
      systemReserved: { resources: {}, cgroup: "/system.slice" },
      podMaxPids: -1,
    });
    expect(cgroupRoots({ ...OPTIONS, cgroups: policy })).toEqual(["/kubepods", "/kube", "/system.slice"]);
    expect(cgroupRoots({ ...OPTIONS, cgroupDriver: "systemd", cgroups: policy })).toEqual([
      "/kubepods.slice",
      "/kube.slice",
      "/system.slice",
    ]);
    expect(cgroupPolicy({ ...FLAGS, cgroupsPerQos: false, enforceNodeAllocatable: "none" })).toMatchObject({ perQos: false, enforce: [] });
  });
  const refused: readonly (readonly [Partial<CgroupFlags>, string])[] = [
    [{ enforceNodeAllocatable: "none,pods" }, '"none" cannot be combined with other values'],
    [{ enforceNodeAllocatable: "all" }, 'not "all"'],
    [{ cgroupsPerQos: false }, "needs --cgroups-per-qos=true"],
    [{ enforceNodeAllocatable: "kube-reserved" }, "--enforce-node-allocatable=kube-reserved needs --kube-reserved-cgroup"],
    [
      { enforceNodeAllocatable: "system-reserved,system-reserved-compressible" },
      "takes system-reserved or system-reserved-compressible, not both",
    ],
    [{ kubeReserved: "disk=1" }, '--kube-reserved: cannot reserve "disk" resource'],
  ];
  it.each(refused)("[node-agent 187] rejects the flags %j", (flags, message) => {
    expect(() => cgroupPolicy({ ...FLAGS, ...flags })).toThrow(message);
  });
  it("[node-agent 187] rejects reservations and eviction thresholds above capacity", () => {
    const facts = { ...FACTS, resources: MACHINE };
    const of = (kubeReserved: string, systemReserved = ""): unknown =>
      withReserved(facts, cgroupPolicy({ ...FLAGS, kubeReserved, systemReserved }), DEFAULT_EVICTION).resources;
    expect(() => of("cpu=3", "cpu=2")).toThrow("cpu: 5000m of 4000m");
    expect(() => of("memory=7990000000")).toThrow("memory: ");
    expect(of("cpu=3", "cpu=1")).toMatchObject({ reserved: { cpuMilli: 4000 } });
  });
});
