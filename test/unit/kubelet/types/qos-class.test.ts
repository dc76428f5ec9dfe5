// Would catch: a pod in the wrong cgroup, and a pod whose QoS class changes while it runs.
import { expect, it } from "vitest";
import { qosClass } from "../../../../shared/node-agent/kubelet/types/pod-requests.ts";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

type Resources = NonNullable<ContainerSpec["resources"]>;
const full: Resources = { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "1000m", memory: "1024Mi" } };

const table: readonly { name: string; resources: readonly Resources[]; init?: Resources; want: string }[] = [
  { name: "no requests", resources: [{}, {}], want: "BestEffort" },
  { name: "requests of 0 are treated as none", resources: [{ limits: { cpu: "0" }, requests: { memory: "0" } }], want: "BestEffort" },
  { name: "other resources do not count", resources: [{ limits: { "example.com/gpu": "1" } }], want: "BestEffort" },
  { name: "[node-agent 114] limits = requests, in any notation", resources: [full, full], want: "Guaranteed" },
  { name: "limits without requests are used as requests", resources: [{ limits: { cpu: "1", memory: "1Gi" } }], want: "Guaranteed" },
  { name: "no memory limit", resources: [{ limits: { cpu: "1" }, requests: { cpu: "1" } }], want: "Burstable" },
  { name: "one container without requests", resources: [full, {}], want: "Burstable" },
  { name: "a request below its limit", resources: [{ ...full, requests: { cpu: "500m", memory: "1Gi" } }], want: "Burstable" },
  { name: "an init container without requests", resources: [full], init: {}, want: "Burstable" },
  { name: "only an init container with requests", resources: [{}], init: { requests: { cpu: "1m" } }, want: "Burstable" },
];
it.each(table)("QoS class: $name → $want", ({ resources, init, want }) => {
  const pod = nodePod({
    containers: resources.map((one, index) => containerSpec(`c${index}`, { resources: one })),
    ...(init !== undefined && { initContainers: [containerSpec("init", { resources: init })] }),
  });
  expect(qosClass(pod)).toBe(want);
});

it("keeps the API server's value, whatever the spec contains later", () => {
  expect(qosClass(nodePod({ containers: [containerSpec("a", { resources: full })], status: { qosClass: "Burstable" } }))).toBe("Burstable");
});
