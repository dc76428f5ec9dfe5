// Would catch: a node that admits more than its capacity because init containers, sidecars or the overhead are counted wrongly.
import { describe, expect, it } from "vitest";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { podRequests, wholeAmount } from "../../../../shared/node-agent/kubelet/types/pod-requests.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

describe("podRequests", () => {
  const cpu = (name: string, amount: string, fields: Partial<ContainerSpec> = {}): ContainerSpec =>
    containerSpec(name, { resources: { requests: { cpu: amount } }, ...fields });
  const sidecar = (name: string, amount: string): ContainerSpec => cpu(name, amount, { restartPolicy: "Always" });
  it.each([
    { name: "the sum of the containers", given: nodePod({ containers: [cpu("a", "100m"), cpu("b", "0.2"), "c"] }), want: 300 },
    {
      name: "those of the largest init container, if they are larger",
      given: nodePod({ containers: [cpu("a", "100m")], initContainers: [cpu("i", "1"), cpu("j", "2")] }),
      want: 2000,
    },
    {
      name: "sidecars plus the regular containers",
      given: nodePod({ containers: [cpu("a", "1")], initContainers: [sidecar("s", "1"), cpu("i", "500m")] }),
      want: 2000,
    },
    {
      name: "an init container plus the sidecars before it",
      given: nodePod({
        containers: [cpu("a", "1"), cpu("b", "1")],
        initContainers: [cpu("i", "2"), sidecar("s", "1"), cpu("j", "3"), sidecar("t", "100m")],
      }),
      want: 4000,
    },
    {
      name: "the sum plus the pod overhead",
      given: nodePod({ containers: [cpu("a", "1")], spec: { overhead: { cpu: "250m" } } }),
      want: 1250,
    },
    {
      name: "the pod-level requests plus the pod overhead, if set",
      given: nodePod({ containers: [cpu("a", "1")], spec: { resources: { requests: { cpu: "3" } }, overhead: { cpu: "1" } } }),
      want: 4000,
    },
    { name: "rounded up to a millicore", given: nodePod({ containers: [cpu("a", "100u")] }), want: 1 },
    { name: "0 for an invalid quantity", given: nodePod({ containers: [cpu("a", "much")] }), want: 0 },
  ])("a pod's requests are $name", ({ given, want }) => {
    expect(wholeAmount(podRequests(given), "cpu")).toBe(want);
  });
});
