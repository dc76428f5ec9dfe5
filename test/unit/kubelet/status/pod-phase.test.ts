// Would catch: a phase that differs from upstream's, especially a pod that returns to Pending, or that is terminal while it restarts.
import { describe, expect, it } from "vitest";
import type { ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { podPhase } from "../../../../shared/node-agent/kubelet/status/pod-phase.ts";
import { backOff, ended, entry, failed, running, started, succeeded, waiting } from "../container-status-fixtures.ts";
import { NOTHING, container, containerSpec, exited, nodePod, observed, sandbox, sidecarSpec } from "../fixtures.ts";

type Policy = "Always" | "OnFailure" | "Never";
const POLICIES: readonly Policy[] = ["Always", "OnFailure", "Never"];

interface Row {
  readonly name: string;
  readonly statuses: readonly ContainerStatusEntry[];
  readonly terminal?: boolean;
  /** Whether a regular container is in the current sandbox. Default: no. */
  readonly hasRun?: boolean;
  readonly want: string;
}

function phase(pod: NodePod, { statuses, terminal = false, hasRun = false }: Row): string {
  const current = hasRun ? observed({ containers: [container({ name: "a" })] }) : NOTHING;
  return podPhase(pod, statuses, current, terminal);
}

describe("regular containers", () => {
  const pod = (restartPolicy: Policy): NodePod => nodePod({ containers: ["a", "b"], restartPolicy });
  const all: readonly Row[] = [
    { name: "[node-agent 66] no status known", statuses: [], want: "Pending" },
    { name: "[node-agent 66] all running", statuses: [running("a"), running("b")], want: "Running" },
    { name: "[node-agent 68] one running, the other missing", statuses: [running("a")], want: "Pending" },
    { name: "[node-agent 68] one running, the other waiting", statuses: [running("a"), waiting("b")], want: "Pending" },
    { name: "[node-agent 68] one running, the other succeeded", statuses: [running("a"), succeeded("b")], want: "Running" },
    { name: "[node-agent 68] one running, the other in a back-off", statuses: [running("a"), backOff("b", 1)], want: "Running" },
    { name: "one succeeded, the other without a state", statuses: [succeeded("a"), entry("b")], want: "Pending" },
    {
      name: "[node-agent 69] all succeeded, the pod is terminated",
      statuses: [succeeded("a"), succeeded("b")],
      terminal: true,
      want: "Succeeded",
    },
    { name: "[node-agent 69] one failed, the pod is terminated", statuses: [succeeded("a"), failed("b")], terminal: true, want: "Failed" },
    {
      name: "one in a back-off after exit 0, the pod is terminated: not treated as succeeded",
      statuses: [succeeded("a"), backOff("b", 0)],
      terminal: true,
      want: "Failed",
    },
  ];
  for (const policy of POLICIES) it.each(all)(`${policy}: $name → $want`, (row) => expect(phase(pod(policy), row)).toBe(row.want));

  const byPolicy: readonly { name: string; statuses: readonly ContainerStatusEntry[]; want: readonly [string, string, string] }[] = [
    {
      name: "[node-agent 67] all succeeded",
      statuses: [succeeded("a"), succeeded("b")],
      want: ["Running", "Succeeded", "Succeeded"],
    },
    { name: "[node-agent 67] all failed", statuses: [failed("a"), failed("b")], want: ["Running", "Running", "Failed"] },
    { name: "one succeeded, one failed", statuses: [succeeded("a"), failed("b")], want: ["Running", "Running", "Failed"] },
    { name: "all in a back-off", statuses: [backOff("a", 1), backOff("b", 1)], want: ["Running", "Running", "Failed"] },
  ];
  it.each(byPolicy)("regular containers: $name → $want under Always, OnFailure, Never", ({ name, statuses, want }) => {
    expect(POLICIES.map((policy) => phase(pod(policy), { name, statuses, want: "" }))).toEqual(want);
  });

  it("[node-agent 69] a static pod whose containers have exited stays Running, even if it has terminated", () => {
    const pod = nodePod({ containers: ["a", "b"], annotations: { "kubernetes.io/config.source": "file" } });
    expect(podPhase(pod, [succeeded("a"), failed("b")], NOTHING, true)).toBe("Running");
  });

  const own: readonly { name: string; policies: readonly [Policy, Policy]; statuses: readonly ContainerStatusEntry[]; want: string }[] = [
    {
      name: "Never and OnFailure, one failed and not restarted",
      policies: ["Never", "OnFailure"],
      statuses: [failed("a"), succeeded("b")],
      want: "Failed",
    },
    {
      name: "Never and OnFailure, both succeeded",
      policies: ["Never", "OnFailure"],
      statuses: [succeeded("a"), succeeded("b")],
      want: "Succeeded",
    },
    { name: "OnFailure failed", policies: ["Never", "OnFailure"], statuses: [succeeded("a"), failed("b")], want: "Running" },
    { name: "Always succeeded", policies: ["Always", "Never"], statuses: [succeeded("a"), failed("b")], want: "Running" },
  ];
  it.each(own)("containers' own policies $policies override the pod's: $name → $want", ({ policies: [a, b], statuses, want }) => {
    const containers = [containerSpec("a", { restartPolicy: a }), containerSpec("b", { restartPolicy: b })];
    expect(podPhase(nodePod({ containers }), statuses, NOTHING, false)).toBe(want);
  });
});

describe("with a plain init container x", () => {
  const pod = (restartPolicy: Policy): NodePod => nodePod({ initContainers: ["x"], containers: ["a", "b"], restartPolicy });
  const begun = [waiting("a", "PodInitializing"), waiting("b", "PodInitializing")];
  const rows: readonly { name: string; statuses: readonly ContainerStatusEntry[]; want: readonly [string, string, string] }[] = [
    { name: "[node-agent 70] running", statuses: [running("x")], want: ["Pending", "Pending", "Pending"] },
    { name: "[node-agent 70] waiting", statuses: [waiting("x")], want: ["Pending", "Pending", "Pending"] },
    { name: "without a state", statuses: [entry("x")], want: ["Pending", "Pending", "Pending"] },
    { name: "[node-agent 70] failed", statuses: [failed("x")], want: ["Pending", "Pending", "Failed"] },
    { name: "[node-agent 70] in a back-off after a failure", statuses: [backOff("x", 1)], want: ["Pending", "Pending", "Failed"] },
    { name: "[node-agent 70] in a back-off after exit 0", statuses: [backOff("x", 0)], want: ["Pending", "Pending", "Pending"] },
  ];
  it.each(rows)("init container x: $name → $want under Always, OnFailure, Never", ({ statuses, want }) => {
    const phases = POLICIES.map((policy) => podPhase(pod(policy), [...statuses, ...begun], NOTHING, false));
    expect(phases).toEqual(want);
  });

  it("a pod is Running after its init container x succeeded while regular containers run", () => {
    expect(podPhase(pod("Always"), [succeeded("x"), running("a"), running("b")], NOTHING, false)).toBe("Running");
  });

  it("the init container's own restart policy overrides the pod's", () => {
    const own = (restartPolicy: Policy): NodePod => nodePod({ initContainers: [containerSpec("x", { restartPolicy })], containers: ["a"] });
    expect(podPhase(own("Never"), [failed("x")], NOTHING, false)).toBe("Failed");
    expect(podPhase(own("OnFailure"), [failed("x")], NOTHING, false)).toBe("Pending");
    const ruled = containerSpec("x", {
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "NotIn", values: [0] } }],
    });
    expect(podPhase(nodePod({ initContainers: [ruled], containers: ["a"] }), [failed("x")], NOTHING, false)).toBe("Pending");
  });
});

describe("with a sidecar x", () => {
  const rows: readonly Row[] = [
    { name: "[node-agent 71] running, regular containers not started", statuses: [running("x")], want: "Pending" },
    { name: "stopped, regular containers not started", statuses: [ended("x", 0)], want: "Pending" },
    { name: "waiting", statuses: [waiting("x")], want: "Pending" },
    {
      name: "[node-agent 71] started, one of two regular containers running",
      statuses: [started("x"), running("a")],
      hasRun: true,
      want: "Pending",
    },
    { name: "started, all running", statuses: [started("x"), running("a"), running("b")], hasRun: true, want: "Running" },
    { name: "restarting, all running", statuses: [running("x"), running("a"), running("b")], hasRun: true, want: "Running" },
    {
      name: "starting in a new sandbox, the regular containers in the old one",
      statuses: [running("x"), running("a"), running("b")],
      want: "Pending",
    },
    { name: "[node-agent 72] stopped, all running", statuses: [ended("x", 0), running("a"), running("b")], hasRun: true, want: "Running" },
    {
      name: "[node-agent 72] in a back-off, all running",
      statuses: [backOff("x", 1), running("a"), running("b")],
      hasRun: true,
      want: "Running",
    },
    {
      name: "[node-agent 73] failed, regular containers succeeded, the pod is terminated",
      statuses: [failed("x"), succeeded("a"), succeeded("b")],
      hasRun: true,
      terminal: true,
      want: "Succeeded",
    },
  ];
  it.each(rows)("Always: $name → $want", (row) => {
    expect(phase(nodePod({ initContainers: [sidecarSpec("x")], containers: ["a", "b"] }), row)).toBe(row.want);
  });

  const ends: readonly { name: string; sidecar: ContainerStatusEntry; want: string }[] = [
    { name: "started", sidecar: started("x"), want: "Running" },
    { name: "restarting", sidecar: running("x"), want: "Running" },
    { name: "succeeded", sidecar: succeeded("x"), want: "Succeeded" },
    { name: "failed", sidecar: failed("x"), want: "Succeeded" },
    { name: "in a back-off", sidecar: backOff("x", 1), want: "Succeeded" },
  ];
  it.each(ends)("Never: regular containers succeeded, the sidecar $name → $want", ({ sidecar, want }) => {
    const pod = nodePod({ initContainers: [sidecarSpec("x")], containers: ["a", "b"], restartPolicy: "Never" });
    const row: Row = { name: "", statuses: [sidecar, succeeded("a"), succeeded("b")], hasRun: true, want };
    expect(phase(pod, row)).toBe(want);
  });

  const afterInit: readonly Row[] = [
    {
      name: "[node-agent 74] init running again, regular stopped",
      statuses: [running("x"), started("y"), succeeded("a")],
      hasRun: true,
      want: "Pending",
    },
    { name: "init running again, regular running", statuses: [running("x"), started("y"), running("a")], hasRun: true, want: "Pending" },
    {
      name: "[node-agent 74] init succeeded, regular stopped",
      statuses: [succeeded("x"), started("y"), succeeded("a")],
      hasRun: true,
      want: "Running",
    },
    {
      name: "[node-agent 74] init succeeded, all run",
      statuses: [succeeded("x"), running("y"), running("a")],
      hasRun: true,
      want: "Running",
    },
    {
      name: "init succeeded, new sandbox, regular one in the old",
      statuses: [succeeded("x"), running("y"), succeeded("a")],
      want: "Pending",
    },
  ];
  it.each(afterInit)("plain init x, sidecar y: $name → $want", (row) => {
    expect(phase(nodePod({ initContainers: ["x", sidecarSpec("y")], containers: ["a"] }), row)).toBe(row.want);
  });

  it("a pod is Pending when its sandbox is not READY", () => {
    const pod = nodePod({ initContainers: [sidecarSpec("x")], containers: ["a"] });
    const dead = observed({ sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })], containers: [container({ name: "a" })] });
    expect(podPhase(pod, [running("x"), running("a")], dead, false)).toBe("Pending");
  });
});

describe("containers that were stopped for a restart", () => {
  const cut = observed({ containers: [exited("a", 0, { endedForRestart: true }), exited("x", 0, { endedForRestart: true })] });
  it.each(POLICIES)(
    "[node-agent 127] %s: containers stopped for a restart keep the pod non-terminal, whatever their exit codes",
    (restartPolicy) => {
      const pod = nodePod({ containers: ["a", "b"], restartPolicy });
      expect(podPhase(pod, [backOff("a", 0), succeeded("b")], cut, false)).toBe("Running");
      expect(podPhase(pod, [backOff("a", 0), waiting("b")], cut, false)).toBe("Pending");
      expect(podPhase(pod, [backOff("a", 1), running("b")], cut, false)).toBe("Running");
    },
  );

  it("[node-agent 127] an init container stopped for a restart stays pending", () => {
    const pod = nodePod({ initContainers: ["x"], containers: ["a"], restartPolicy: "OnFailure" });
    expect(podPhase(pod, [backOff("x", 0), backOff("a", 0)], cut, false)).toBe("Pending");
  });
});
