// Would catch: a resize that is not detected, a resize that is detected although only the notation differs, and a granted allocation that
// ignores running pods.
import { describe, expect, it } from "vitest";
import { allocatedPod, isResizeRequested, granted } from "../../../../shared/node-agent/kubelet/allocation/allocation.ts";
import { readAllocations, writtenAllocations } from "../../../../shared/node-agent/kubelet/allocation/checkpoint.ts";
import type { ContainerResources } from "../../../../shared/node-agent/ports/node-store.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

const withCpu = (cpu: string): ContainerResources => ({ requests: { cpu } });
const pod = (app: ContainerResources, init?: ContainerResources) =>
  nodePod({
    containers: [containerSpec("app", { resources: app }), "plain"],
    ...(init && { initContainers: [containerSpec("init", { resources: init })] }),
  });

describe("[node-agent 162] desired and allocated resources", () => {
  it.each([
    { name: "equal resources", has: pod(withCpu("1")), wants: pod(withCpu("1")), differs: false },
    { name: "equal resources in another notation", has: pod(withCpu("1")), wants: pod(withCpu("1000m")), differs: false },
    { name: "more CPU", has: pod(withCpu("1")), wants: pod(withCpu("2")), differs: true },
    { name: "an additional limit", has: pod(withCpu("1")), wants: pod({ ...withCpu("1"), limits: { memory: "1Gi" } }), differs: true },
    { name: "resources that were removed", has: pod(withCpu("1")), wants: pod({}), differs: true },
    { name: "a changed init container", has: pod({}, withCpu("1")), wants: pod({}, withCpu("2")), differs: true },
  ])("desired and allocated resources: $name", ({ has, wants, differs }) => {
    expect(isResizeRequested(wants, granted(has))).toBe(differs);
    if (differs) expect(allocatedPod(wants, granted(has)).spec).toEqual(has.spec);
    else expect(allocatedPod(wants, granted(has))).toBe(wants);
  });

  it("uses the resources in the spec for a pod without an allocation", () => {
    const one = pod(withCpu("1"));
    expect(allocatedPod(one, undefined)).toBe(one);
    expect(isResizeRequested(one, { containers: {} })).toBe(false);
  });

  it("granting a resize does not change the actuated resources", () => {
    const before = { containers: { app: { allocated: withCpu("1"), actuated: withCpu("1") } } };
    expect(granted(pod(withCpu("2")), before).containers["app"]).toEqual({ allocated: withCpu("2"), actuated: withCpu("1") });
  });
});

describe("[node-agent 171] the checkpoint file", () => {
  const row = { ...granted(pod(withCpu("1"))), pending: { reason: "Deferred", message: "no", observedGeneration: 2, sinceMs: 5 } } as const;

  it("the checkpoint file contains what was written", () => {
    const rows = new Map([["u1", row]]);
    expect(readAllocations(writtenAllocations(rows))).toEqual(rows);
  });

  it.each(["", "{", "[]", '{"version":2,"pods":{}}', '{"version":1}', '{"version":1,"pods":{"u1":{}}}', '{"data":"{}","checksum":1}'])(
    "rejects the checkpoint file %j",
    (text) => expect(() => readAllocations(text)).toThrow(TypeError),
  );
});
