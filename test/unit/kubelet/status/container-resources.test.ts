// Would catch: a status that omits a container's resources, a status that shows rounding to the kernel's units, and amounts that the API
// server formats differently, so that the agent would resend them forever.
import { expect, it } from "vitest";
import { statusResources } from "../../../../shared/node-agent/kubelet/status/container-resources.ts";
import type { ObservedContainer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerResources } from "../../../../shared/node-agent/ports/node-store.ts";
import { running } from "../container-status-fixtures.ts";
import { container, containerSpec } from "../fixtures.ts";

interface Case {
  readonly name: string;
  readonly allocated?: ContainerResources;
  readonly observed?: Partial<ObservedContainer>;
  readonly previous?: ContainerStatusEntry;
  readonly want: ReturnType<typeof statusResources>;
}

const ALL = { requests: { cpu: "200m", memory: "64Mi" }, limits: { cpu: "400m", memory: "128Mi" } };
const SET = { cpuShares: 102, cpuQuota: 20_000, cpuPeriod: 100_000, memoryLimitInBytes: 96 * 2 ** 20 };

const table: readonly Case[] = [
  { name: "absent requests and limits are omitted", want: { resources: {} } },
  {
    name: "a running container has the runtime's values, and the memory request that was set",
    allocated: ALL,
    observed: { resources: SET, actuated: { requests: { memory: "32Mi" } } },
    want: {
      allocatedResources: ALL.requests,
      resources: { requests: { cpu: "100m", memory: "32Mi" }, limits: { cpu: "200m", memory: "96Mi" } },
    },
  },
  {
    name: "a container that does not run has the allocated resources",
    allocated: ALL,
    observed: { state: "CONTAINER_EXITED", resources: SET },
    want: { allocatedResources: ALL.requests, resources: ALL },
  },
  {
    name: "the allocated resources if the runtime returns none",
    allocated: ALL,
    want: { allocatedResources: ALL.requests, resources: ALL },
  },
  {
    name: "the last values of the same container if the runtime no longer returns any",
    allocated: ALL,
    previous: running("app", { resources: { limits: { cpu: "300m" }, requests: { memory: "16Mi" } } }),
    want: {
      allocatedResources: ALL.requests,
      resources: { requests: { cpu: "200m", memory: "16Mi" }, limits: { cpu: "300m", memory: "128Mi" } },
    },
  },
  {
    name: "values of another instance are ignored",
    allocated: ALL,
    previous: running("app", { containerID: "containerd://app-7", resources: { limits: { cpu: "300m" } } }),
    want: { allocatedResources: ALL.requests, resources: ALL },
  },
  {
    name: "values below the kernel's units are reported as allocated",
    allocated: { requests: { cpu: "1m" }, limits: { cpu: "5m" } },
    observed: { resources: { cpuShares: 2, cpuQuota: 1000, cpuPeriod: 100_000 } },
    want: { allocatedResources: { cpu: "1m" }, resources: { requests: { cpu: "1m" }, limits: { cpu: "5m" } } },
  },
  {
    name: "CPU shares of a container with only a memory request are omitted",
    allocated: { requests: { memory: "64Mi" } },
    observed: { resources: { cpuShares: 2, memoryLimitInBytes: 0 } },
    want: { allocatedResources: { memory: "64Mi" }, resources: { requests: { memory: "64Mi" } } },
  },
  {
    name: "amounts are in the API server's notation",
    allocated: { requests: { cpu: "1000m", memory: "1024Mi" } },
    want: { allocatedResources: { cpu: "1", memory: "1Gi" }, resources: { requests: { cpu: "1", memory: "1Gi" } } },
  },
];

it.each(table)("[node-agent 163] resources in a container status: $name", ({ allocated, observed = {}, previous, want }) => {
  const spec = containerSpec("app", { ...(allocated && { resources: allocated }) });
  expect(statusResources(spec, container({ name: "app", ...observed }), previous)).toEqual(want);
});
