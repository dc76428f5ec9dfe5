// Would catch: a resize that is granted without sufficient resources, a resize that waits for resources that never become available, and a
// resize that overtakes another one.
import { describe, expect, it } from "vitest";
import { inResizeOrder, resizeRefusal } from "../../../../shared/node-agent/kubelet/allocation/admit-resize.ts";
import { granted } from "../../../../shared/node-agent/kubelet/allocation/allocation.ts";
import type { PodAllocation } from "../../../../shared/node-agent/ports/node-store.ts";
import { containerSpec, nodePod } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";

const NODE = { name: "n1", labels: {}, taints: [] };
const ALLOCATABLE = { cpuMilli: 4000, memoryBytes: 4 * 2 ** 30, ephemeralStorageBytes: 2 ** 40, pods: 110 };
const asking = (requests: Readonly<Record<string, string>>, options: PodOptions = {}) =>
  nodePod({ ...options, containers: [containerSpec("app", { resources: { requests } })] });
const other = asking({ cpu: "3", memory: "3Gi" }, { uid: "other" });
const STATIC = { "kubernetes.io/config.source": "file" };

describe("[node-agent 165] a resize", () => {
  it.each([
    { name: "that fits is granted", pod: asking({ cpu: "1", memory: "1Gi" }), want: undefined },
    {
      name: "for which another pod leaves no room is deferred",
      pod: asking({ cpu: "2" }),
      want: {
        cause: "OutOfcpu",
        reason: "Deferred",
        message: "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000",
      },
    },
    {
      name: "that exceeds the node's allocatable resources is infeasible",
      pod: asking({ cpu: "5", memory: "5Gi" }),
      want: {
        cause: "Infeasible",
        reason: "Infeasible",
        message:
          "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000; memory, requested: 5368709120, capacity: 4294967296",
      },
    },
    {
      name: "to all allocatable resources of the node is deferred, not infeasible",
      pod: asking({ cpu: "4" }),
      want: expect.objectContaining({ reason: "Deferred" }),
    },
    {
      name: "of a static pod is infeasible",
      pod: asking({ cpu: "1" }, { annotations: STATIC }),
      want: { cause: "Infeasible", reason: "Infeasible", message: "In-place resize of static-pods is not supported" },
    },
  ])("a resize $name", ({ pod, want }) =>
    expect(resizeRefusal({ pod, others: [other], node: NODE, allocatable: ALLOCATABLE })).toEqual(want),
  );
});

it("[node-agent 166] orders resizes: decreases first, then by priority, then Guaranteed pods, then the longest pending", () => {
  const names = ["late", "early", "guaranteed", "important", "less"];
  const bigger = { cpu: "2" };
  const pods = names.map((name) =>
    nodePod({
      name,
      uid: name,
      containers: [
        containerSpec("app", {
          resources:
            name === "guaranteed"
              ? { requests: { cpu: "2", memory: "1Gi" }, limits: { cpu: "2", memory: "1Gi" } }
              : { requests: name === "less" ? { cpu: "500m" } : bigger },
        }),
      ],
      ...(name === "important" && { spec: { priority: 5 } }),
    }),
  );
  const rows = new Map(
    names.map((name): [string, PodAllocation] => [
      name,
      {
        ...granted(asking({ cpu: "1" })),
        pending: { reason: "Deferred", message: "", observedGeneration: 2, sinceMs: name === "early" ? 1 : 2 },
      },
    ]),
  );
  expect(inResizeOrder(pods, rows).map(({ metadata }) => metadata.name)).toEqual(["less", "important", "guaranteed", "early", "late"]);
});
