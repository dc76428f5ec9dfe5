// Would catch: a pod that is wrongly reported as ready, messages that differ from those that tools expect, and conditions of other writers
// that are treated as ours.
import { describe, expect, it } from "vitest";
import {
  isOwnedCondition,
  ownedConditions,
  podReadyCondition,
  withTerminalReadiness,
} from "../../../../shared/node-agent/kubelet/status/pod-conditions.ts";
import type { PodCondition } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { failed, running, started, succeeded, waiting } from "../container-status-fixtures.ts";
import { NOTHING, ago, nodePod, observed, sandbox, sidecarSpec } from "../fixtures.ts";

type Said = readonly [status: string, reason?: string, message?: string];

function said(type: string, pod: NodePod, statuses: readonly ContainerStatusEntry[] | undefined, phase = "Running"): Said {
  const found = ownedConditions(pod, NOTHING, { phase, statuses, others: [] }).find((one) => one.type === type);
  return brief(found);
}

function brief(condition: PodCondition | undefined): Said {
  const { status = "absent", reason, message } = condition ?? {};
  return message === undefined ? (reason === undefined ? [status] : [status, reason]) : [status, reason ?? "", message];
}

const ready = (name: string): ContainerStatusEntry => started(name);

describe("ContainersReady", () => {
  const pod = nodePod({ initContainers: ["i", sidecarSpec("s")], containers: ["b", "a"] });
  const table: readonly { name: string; statuses?: readonly ContainerStatusEntry[]; phase?: string; want: Said }[] = [
    { name: "no statuses at all", want: ["False", "UnknownContainerStatuses"] },
    { name: "[node-agent 92] all ready", statuses: [ready("s"), ready("a"), ready("b")], want: ["True"] },
    {
      name: "some not ready, in spec order, without plain init containers",
      statuses: [waiting("i"), running("s"), running("a"), running("b")],
      want: ["False", "ContainersNotReady", "containers with unready status: [s b a]"],
    },
    {
      name: "some not ready, and some unknown",
      statuses: [ready("s"), running("b")],
      want: ["False", "ContainersNotReady", "containers with unknown status: [a], containers with unready status: [b]"],
    },
    {
      name: "[node-agent 92] a succeeded pod",
      statuses: [succeeded("s"), succeeded("a"), succeeded("b")],
      phase: "Succeeded",
      want: ["False", "PodCompleted"],
    },
    {
      name: "a succeeded pod with an unknown container",
      statuses: [succeeded("s"), succeeded("b")],
      phase: "Succeeded",
      want: ["False", "ContainersNotReady", "containers with unknown status: [a], containers with unready status: [s b]"],
    },
    { name: "[node-agent 92] a failed pod", statuses: [ready("s"), ready("a"), ready("b")], phase: "Failed", want: ["False", "PodFailed"] },
  ];
  it.each(table)("ContainersReady: $name → $want", ({ statuses, phase, want }) => {
    expect(said("ContainersReady", pod, statuses, phase)).toEqual(want);
    expect(said("Ready", pod, statuses, phase)).toEqual(want);
  });
});

describe("Ready with readiness gates", () => {
  const pod = nodePod({ containers: ["a"], spec: { readinessGates: [{ conditionType: "example.com/g" }, { conditionType: "h" }] } });
  const g = (status: string): PodCondition => ({ type: "example.com/g", status });
  const h: PodCondition = { type: "h", status: "True" };
  const table: readonly { name: string; conditions: readonly PodCondition[]; want: Said }[] = [
    {
      name: "[node-agent 84] a missing condition",
      conditions: [h],
      want: ["False", "ReadinessGatesNotReady", 'corresponding condition of pod readiness gate "example.com/g" does not exist.'],
    },
    {
      name: "[node-agent 84] a condition with status False",
      conditions: [g("False"), h],
      want: ["False", "ReadinessGatesNotReady", 'the status of pod readiness gate "example.com/g" is not "True", but False'],
    },
    { name: "[node-agent 84] a condition with status True", conditions: [g("True"), h], want: ["True"] },
    {
      name: "both gates pending",
      conditions: [g("Unknown")],
      want: [
        "False",
        "ReadinessGatesNotReady",
        [
          'the status of pod readiness gate "example.com/g" is not "True", but Unknown',
          'corresponding condition of pod readiness gate "h" does not exist.',
        ].join(", "),
      ],
    },
  ];
  it.each(table)("Ready with readiness gates: $name → $want", ({ conditions, want }) => {
    expect(brief(podReadyCondition(pod, conditions, [ready("a")], "Running"))).toEqual(want);
  });

  it("[node-agent 84] reports unready containers before readiness gates", () => {
    const want: Said = ["False", "ContainersNotReady", "containers with unready status: [a]"];
    expect(brief(podReadyCondition(pod, [], [running("a")], "Running"))).toEqual(want);
  });
});

describe("Initialized", () => {
  const plain = nodePod({ initContainers: ["i", "j"], containers: ["a"] });
  const sidecar = nodePod({ initContainers: [sidecarSpec("s")], containers: ["a"] });
  const done = (name: string): ContainerStatusEntry => ({ ...succeeded(name), ready: true });
  const table: readonly { name: string; pod: NodePod; statuses?: readonly ContainerStatusEntry[]; phase?: string; want: Said }[] = [
    { name: "no init containers", pod: nodePod(), want: ["True"] },
    { name: "no statuses", pod: plain, want: ["False", "UnknownContainerStatuses"] },
    {
      name: "one init container completed, one running",
      pod: plain,
      statuses: [done("i"), running("j"), waiting("a")],
      want: ["False", "ContainersNotInitialized", "containers with incomplete status: [j]"],
    },
    {
      name: "one init container unknown, one failed",
      pod: plain,
      statuses: [failed("j"), waiting("a")],
      want: ["False", "ContainersNotInitialized", "containers with unknown status: [i], containers with incomplete status: [j]"],
    },
    { name: "[node-agent 92] all init containers completed", pod: plain, statuses: [done("i"), done("j"), waiting("a")], want: ["True"] },
    {
      name: "a succeeded pod",
      pod: plain,
      statuses: [done("i"), done("j"), succeeded("a")],
      phase: "Succeeded",
      want: ["True", "PodCompleted"],
    },
    { name: "a regular container runs", pod: plain, statuses: [running("i"), running("j"), running("a")], want: ["True"] },
    { name: "a regular container ran", pod: sidecar, statuses: [running("s"), failed("a")], want: ["True"] },
    { name: "sidecar started", pod: sidecar, statuses: [started("s"), waiting("a")], want: ["True"] },
    {
      name: "sidecar not started",
      pod: sidecar,
      statuses: [running("s"), waiting("a")],
      want: ["False", "ContainersNotInitialized", "containers with incomplete status: [s]"],
    },
  ];
  it.each(table)("Initialized: $name → $want", ({ pod, statuses, phase = "Pending", want }) => {
    expect(said("Initialized", pod, statuses, phase)).toEqual(want);
  });
});

it("PodReadyToStartContainers is False if a sandbox must be created and True otherwise, and PodScheduled is True without a sandbox", () => {
  const types = (current: typeof NOTHING): readonly string[] =>
    ownedConditions(nodePod(), current, { phase: "Pending", statuses: [], others: [] })
      .filter(({ status }) => status === "True")
      .map(({ type }) => type);
  expect(types(NOTHING)).toEqual(["Initialized", "PodScheduled"]);
  expect(types(observed({ sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })], containers: [] }))).not.toContain(
    "PodReadyToStartContainers",
  );
  expect(types(observed({ containers: [] }))).toContain("PodReadyToStartContainers");
});

it.each([
  { name: "no sandbox", sandboxes: [], message: "no pod sandbox exists" },
  {
    name: "two ready sandboxes",
    sandboxes: [sandbox({ id: "b" }), sandbox()],
    message: "multiple pod sandboxes are ready and need to be reconciled",
  },
  { name: "a sandbox that is not ready", sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })], message: "pod sandbox is not ready" },
  {
    name: "a sandbox on the host's network",
    sandboxes: [sandbox({ networkMode: "NODE" })],
    message: "network namespace mode changed and sandbox needs to be recreated",
  },
  {
    name: "a sandbox without an IP",
    sandboxes: [sandbox({ network: { ip: "", additionalIps: [] } })],
    message: "pod sandbox has no IP address",
  },
])("PodReadyToStartContainers is False with a message: $name", ({ sandboxes, message }) => {
  const conditions = ownedConditions(nodePod(), observed({ sandboxes }), { phase: "Pending", statuses: [], others: [] });
  expect(brief(conditions.find(({ type }) => type === "PodReadyToStartContainers"))).toEqual(["False", "PodSandboxNotReady", message]);
});

it("every condition has the generation from which it was computed, if known", () => {
  const conditions = (pod: NodePod): readonly PodCondition[] =>
    ownedConditions(pod, NOTHING, { phase: "Pending", statuses: [], others: [] });
  const generations = (pod: NodePod) => new Set(conditions(pod).map(({ observedGeneration }) => observedGeneration));
  expect(generations(nodePod({ metadata: { generation: 7 } }))).toEqual(new Set([7]));
  expect(generations(nodePod({ metadata: { generation: 0 } }))).toEqual(new Set([undefined]));
});

it("owns exactly upstream's condition types", () => {
  const types = ["PodScheduled", "Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers", "PodResizePending"];
  expect(types.filter((type) => !isOwnedCondition(type))).toEqual([]);
  expect(["DisruptionTarget", "example.com/g", "ready"].filter((type) => isOwnedCondition(type))).toEqual([]);
});

describe("withTerminalReadiness", () => {
  const before: readonly PodCondition[] = [
    { type: "Ready", status: "True", lastTransitionTime: ago(50), observedGeneration: 3 },
    { type: "ContainersReady", status: "False", reason: "x", message: "y", lastTransitionTime: ago(40) },
    { type: "mine", status: "True" },
  ];
  it("sets Ready and ContainersReady to False, and changes only the times of conditions that were True", () => {
    expect(withTerminalReadiness(before, "Failed", ago(0))).toEqual([
      { type: "Ready", status: "False", reason: "PodFailed", lastTransitionTime: ago(0), observedGeneration: 3 },
      { type: "ContainersReady", status: "False", reason: "PodFailed", lastTransitionTime: ago(40) },
      { type: "mine", status: "True" },
    ]);
    expect(withTerminalReadiness(before, "Succeeded", ago(0))[0]?.reason).toBe("PodCompleted");
  });

  it("does not change non-terminal or unready pods", () => {
    expect(withTerminalReadiness(before, "Running", ago(0))).toBe(before);
    const unready = before.slice(1);
    expect(withTerminalReadiness(unready, "Failed", ago(0))).toBe(unready);
  });
});
