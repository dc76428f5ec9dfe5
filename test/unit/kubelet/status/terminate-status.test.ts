// Would catch: a deleted pod that never reaches a terminal phase, and a pod that is reported as Succeeded although its end was not
// observed.
import { describe, expect, it } from "vitest";
import { terminatedStatus } from "../../../../shared/node-agent/kubelet/status/accept-status.ts";
import type { ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { PodStatus } from "../../../../shared/node-agent/ports/node-store.ts";
import { backOff, ended, failed, started, succeeded, waiting } from "../container-status-fixtures.ts";
import { ago, nodePod, NOW_MS } from "../fixtures.ts";

const UNSEEN = {
  terminated: {
    exitCode: 137,
    reason: "ContainerStatusUnknown",
    message: "The container could not be located when the pod was terminated",
  },
};
const plain = nodePod({ containers: ["a"] });
const withInit = (status?: PodStatus): NodePod =>
  nodePod({ initContainers: ["i", "j", "k"], containers: ["a"], ...(status !== undefined && { status }) });

/** Returns exit codes, or `-` for a container that did not end. */
function codes(list: readonly ContainerStatusEntry[] | undefined): readonly (number | "-")[] {
  return (list ?? []).map(({ state }) => state?.terminated?.exitCode ?? "-");
}

it("[node-agent 81] fails a running container whose exit was not observed, and its pod", () => {
  const status = terminatedStatus(plain, { phase: "Running", containerStatuses: [started("a")] }, NOW_MS);
  expect(status).toEqual({ phase: "Failed", containerStatuses: [{ ...started("a"), state: UNSEEN, ready: false, started: false }] });
});

it.each(["Succeeded", "Failed"])("[node-agent 81] a terminated pod keeps phase %s and known exit codes", (phase) => {
  const before: PodStatus = { phase, reason: "R", message: "M", containerStatuses: [succeeded("a")] };
  expect(terminatedStatus(plain, before, NOW_MS)).toEqual(before);
});

it.each(["Pending", "Running", "Unknown", undefined])("phase %s of a terminated pod becomes Failed, except for a static pod", (phase) => {
  const before: PodStatus = phase === undefined ? {} : { phase };
  expect(terminatedStatus(plain, before, NOW_MS).phase).toBe("Failed");
  const manifest = nodePod({ containers: ["a"], annotations: { "kubernetes.io/config.source": "file" } });
  expect(terminatedStatus(manifest, before, NOW_MS).phase).toBe(phase);
});

it("a terminated pod is no longer ready", () => {
  const conditions = [
    { type: "Ready", status: "True", lastTransitionTime: ago(50) },
    { type: "mine", status: "True" },
  ];
  expect(terminatedStatus(plain, { phase: "Running", conditions }, NOW_MS).conditions).toEqual([
    { type: "Ready", status: "False", reason: "PodFailed", lastTransitionTime: ago(0) },
    { type: "mine", status: "True" },
  ]);
});

describe("init containers i, j, k and a waiting regular container", () => {
  const table: readonly {
    name: string;
    init: readonly ContainerStatusEntry[];
    regular?: ContainerStatusEntry;
    want: readonly (number | "-")[];
  }[] = [
    {
      name: "[node-agent 81] initialization never started: the first is treated as failed, the regular container still waits",
      init: [waiting("i"), waiting("j"), waiting("k")],
      want: [137, "-", "-", "-"],
    },
    {
      name: "all init containers up to the last one that ever started are treated as failed",
      init: [waiting("i"), backOff("j", 1), waiting("k")],
      want: [137, 137, "-", "-"],
    },
    { name: "the last init container failed", init: [succeeded("i"), succeeded("j"), failed("k")], want: [0, 0, 1, "-"] },
    { name: "the last init container exited with 0", init: [succeeded("i"), succeeded("j"), succeeded("k")], want: [0, 0, 0, 137] },
    {
      name: "the last init container exited with 0 in an earlier instance",
      init: [succeeded("i"), succeeded("j"), backOff("k", 0)],
      want: [0, 0, 137, 137],
    },
    {
      name: "the regular container ran",
      init: [waiting("i"), waiting("j"), waiting("k")],
      regular: started("a"),
      want: [137, "-", "-", 137],
    },
    {
      name: "the regular container terminated",
      init: [succeeded("i"), succeeded("j"), waiting("k")],
      regular: ended("a", 3),
      want: [0, 0, "-", 3],
    },
    {
      name: "the regular container ran in an earlier instance",
      init: [waiting("i"), waiting("j"), waiting("k")],
      regular: backOff("a", 1),
      want: [137, "-", "-", 137],
    },
  ];
  it.each(table)("a terminated pod: $name", ({ init, regular = waiting("a"), want }) => {
    const before: PodStatus = { phase: "Pending", initContainerStatuses: [...init], containerStatuses: [regular] };
    const status = terminatedStatus(withInit(), before, NOW_MS);
    expect([...codes(status.initContainerStatuses), ...codes(status.containerStatuses)]).toEqual(want);
    expect(status.phase).toBe("Failed");
  });

  it("a terminated pod's status considers starts that only the API status shows", () => {
    const before: PodStatus = { initContainerStatuses: [waiting("i")], containerStatuses: [waiting("a")] };
    expect(codes(terminatedStatus(withInit({ containerStatuses: [started("a")] }), before, NOW_MS).containerStatuses)).toEqual([137]);
  });
});
