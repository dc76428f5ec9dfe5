// Would catch: regular containers that start before initialisation ends, an init container that runs twice or is skipped, a sidecar that is
// not restarted, and a completed pod that keeps running.
import { describe, expect, it } from "vitest";
import { computePodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import type { PodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import type { ContainerToKill } from "../../../../shared/node-agent/kubelet/kuberuntime/init-container-actions.ts";
import type { ObservedContainer, ProbeAnswer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerSpec, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { container, containerSpec, exited, NO_PROBES, nodePod, observed, podActions, sandbox, sidecarSpec } from "../fixtures.ts";

const DEAD = sandbox({ state: "SANDBOX_NOTREADY" });
const REGULAR = [container({ name: "foo1" }), container({ name: "foo2" }), container({ name: "foo3" })];

type Policy = "Always" | "OnFailure" | "Never";

const init = (initContainersToStart: readonly number[], fields: Partial<PodActions> = {}): PodActions =>
  podActions({ initContainersToStart, ...fields });
const create = init([0], { killPod: true, createSandbox: true, attempt: 1 });
const startAll: Partial<PodActions> = { containersToStart: [0, 1, 2] };
const unknown = (name: string): ContainerToKill => ({
  id: `${name}-0`,
  name,
  message: 'Init container is in "unknown" state, try killing it before restart',
  reason: "Unknown",
});

describe("plain init containers", () => {
  const pod = (restartPolicy: Policy): NodePod => nodePod({ restartPolicy, initContainers: ["init1", "init2", "init3"] });
  const done = (...others: readonly ObservedContainer[]): readonly ObservedContainer[] => [
    ...["init1", "init2", "init3"].filter((name) => others.every((other) => other.name !== name)).map((name) => exited(name, 0)),
    ...others,
  ];
  const init3 = (state: ObservedContainer["state"]): ObservedContainer => container({ name: "init3", state });
  const failed = done(exited("init3", 137));

  const table: readonly {
    readonly name: string;
    readonly policy?: Policy;
    readonly dead?: true;
    readonly containers: readonly ObservedContainer[];
    readonly want: PodActions;
  }[] = [
    { name: "[node-agent 15] all completed: regular containers start", containers: done(), want: podActions(startAll) },
    { name: "[node-agent 16] none started yet: the first starts", containers: [], want: init([0]) },
    { name: "[node-agent 16] the last runs: nothing starts", containers: done(init3("CONTAINER_RUNNING")), want: podActions() },
    {
      name: "[node-agent 16] the last was created and never started: it starts",
      containers: done(init3("CONTAINER_CREATED")),
      want: init([2]),
    },
    { name: "the first completed: the second starts", containers: [exited("init1", 0)], want: init([1]) },
    { name: "[node-agent 17] sandbox dead, Always: all start again", dead: true, containers: done(), want: create },
    {
      name: "[node-agent 17] sandbox dead, Never, with instances: the pod is killed",
      policy: "Never",
      dead: true,
      containers: done(),
      want: podActions({ killPod: true, attempt: 1 }),
    },
    {
      name: "[node-agent 17] sandbox dead, Never, no instance: all start again",
      policy: "Never",
      dead: true,
      containers: [],
      want: create,
    },
    {
      name: "[node-agent 17] sandbox dead, OnFailure, the last one failed: all start again",
      policy: "OnFailure",
      dead: true,
      containers: failed,
      want: create,
    },
    { name: "[node-agent 18] failed, Always: restarted", containers: failed, want: init([2]) },
    { name: "[node-agent 18] failed, OnFailure: restarted", policy: "OnFailure", containers: failed, want: init([2]) },
    {
      name: "[node-agent 18] failed, Never: the pod failed",
      policy: "Never",
      containers: failed,
      want: podActions({ killPod: true }),
    },
    {
      name: "[node-agent 19] unknown, Always: killed and restarted",
      containers: done(init3("CONTAINER_UNKNOWN")),
      want: init([2], { containersToKill: [unknown("init3")] }),
    },
    {
      name: "[node-agent 19] unknown, OnFailure: killed and restarted",
      policy: "OnFailure",
      containers: done(init3("CONTAINER_UNKNOWN")),
      want: init([2], { containersToKill: [unknown("init3")] }),
    },
    {
      name: "[node-agent 19] unknown, Never: the pod failed",
      policy: "Never",
      containers: done(init3("CONTAINER_UNKNOWN")),
      want: podActions({ killPod: true }),
    },
    {
      name: "[node-agent 20] init containers before a running one are treated as completed, even if they were removed",
      containers: [init3("CONTAINER_RUNNING")],
      want: podActions(),
    },
    {
      name: "running regular containers are kept, even if all init containers were removed",
      containers: REGULAR,
      want: podActions(),
    },
    {
      name: "a failed init container is ignored once regular containers run",
      policy: "Never",
      containers: [...failed, ...REGULAR],
      want: podActions(),
    },
    {
      name: "neither containers nor completed init containers of an earlier sandbox show that initialization is complete",
      containers: [...done(), exited("foo1", 0), exited("foo2", 0), exited("foo3", 0)].map((one) => ({ ...one, sandboxId: "before" })),
      want: init([0]),
    },
    {
      name: "exited regular containers of this sandbox start again, even if all init containers were removed",
      containers: [exited("foo1", 1), exited("foo2", 1), exited("foo3", 1)],
      want: podActions(startAll),
    },
    {
      name: "a finished pod runs no init container again, even if all were removed",
      policy: "OnFailure",
      containers: [exited("foo1", 0), exited("foo2", 0), exited("foo3", 0)],
      want: podActions({ killPod: true }),
    },
  ];
  it.each(table)("$name", ({ policy = "Always", dead, containers, want }) => {
    const seen = observed({ containers, ...(dead && { sandboxes: [DEAD] }) });
    expect(computePodActions(pod(policy), seen, NO_PROBES)).toEqual(want);
  });

  it("uses the init container's own restart policy if set", () => {
    const own = (restartPolicy: string): readonly ContainerSpec[] => [containerSpec("init1", { restartPolicy })];
    const seen = observed({ containers: [exited("init1", 1)] });
    const of = (restartPolicy: Policy, initContainers: readonly ContainerSpec[]): PodActions =>
      computePodActions(nodePod({ restartPolicy, initContainers }), seen, NO_PROBES);
    expect(of("Never", own("OnFailure"))).toEqual(init([0]));
    expect(of("Always", own("Never"))).toEqual(podActions({ killPod: true }));
    const restartPolicyRules = [{ action: "Restart", exitCodes: { operator: "In", values: [1] } }];
    expect(of("Never", [containerSpec("init1", { restartPolicy: "Never", restartPolicyRules })])).toEqual(init([0]));
  });
});

describe("sidecars", () => {
  const probe = { exec: { command: ["true"] } };
  const probed = { livenessProbe: probe, startupProbe: probe };
  const sidecars = [sidecarSpec("s1"), sidecarSpec("s2", probed), sidecarSpec("s3", probed)];
  const s = (name: string, state: ObservedContainer["state"] = "CONTAINER_RUNNING"): ObservedContainer => container({ name, state });
  const running = (...others: readonly ObservedContainer[]): readonly ObservedContainer[] => [
    ...["s1", "s2", "s3"].filter((name) => others.every((other) => other.name !== name)).map((name) => s(name)),
    ...others,
  ];
  const kill = (name: string, why: string, reason?: ContainerToKill["reason"]): ContainerToKill => ({
    id: `${name}-0`,
    name,
    message: `Init container ${name} ${why}`,
    ...(reason !== undefined && { reason }),
  });
  const s3Failed = running(exited("s3", 137));
  const done = ["foo1", "foo2", "foo3"].map((name) => exited(name, 0));

  const table: readonly {
    readonly name: string;
    readonly policy?: Policy;
    readonly dead?: true;
    readonly containers: readonly ObservedContainer[];
    /** Liveness results of s2 and s3; the default is Success. */
    readonly liveness?: Readonly<Record<string, ProbeAnswer>>;
    readonly startup?: Readonly<Record<string, ProbeAnswer>>;
    readonly want: PodActions;
  }[] = [
    { name: "[node-agent 21] all run: regular containers start", containers: running(), want: podActions(startAll) },
    { name: "[node-agent 22] none started yet: the first starts", containers: [], want: init([0]) },
    {
      name: "[node-agent 22] the last was created and never started: it starts",
      containers: running(s("s3", "CONTAINER_CREATED")),
      want: init([2]),
    },
    { name: "[node-agent 22] the first runs: the second starts", containers: [s("s1")], want: init([1]) },
    ...([undefined, "Unknown", "Success"] as const).map((answer) => ({
      name: `[node-agent 23] the next one starts when liveness is ${answer}`,
      containers: [s("s1"), s("s2")],
      liveness: { s2: answer },
      want: init([2]),
    })),
    {
      name: "[node-agent 24] liveness failed: restarted, and is still treated as initialized",
      containers: running(),
      liveness: { s3: "Failure" },
      want: init([2], { ...startAll, containersToKill: [kill("s3", "failed liveness probe", "LivenessProbe")] }),
    },
    {
      name: "[node-agent 24] image changed: restarted, and is still treated as initialized",
      containers: running(container({ name: "s3", hash: "0" })),
      want: init([2], { ...startAll, containersToKill: [kill("s3", "definition changed")] }),
    },
    ...([undefined, "Unknown"] as const).map((answer) => ({
      name: `[node-agent 25] the next one waits while startup is ${answer}`,
      containers: [s("s1"), s("s2")],
      startup: { s2: answer },
      want: podActions(),
    })),
    { name: "[node-agent 25] the next one starts when startup is Success", containers: [s("s1"), s("s2")], want: init([2]) },
    {
      name: "[node-agent 26] startup failed: restarted, regular containers wait",
      containers: running(),
      startup: { s3: "Failure" },
      want: init([2], { containersToKill: [kill("s3", "failed startup probe", "StartupProbe")] }),
    },
    {
      name: "[node-agent 27] the first and the last exited: both restart, regular containers wait",
      containers: running(exited("s1", 0), exited("s3", 0)),
      want: init([0, 2]),
    },
    {
      name: "[node-agent 27] only the first exited: it restarts while regular containers run",
      containers: running(exited("s1", 0)),
      want: init([0], startAll),
    },
    {
      name: "[node-agent 28] failed, sandbox dead, Never: the pod is killed",
      policy: "Never",
      dead: true,
      containers: s3Failed,
      want: podActions({ killPod: true, attempt: 1 }),
    },
    {
      name: "[node-agent 28] failed, sandbox dead, OnFailure: all start again",
      policy: "OnFailure",
      dead: true,
      containers: s3Failed,
      want: create,
    },
    { name: "[node-agent 28] failed, sandbox dead, Always: all start again", dead: true, containers: s3Failed, want: create },
    {
      name: "[node-agent 28] sandbox dead, Never, no instance: all start again",
      policy: "Never",
      dead: true,
      containers: [],
      want: create,
    },
    { name: "[node-agent 29] failed, Never: restarted anyway", policy: "Never", containers: s3Failed, want: init([2]) },
    {
      name: "[node-agent 29] unknown, Never: killed and restarted anyway",
      policy: "Never",
      containers: running(s("s3", "CONTAINER_UNKNOWN")),
      want: init([2], { containersToKill: [unknown("s3")] }),
    },
    {
      name: "[node-agent 30] a sidecar restarts next to running regular containers, Never",
      policy: "Never",
      containers: [...s3Failed, ...REGULAR],
      want: init([2]),
    },
    {
      name: "[node-agent 31] a sidecar does not keep a completed pod alive",
      policy: "Never",
      containers: [...running(), ...done],
      want: podActions({ killPod: true }),
    },
    {
      name: "[node-agent 31] a sidecar is not restarted in a completed pod",
      policy: "Never",
      containers: [...running(exited("s1", 1)), ...done],
      want: podActions({ killPod: true }),
    },
    {
      name: "[node-agent 32] removed sidecars start again while regular containers run",
      containers: [s("s3")],
      want: init([0, 1], startAll),
    },
  ];
  it.each(table)("$name", ({ policy = "Always", dead, containers, liveness = {}, startup = {}, want }) => {
    const answer = (given: Readonly<Record<string, ProbeAnswer>>) => (id: string) => {
      const name = id.slice(0, 2);
      return name in given ? given[name] : name === "s1" ? undefined : "Success";
    };
    const seen = observed({ containers, ...(dead && { sandboxes: [DEAD] }) });
    const pod = nodePod({ restartPolicy: policy, initContainers: sidecars });
    expect(computePodActions(pod, seen, { liveness: answer(liveness), startup: answer(startup) })).toEqual(want);
  });

  it("a sidecar that restarts and the next one start together, in spec order", () => {
    const pod = nodePod({ initContainers: sidecars });
    const seen = observed({ containers: [container({ name: "s1", hash: "0" })] });
    expect(computePodActions(pod, seen, NO_PROBES)).toEqual(init([0, 1], { containersToKill: [kill("s1", "definition changed")] }));
  });

  it("a plain init container in progress blocks later ones, while a sidecar before it is restarted", () => {
    const pod = nodePod({ initContainers: [sidecarSpec("s1"), "init2", "init3"] });
    const at = (...containers: readonly ObservedContainer[]): PodActions => computePodActions(pod, observed({ containers }), NO_PROBES);
    expect(at(s("s1"), container({ name: "init2" }))).toEqual(podActions());
    expect(at(exited("s1", 1), container({ name: "init2" }))).toEqual(init([0]));
    expect(at(exited("s1", 1), exited("init2", 0))).toEqual(init([0, 2]));
    expect(at(s("s1"), exited("init2", 0), exited("init3", 0))).toEqual(podActions(startAll));
  });
});
