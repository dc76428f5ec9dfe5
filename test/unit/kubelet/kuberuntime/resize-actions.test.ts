// Would catch: a needless container restart, a container that keeps reduced resources, and a temporary overcommit.
import { describe, expect, it } from "vitest";
import { computePodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import { isResizeInProgress, resizeStep } from "../../../../shared/node-agent/kubelet/kuberuntime/resize-actions.ts";
import type { ContainerResources } from "../../../../shared/node-agent/ports/node-store.ts";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { container, containerSpec, NO_PROBES, nodePod, observed, sidecarSpec } from "../fixtures.ts";

type Policy = NonNullable<ContainerSpec["resizePolicy"]>;
const restartOf = (...names: readonly string[]): Policy =>
  names.map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
const has = (cpu: string, memory: string): ContainerResources => ({ requests: { cpu, memory }, limits: { cpu, memory } });

interface Case {
  readonly name: string;
  readonly actuated: ContainerResources | undefined;
  readonly desired: ContainerResources;
  readonly policy?: Policy;
  readonly want: readonly object[] | "restart";
}

describe("[node-agent 160] the actions for a running container", () => {
  const MB32 = 32 * 2 ** 20;
  const table: readonly Case[] = [
    { name: "does nothing if it already has the desired resources", actuated: has("1", "1Gi"), desired: has("1000m", "1024Mi"), want: [] },
    {
      name: "increases the CPU",
      actuated: has("1", "1Gi"),
      desired: has("2", "1Gi"),
      want: [{ resource: "cpu", change: "increase", resources: has("2", "1Gi") }],
    },
    {
      name: "decreases the memory with the current CPU first, then increases the CPU",
      actuated: has("1", "64Mi"),
      desired: has("2", "32Mi"),
      want: [
        {
          resource: "memory",
          change: "decrease",
          resources: { requests: { cpu: "1", memory: "32Mi" }, limits: { cpu: "1", memory: "32Mi" } },
          lowersMemoryLimitTo: MB32,
        },
        { resource: "cpu", change: "increase", resources: has("2", "32Mi") },
      ],
    },
    {
      name: "treats a smaller request under the same limit as a decrease, and does not check the usage",
      actuated: { requests: { memory: "64Mi" }, limits: { memory: "64Mi" } },
      desired: { requests: { memory: "32Mi" }, limits: { memory: "64Mi" } },
      want: [{ resource: "memory", change: "decrease", resources: { requests: { memory: "32Mi" }, limits: { memory: "64Mi" } } }],
    },
    {
      name: "sets a first memory limit as an increase, without checking the usage",
      actuated: { requests: { memory: "16Mi" } },
      desired: { requests: { memory: "16Mi" }, limits: { memory: "32Mi" } },
      want: [
        {
          resource: "memory",
          change: "increase",
          resources: { requests: { memory: "16Mi" }, limits: { memory: "32Mi" } },
          lowersMemoryLimitTo: MB32,
        },
      ],
    },
    {
      name: "restarts the container if the resize policy requires it",
      actuated: has("1", "1Gi"),
      desired: has("1", "2Gi"),
      policy: restartOf("memory"),
      want: "restart",
    },
    {
      name: "does not restart it for resources that the resize policy does not contain",
      actuated: has("1", "1Gi"),
      desired: has("2", "1Gi"),
      policy: restartOf("memory"),
      want: [{ resource: "cpu", change: "increase", resources: has("2", "1Gi") }],
    },
    {
      name: "[node-agent 173] does not restart it without recorded resources",
      actuated: undefined,
      desired: { requests: { cpu: "1" } },
      policy: restartOf("cpu", "memory"),
      want: [{ resource: "cpu", change: "increase", resources: { requests: { cpu: "1" } } }],
    },
  ];
  it.each(table)("a resize of a running container: $name", ({ actuated, desired, policy, want }) => {
    const spec = containerSpec("app", { resources: desired, ...(policy && { resizePolicy: policy }) });
    const step = resizeStep(spec, container({ name: "app", ...(actuated && { actuated }) }));
    if (want === "restart") expect(step).toEqual({ kill: { id: "app-0", name: "app", message: "Container app resize requires restart" } });
    else expect(step).toEqual({ updates: want.map((update) => ({ id: "app-0", name: "app", ...update })) });
  });
});

const wanting = (name: string, cpu: string, memory: string, fields: Partial<ContainerSpec> = {}): ContainerSpec =>
  containerSpec(name, { resources: has(cpu, memory), ...fields });
const having = (name: string, cpu: string, memory: string) => container({ name, actuated: has(cpu, memory) });

describe("[node-agent 161] the actions for a pod", () => {
  it("changes memory before CPU and decreases before increases, sidecars included", () => {
    const pod = nodePod({
      initContainers: [sidecarSpec("side", { resources: has("1", "2Gi") })],
      containers: [wanting("up", "2", "2Gi"), wanting("down", "1", "1Gi"), wanting("lower", "1", "1Gi")],
    });
    const now = observed({
      containers: [having("side", "1", "1Gi"), having("up", "1", "1Gi"), having("down", "2", "2Gi"), having("lower", "2", "1Gi")],
    });
    const { containersToUpdate, containersToKill, containersToStart } = computePodActions(pod, now, NO_PROBES);
    expect(containersToUpdate.map(({ resource, name, change }) => `${resource} ${name} ${change}`)).toEqual([
      "memory down decrease",
      "memory side increase",
      "memory up increase",
      "cpu lower decrease",
      "cpu down decrease",
      "cpu up increase",
    ]);
    expect([...containersToKill, ...containersToStart]).toEqual([]);
  });

  it("restarts the container for a resize whatever the pod's restartPolicy", () => {
    const pod = nodePod({ restartPolicy: "Never", containers: [wanting("app", "2", "1Gi", { resizePolicy: restartOf("cpu") }), "other"] });
    const now = observed({ containers: [having("app", "1", "1Gi"), container({ name: "other" })] });
    const actions = computePodActions(pod, now, NO_PROBES);
    expect(actions).toMatchObject({ containersToStart: [0], containersToKill: [{ name: "app" }], containersToUpdate: [], killPod: false });
  });

  it("restarts a sidecar by its resize policy while others keep running", () => {
    const pod = nodePod({
      initContainers: [sidecarSpec("side", { resources: has("2", "1Gi"), resizePolicy: restartOf("cpu") })],
      containers: ["app"],
    });
    const actions = computePodActions(pod, observed({ containers: [having("side", "1", "1Gi"), container({ name: "app" })] }), NO_PROBES);
    expect(actions).toMatchObject({ initContainersToStart: [0], containersToStart: [], containersToKill: [{ name: "side" }] });
  });

  it("resizes a running init container in place, even if its resize policy requires a restart", () => {
    const init = containerSpec("init", { resources: has("2", "1Gi"), resizePolicy: restartOf("cpu") });
    const actions = computePodActions(
      nodePod({ initContainers: [init], containers: ["app"] }),
      observed({ containers: [having("init", "1", "1Gi")] }),
      NO_PROBES,
    );
    expect(actions.containersToUpdate).toMatchObject([{ name: "init", resource: "cpu" }]);
    expect(actions.containersToKill).toEqual([]);
  });

  it("kills a container with a failed liveness probe for the probe, and does not resize it", () => {
    const pod = nodePod({ containers: [wanting("app", "2", "1Gi")] });
    const probes = { ...NO_PROBES, liveness: () => "Failure" as const };
    const actions = computePodActions(pod, observed({ containers: [having("app", "1", "1Gi")] }), probes);
    expect(actions.containersToUpdate).toEqual([]);
    expect(actions.containersToKill).toMatchObject([{ reason: "LivenessProbe" }]);
  });
});

describe("[node-agent 164] resizes in progress", () => {
  const granted = (actuated?: ContainerResources) => ({
    containers: { app: { allocated: has("2", "1Gi"), ...(actuated && { actuated }) } },
  });
  const runs = container({ name: "app" });
  it.each([
    {
      name: "is in progress while the container does not have the allocated resources",
      allocation: granted(has("1", "1Gi")),
      one: runs,
      want: true,
    },
    {
      name: "is not in progress when the container has the allocated resources",
      allocation: granted(has("2000m", "1Gi")),
      one: runs,
      want: false,
    },
    {
      name: "is not in progress for a container that does not run",
      allocation: granted(has("1", "1Gi")),
      one: container({ name: "app", state: "CONTAINER_EXITED" }),
      want: false,
    },
    { name: "[node-agent 173] is not in progress without recorded resources", allocation: granted(), one: runs, want: false },
  ])("a resize $name", ({ allocation, one, want }) => expect(isResizeInProgress(allocation, observed({ containers: [one] }))).toBe(want));
});
