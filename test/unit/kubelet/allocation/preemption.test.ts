// Would catch: a critical pod that is rejected although other pods could be preempted, a Guaranteed pod that is preempted instead of one
// with a lower QoS class, and more preempted pods than necessary.
import { describe, expect, it } from "vitest";
import { admit } from "../../../../shared/node-agent/kubelet/allocation/admission.ts";
import { preemptionFor } from "../../../../shared/node-agent/kubelet/allocation/preemption.ts";
import type { Shortage } from "../../../../shared/node-agent/kubelet/allocation/preemption.ts";
import type { NodePod, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

const CRITICAL = 2_000_000_000;
type Amounts = Readonly<Record<string, string>>;

function asking(name: string, requests: Amounts, limits: Amounts = {}, spec: Partial<PodSpec> = {}): NodePod {
  return nodePod({ name, uid: name, containers: [containerSpec("main", { resources: { requests, limits } })], spec });
}
const burstable = (name: string, cpu: string, memory = "1Mi"): NodePod => asking(name, { cpu, memory });
const guaranteed = (name: string, cpu: string, memory = "1Mi"): NodePod => asking(name, { cpu, memory }, { cpu, memory });
const bestEffort = (name: string): NodePod => asking(name, {});
const critical = (name: string, requests: Amounts = {}, priority = CRITICAL): NodePod => asking(name, requests, {}, { priority });
const MI = 2 ** 20;
const cpu = (missing: number): Shortage => ({ resource: "cpu", missing });
const memory = (mebibytes: number): Shortage => ({ resource: "memory", missing: mebibytes * MI });
const pods = (missing: number): Shortage => ({ resource: "pods", missing });

describe("candidates for preemption", () => {
  it.each<{
    readonly name: string;
    readonly active: readonly NodePod[];
    readonly short: readonly Shortage[];
    readonly want: readonly string[];
  }>([
    {
      name: "the smallest sufficient pod",
      active: [burstable("b300", "300m"), burstable("b100", "100m"), burstable("b200", "200m")],
      short: [cpu(150)],
      want: ["b200"],
    },
    {
      name: "as few pods as possible, the largest first",
      active: [burstable("b100", "100m"), burstable("b200", "200m"), burstable("b150", "150m")],
      short: [cpu(250)],
      want: ["b200", "b100"],
    },
    {
      name: "Burstable pods before Guaranteed ones",
      active: [guaranteed("g", "100m"), burstable("b", "100m")],
      short: [cpu(100)],
      want: ["b"],
    },
    {
      name: "Guaranteed pods only if the other pods cannot free enough",
      active: [guaranteed("g500", "500m"), guaranteed("g100", "100m"), burstable("b", "400m")],
      short: [cpu(450)],
      want: ["b", "g100"],
    },
    {
      name: "no Burstable pod that a selected Guaranteed pod makes unnecessary",
      active: [guaranteed("g", "500m"), burstable("b", "100m")],
      short: [cpu(500)],
      want: ["g"],
    },
    {
      name: "a BestEffort pod for a free pod slot",
      active: [guaranteed("g", "1"), burstable("b", "1"), bestEffort("e")],
      short: [pods(1)],
      want: ["e"],
    },
    {
      name: "a pod with nine tenths of the missing CPU before one with six tenths of the memory",
      active: [burstable("m", "100m", "600Mi"), burstable("c", "900m", "400Mi")],
      short: [cpu(1_000), memory(1_000)],
      want: ["c", "m"],
    },
    {
      name: "the pod with the smaller memory request of two otherwise equal ones",
      active: [burstable("large", "100m", "9Mi"), burstable("small", "100m", "1Mi")],
      short: [cpu(50)],
      want: ["small"],
    },
    {
      name: "the later of two equal pods",
      active: [burstable("first", "100m"), burstable("second", "100m")],
      short: [cpu(50)],
      want: ["second"],
    },
    {
      name: "a critical pod of lower priority",
      active: [critical("lower", { cpu: "100m" }, CRITICAL), bestEffort("e")],
      short: [cpu(100)],
      want: ["lower"],
    },
  ])("[node-agent 471] preemption selects $name", ({ active, short, want }) => {
    const preemption = preemptionFor(critical("new", {}, CRITICAL + 1_000), active, short);
    expect(preemption.kind === "preempts" && preemption.pods.map(({ metadata }) => metadata.name)).toEqual(want);
  });

  it("[node-agent 471] excludes critical pods of the same priority and pods without a priority", () => {
    const unset = nodePod({
      name: "static",
      annotations: { "kubernetes.io/config.source": "file" },
      containers: [containerSpec("m", { resources: { requests: { cpu: "1" } } })],
    });
    expect(preemptionFor(critical("new"), [critical("other", { cpu: "1" }), unset], [cpu(100)])).toEqual({
      kind: "impossible",
      missing: [cpu(100)],
    });
  });
});

describe("a critical pod with insufficient resources", () => {
  const admitting = (pod: NodePod, others: readonly NodePod[], more: object = {}): ReturnType<typeof admit> =>
    admit({
      ...{ pod, others, node: { name: "n1", labels: {}, taints: [] } },
      allocatable: { cpuMilli: 1_000, memoryBytes: 1_024 * MI, ephemeralStorageBytes: 2 ** 33, pods: 2 },
      ...more,
    });

  it("[node-agent 471] a critical pod is admitted after its victims have terminated, which are selected for the insufficient resource", () => {
    const others = [burstable("a", "600m"), burstable("b", "400m")];
    expect(admitting(critical("new", { cpu: "500m" }), others)).toEqual({
      admitted: true,
      // One pod slot and half a CPU are missing.
      preemption: { kind: "preempts", signal: "pods", pods: [others[0]] },
    });
  });

  it("[node-agent 471] a critical pod is rejected without victims when preemption cannot help", () => {
    const others = [burstable("a", "1"), burstable("b", "1m")];
    const elsewhere = asking("new", { cpu: "1" }, {}, { priority: CRITICAL, nodeSelector: { disk: "ssd" } });
    expect(admitting(elsewhere, others)).toMatchObject({ admitted: false, reason: "NodeAffinity", rereadNode: true });
    expect(admitting(critical("new", { cpu: "1" }), others, { shuttingDown: true })).toMatchObject({
      admitted: false,
      reason: "NodeShutdown",
    });
  });

  it("[node-agent 471] a critical pod is rejected when all candidates together do not suffice", () => {
    expect(admitting(critical("new", { cpu: "1100m" }), [burstable("a", "50m")])).toEqual({
      admitted: false,
      reason: "UnexpectedAdmissionError",
      message:
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]",
    });
  });

  it("[node-agent 471] preempts no pod for a pod that is not critical, and rejects that pod", () => {
    expect(admitting(burstable("new", "500m"), [burstable("a", "600m")])).toMatchObject({ admitted: false, reason: "OutOfcpu" });
  });
});
