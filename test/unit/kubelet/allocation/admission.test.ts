// Would catch: a pod that is admitted although it must not run, a pod that is rejected needlessly, and a reason or message that differs
// from upstream's.
import { describe, expect, it } from "vitest";
import { admit } from "../../../../shared/node-agent/kubelet/allocation/admission.ts";
import type { AdmissionInput } from "../../../../shared/node-agent/kubelet/allocation/admission.ts";
import type { ContainerSpec, NodePod, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";

const NODE = { name: "n1", labels: { disk: "ssd", cores: "8" }, taints: [] };
const ALLOCATABLE = { cpuMilli: 1000, memoryBytes: 1024 ** 3, ephemeralStorageBytes: 10 * 1024 ** 3, pods: 3 };

const asking = (requests: Readonly<Record<string, string>>): ContainerSpec => containerSpec("main", { resources: { requests } });
const pod = (spec: Partial<PodSpec> = {}, options: PodOptions = {}): NodePod => nodePod({ containers: ["main"], ...options, spec });
const onPort = (port: Readonly<Record<string, unknown>>): NodePod =>
  nodePod({ containers: [containerSpec("main", { ports: [{ containerPort: 80, ...port }] })] });

function admitting(given: Partial<AdmissionInput>): ReturnType<typeof admit> {
  return admit({ pod: pod(), others: [], node: NODE, allocatable: ALLOCATABLE, ...given });
}

/** Returns the reason of the rejection; undefined if the pod is admitted. */
function reason(given: Partial<AdmissionInput>): string | undefined {
  const admission = admitting(given);
  return admission.admitted ? undefined : admission.reason;
}

describe("admit", () => {
  it("admits a pod without special requirements", () => {
    expect(admitting({})).toEqual({ admitted: true });
  });

  describe("node pressure", () => {
    const tolerating = { tolerations: [{ key: "node.kubernetes.io/memory-pressure", operator: "Exists", effect: "NoSchedule" }] };
    const staticPod = nodePod({ containers: ["main"], annotations: { "kubernetes.io/config.source": "file" } });
    const burstable = nodePod({ containers: [asking({ cpu: "1m" })] });
    it.each<{ readonly name: string; readonly given: Partial<AdmissionInput>; readonly want: string | undefined }>([
      { name: "without pressure, admits any pod", given: { pressure: [] }, want: undefined },
      { name: "memory pressure rejects a pod without requests", given: { pressure: ["MemoryPressure"] }, want: "Evicted" },
      {
        name: "memory pressure admits a pod that tolerates the taint",
        given: { pressure: ["MemoryPressure"], pod: pod(tolerating) },
        want: undefined,
      },
      { name: "memory pressure admits a pod with requests", given: { pressure: ["MemoryPressure"], pod: burstable }, want: undefined },
      { name: "disk pressure rejects a pod with requests", given: { pressure: ["DiskPressure"], pod: burstable }, want: "Evicted" },
      {
        name: "disk and memory pressure reject a pod that tolerates memory pressure",
        given: { pressure: ["MemoryPressure", "DiskPressure"], pod: pod(tolerating) },
        want: "Evicted",
      },
      { name: "PID pressure rejects a pod with requests", given: { pressure: ["PIDPressure"], pod: burstable }, want: "Evicted" },
      {
        name: "pressure rejects a pod just below critical priority",
        given: { pressure: ["DiskPressure"], pod: pod({ priority: 1_999_999_999 }) },
        want: "Evicted",
      },
      {
        name: "pressure admits a critical pod",
        given: { pressure: ["DiskPressure"], pod: pod({ priority: 2_000_000_000 }) },
        want: undefined,
      },
      { name: "pressure admits a static pod", given: { pressure: ["DiskPressure"], pod: staticPod }, want: undefined },
      {
        name: "is checked before all other predicates",
        given: { pressure: ["DiskPressure"], pod: pod({ nodeSelector: { disk: "hdd" } }) },
        want: "Evicted",
      },
    ])("[node-agent 211] node pressure: $name", ({ given, want }) => expect(reason(given)).toBe(want));
  });

  describe("resources", () => {
    const other = nodePod({ uid: "other", containers: [asking({ cpu: "600m", memory: "512Mi" })] });

    it("[node-agent 90] rejects a pod when no CPU is free", () => {
      expect(admitting({ pod: nodePod({ containers: [asking({ cpu: "0.5" })] }), others: [other] })).toEqual({
        admitted: false,
        reason: "OutOfcpu",
        message: "Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000",
      });
    });

    it("counts memory in bytes", () => {
      expect(admitting({ pod: nodePod({ containers: [asking({ memory: "513Mi" })] }), others: [other] })).toMatchObject({
        reason: "OutOfmemory",
        message: "Node didn't have enough resource: memory, requested: 537919488, used: 536870912, capacity: 1073741824",
      });
    });

    it.each([
      { name: "a pod that fits exactly", requests: { cpu: "400m", memory: "512Mi", "ephemeral-storage": "10Gi" }, want: undefined },
      { name: "more storage than the node has", requests: { "ephemeral-storage": "11Gi" }, want: "OutOfephemeral-storage" },
      { name: "huge pages of the node", requests: { "hugepages-2Mi": "4Mi" }, want: "OutOfhugepages-2Mi" },
      { name: "an extended resource that the node does not have, which is ignored", requests: { "example.com/gpu": "1" }, want: undefined },
      { name: "several missing resources: the CPU is reported", requests: { memory: "9Gi", cpu: "9" }, want: "OutOfcpu" },
    ])("resource requests: $name → $want", ({ requests, want }) => {
      expect(reason({ pod: nodePod({ containers: [asking(requests)] }), others: [other] })).toBe(want);
    });

    it("the number of pods is checked before other resources", () => {
      const full = { pod: nodePod({ containers: [asking({ cpu: "9" })] }), others: [pod(), pod(), pod()] };
      expect(admitting(full)).toMatchObject({
        reason: "OutOfpods",
        message: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
      });
    });

    it("admits a pod without requests on an overcommitted node", () => {
      expect(reason({ others: [nodePod({ containers: [asking({ cpu: "5" })] })] })).toBeUndefined();
    });
  });

  describe("node selector and affinity", () => {
    const required = (...nodeSelectorTerms: object[]): Partial<PodSpec> =>
      // The tables write terms as a manifest does.
      ({ affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } } }) as Partial<PodSpec>;
    const expression = (key: string, operator: string, ...values: string[]): object => ({ matchExpressions: [{ key, operator, values }] });
    const field = (operator: string, ...values: string[]): object => ({ matchFields: [{ key: "metadata.name", operator, values }] });

    it.each([
      { name: "a selector that matches", spec: { nodeSelector: { disk: "ssd" } }, want: true },
      { name: "a selector that does not match", spec: { nodeSelector: { disk: "hdd" } }, want: false },
      { name: "a label with the name of a method", spec: { nodeSelector: { constructor: "x" } }, want: false },
      { name: "In", spec: required(expression("disk", "In", "hdd", "ssd")), want: true },
      { name: "In, label missing", spec: required(expression("zone", "In", "a")), want: false },
      { name: "NotIn", spec: required(expression("disk", "NotIn", "ssd")), want: false },
      { name: "NotIn, label missing", spec: required(expression("zone", "NotIn", "a")), want: true },
      { name: "Exists", spec: required(expression("disk", "Exists")), want: true },
      { name: "DoesNotExist", spec: required(expression("disk", "DoesNotExist")), want: false },
      { name: "Gt", spec: required(expression("cores", "Gt", "7")), want: true },
      { name: "Gt with an equal value", spec: required(expression("cores", "Gt", "8")), want: false },
      { name: "Lt", spec: required(expression("cores", "Lt", "9")), want: true },
      { name: "Gt for a label that is not a number", spec: required(expression("disk", "Gt", "7")), want: false },
      { name: "an unknown operator", spec: required(expression("disk", "Like", "s*")), want: false },
      { name: "one of two terms", spec: required(expression("disk", "In", "hdd"), expression("disk", "In", "ssd")), want: true },
      {
        name: "one of two expressions of a term",
        spec: required({
          matchExpressions: [
            { key: "disk", operator: "Exists" },
            { key: "zone", operator: "Exists" },
          ],
        }),
        want: false,
      },
      { name: "a term without expressions", spec: required({}), want: false },
      { name: "a metadata.name field that matches this node", spec: required(field("In", "n1")), want: true },
      { name: "a metadata.name field that excludes this node", spec: required(field("NotIn", "n1")), want: false },
      {
        name: "a field that nodes do not have",
        spec: required({ matchFields: [{ key: "metadata.uid", operator: "In", values: ["n1"] }] }),
        want: false,
      },
      {
        name: "an affinity that matches and a selector that does not",
        spec: { nodeSelector: { disk: "hdd" }, ...required(field("In", "n1")) },
        want: false,
      },
    ])("node selector and affinity: $name, admitted: $want", ({ spec, want }) => {
      expect(reason({ pod: pod(spec) })).toBe(want ? undefined : "NodeAffinity");
    });

    it("[node-agent 90] requests a second check with the current Node if only the node affinity failed", () => {
      const wanting = pod({ nodeSelector: { zone: "a" } });
      const message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
      expect(admitting({ pod: wanting })).toEqual({ admitted: false, reason: "NodeAffinity", message, rereadNode: true });
      expect(admitting({ pod: wanting, node: { ...NODE, labels: { zone: "a" } } })).toEqual({ admitted: true });
      expect(admitting({ pod: pod({ nodeSelector: { zone: "a" }, nodeName: "n2" }) })).toEqual({
        admitted: false,
        reason: "NodeAffinity",
        message,
      });
    });
  });

  describe("host ports", () => {
    const taken = onPort({ hostPort: 8080, protocol: "TCP" });
    it("[node-agent 90] rejects a host port in use", () => {
      expect(admitting({ pod: onPort({ hostPort: 8080, protocol: "TCP" }), others: [taken] })).toEqual({
        admitted: false,
        reason: "NodePorts",
        message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
      });
    });

    const sidecarOn = nodePod({ initContainers: [sidecarSpec("s", { ports: [{ containerPort: 1, hostPort: 8080 }] })] });
    const initOn = nodePod({ initContainers: [containerSpec("i", { ports: [{ containerPort: 1, hostPort: 8080 }] })] });
    it.each([
      { name: "another port", one: onPort({ hostPort: 8081 }), other: taken, want: true },
      { name: "another protocol", one: onPort({ hostPort: 8080, protocol: "UDP" }), other: taken, want: true },
      { name: "an absent protocol means TCP", one: onPort({ hostPort: 8080 }), other: taken, want: false },
      {
        name: "a port on one address that is taken on all addresses",
        one: onPort({ hostPort: 8080, hostIP: "10.0.0.1" }),
        other: taken,
        want: false,
      },
      {
        name: "a port on all addresses that is taken on one address",
        one: taken,
        other: onPort({ hostPort: 8080, hostIP: "10.0.0.1" }),
        want: false,
      },
      {
        name: "the same port on two different addresses",
        one: onPort({ hostPort: 8080, hostIP: "10.0.0.2" }),
        other: onPort({ hostPort: 8080, hostIP: "10.0.0.1" }),
        want: true,
      },
      { name: "container ports without host ports", one: onPort({}), other: onPort({}), want: true },
      { name: "a sidecar's port", one: sidecarOn, other: taken, want: false },
      { name: "an init container's port", one: initOn, other: taken, want: true },
    ])("host ports: $name, admitted: $want", ({ one, other, want }) => {
      expect(reason({ pod: one, others: [other] })).toBe(want ? undefined : "NodePorts");
    });
  });

  describe("taints", () => {
    const noExecute = { key: "gone", value: "yes", effect: "NoExecute" };
    const given = (tolerations: NonNullable<PodSpec["tolerations"]>, options: PodOptions = {}): Partial<AdmissionInput> => ({
      pod: pod({ tolerations }, options),
      node: { ...NODE, taints: [noExecute, { key: "busy", effect: "NoSchedule" }] },
    });
    it.each([
      { name: "no toleration", tolerations: [], want: false },
      { name: "a toleration of everything", tolerations: [{ operator: "Exists" }], want: true },
      { name: "a toleration of the effect", tolerations: [{ operator: "Exists", effect: "NoExecute" }], want: true },
      { name: "a toleration of another effect", tolerations: [{ operator: "Exists", effect: "NoSchedule" }], want: false },
      { name: "a toleration of key and value", tolerations: [{ key: "gone", operator: "Equal", value: "yes" }], want: true },
      { name: "a toleration of key and value without an operator", tolerations: [{ key: "gone", value: "yes" }], want: true },
      { name: "a toleration of another value", tolerations: [{ key: "gone", value: "no" }], want: false },
      { name: "a toleration of another key", tolerations: [{ key: "here", operator: "Exists" }], want: false },
      { name: "a toleration with an unknown operator", tolerations: [{ key: "gone", operator: "Gt", value: "yes" }], want: false },
    ])("a NoExecute taint and $name, admitted: $want", ({ tolerations, want }) => {
      expect(reason(given(tolerations))).toBe(want ? undefined : "TaintToleration");
    });

    it("admits a static pod without tolerations, and never rejects a pod for a NoSchedule taint", () => {
      expect(reason(given([], { annotations: { "kubernetes.io/config.source": "file" } }))).toBeUndefined();
      expect(reason({ node: { ...NODE, taints: [{ key: "busy", effect: "NoSchedule" }] } })).toBeUndefined();
    });
  });

  it.each([
    { name: "another node's name", pod: pod({ nodeName: "n2" }), want: "NodeName" },
    { name: "no node name", pod: pod({ nodeName: "" }), want: undefined },
    {
      name: "another operating system by label",
      pod: pod({}, { labels: { "kubernetes.io/os": "windows" } }),
      want: "PodOSSelectorNodeLabelDoesNotMatch",
    },
    { name: "another operating system by spec", pod: pod({ os: { name: "windows" } }), want: "PodOSNotSupported" },
    {
      name: "the node's operating system",
      pod: pod({ os: { name: "linux" } }, { labels: { "kubernetes.io/os": "linux" } }),
      want: undefined,
    },
    {
      name: "a safe sysctl",
      pod: pod({ securityContext: { sysctls: [{ name: "net/ipv4/ip_local_port_range", value: "1 2" }] } }),
      want: undefined,
    },
    ...["net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"].map((name) => ({
      name: `the safe ${name}`,
      pod: pod({ securityContext: { sysctls: [{ name, value: "1" }] } }),
      want: undefined,
    })),
    {
      name: "an unsafe sysctl",
      pod: pod({ securityContext: { sysctls: [{ name: "kernel.msgmax", value: "1" }] } }),
      want: "SysctlForbidden",
    },
    {
      name: "a network sysctl on the host network",
      pod: pod({ hostNetwork: true, securityContext: { sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "1" }] } }),
      want: "SysctlForbidden",
    },
    {
      name: "a shared memory sysctl with the host's IPC namespace",
      pod: pod({ hostIPC: true, securityContext: { sysctls: [{ name: "kernel.shm_rmid_forced", value: "1" }] } }),
      want: "SysctlForbidden",
    },
  ])("the rejection reason is $want for a pod with $name", ({ pod: given, want }) => {
    expect(reason({ pod: given })).toBe(want);
  });

  it("the message contains the forbidden sysctl and the reason", () => {
    const withSysctl = (name: string, spec: Partial<PodSpec> = {}): NodePod =>
      pod({ ...spec, securityContext: { sysctls: [{ name, value: "1" }] } });
    expect(admitting({ pod: withSysctl("kernel/msgmax") })).toMatchObject({ message: 'forbidden sysctl: "kernel.msgmax" not allowlisted' });
    expect(admitting({ pod: withSysctl("net.ipv4.tcp_rmem", { hostNetwork: true }) })).toMatchObject({
      message: 'forbidden sysctl: "net.ipv4.tcp_rmem" not allowed with host Net enabled',
    });
  });

  it("the rejection has the reason of the first predicate that fails", () => {
    const wrong = pod({ nodeName: "n2", nodeSelector: { disk: "hdd" }, containers: [asking({ cpu: "9" })], os: { name: "windows" } });
    expect(reason({ pod: wrong })).toBe("PodOSNotSupported");
    expect(reason({ pod: { ...wrong, spec: { ...wrong.spec, os: { name: "linux" } } } })).toBe("OutOfcpu");
    expect(reason({ pod: pod({ nodeName: "n2", nodeSelector: { disk: "hdd" } }) })).toBe("NodeAffinity");
  });
});
