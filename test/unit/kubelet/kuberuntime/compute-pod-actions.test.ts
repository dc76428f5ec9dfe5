// Would catch: a container that is started twice, never restarted, or restarted against its policy; a sandbox that is created for a
// completed pod; and a needless kill.
import { describe, expect, it } from "vitest";
import { computePodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import type { PodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import type { ObservedContainer, ObservedPod, ProbeAnswers } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerToKill } from "../../../../shared/node-agent/kubelet/kuberuntime/init-container-actions.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { container, containerSpec, exited, NO_PROBES, nodePod, NOTHING, observed, podActions, sandbox } from "../fixtures.ts";

const DEAD = sandbox({ state: "SANDBOX_NOTREADY" });

const create = (attempt: number, fields: Partial<PodActions> = {}): PodActions =>
  podActions({ killPod: true, createSandbox: true, attempt, ...fields });
const killOnly = (attempt: number, fields: Partial<PodActions> = {}): PodActions => podActions({ killPod: true, attempt, ...fields });

/** Returns foo1 to foo3 as RUNNING, with the given containers replaced. */
function running(...others: readonly ObservedContainer[]): readonly ObservedContainer[] {
  const names = ["foo1", "foo2", "foo3"].filter((name) => !others.some((other) => other.name === name));
  return [...names.map((name) => container({ name })), ...others];
}

interface Row {
  readonly name: string;
  readonly pod?: NodePod;
  readonly observed: ObservedPod;
  readonly probes?: Partial<ProbeAnswers>;
  readonly want: PodActions;
}

describe("computePodActions without init containers", () => {
  const always = nodePod();
  const onFailure = nodePod({ restartPolicy: "OnFailure" });
  const never = nodePod({ restartPolicy: "Never" });
  const twoExited = observed({ containers: running(exited("foo1", 0), exited("foo2", 111)) });
  const allExited = ["foo1", "foo2", "foo3"].map((name) => exited(name, 0));
  const changed: ContainerToKill = { id: "foo2-0", name: "foo2", message: "Container foo2 definition changed, will be restarted" };
  const failed = (probe: "liveness" | "startup", suffix = ", will be restarted"): ContainerToKill => ({
    id: "foo2-0",
    name: "foo2",
    message: `Container foo2 failed ${probe} probe${suffix}`,
    reason: probe === "liveness" ? "LivenessProbe" : "StartupProbe",
  });
  const failing = { foo2: (id: string) => (id === "foo2-0" ? ("Failure" as const) : undefined) };
  const unknown: ContainerToKill = {
    id: "foo2-0",
    name: "foo2",
    message: 'Container is in "unknown" state, try killing it before restart',
    reason: "Unknown",
  };

  const table: readonly Row[] = [
    { name: "[node-agent 1] does nothing when all run", observed: observed(), want: podActions() },
    {
      name: "[node-agent 2] creates sandbox 0 and starts all containers of a new pod",
      observed: NOTHING,
      want: create(0, { sandboxId: "", containersToStart: [0, 1, 2] }),
    },
    {
      name: "[node-agent 3] Always: starts containers that exited",
      observed: twoExited,
      want: podActions({ containersToStart: [0, 1] }),
    },
    {
      name: "[node-agent 4] OnFailure: starts containers that failed",
      pod: onFailure,
      observed: twoExited,
      want: podActions({ containersToStart: [1] }),
    },
    {
      name: "[node-agent 5] OnFailure: starts containers that were created and never started",
      pod: onFailure,
      observed: observed({ containers: running(exited("foo1", 0), container({ name: "foo2", state: "CONTAINER_CREATED" })) }),
      want: podActions({ containersToStart: [1] }),
    },
    { name: "[node-agent 6] Never: keeps a running container", pod: never, observed: twoExited, want: podActions() },
    {
      name: "[node-agent 7] a dead sandbox is replaced, with all its containers",
      observed: observed({ sandboxes: [DEAD] }),
      want: create(1, { containersToStart: [0, 1, 2] }),
    },
    {
      name: "[node-agent 8] OnFailure: a container that succeeded is not started in a new sandbox",
      pod: onFailure,
      observed: observed({ sandboxes: [DEAD], containers: running(exited("foo2", 0)) }),
      want: create(1, { containersToStart: [0, 2] }),
    },
    {
      name: "OnFailure: a container that never ran, or may still run, is started in a new sandbox",
      pod: onFailure,
      observed: observed({
        sandboxes: [DEAD],
        containers: running(
          container({ name: "foo1", state: "CONTAINER_CREATED" }),
          container({ name: "foo2", state: "CONTAINER_UNKNOWN" }),
        ),
      }),
      want: create(1, { containersToStart: [0, 1, 2] }),
    },
    {
      name: "[node-agent 9] a sandbox without an IP is replaced",
      observed: observed({ sandboxes: [sandbox({ network: { ip: "", additionalIps: [] } })] }),
      want: create(1, { containersToStart: [0, 1, 2] }),
    },
    {
      name: "[node-agent 10] a changed spec restarts only its container",
      observed: observed({ containers: running(container({ name: "foo2", hash: "0" })) }),
      want: podActions({ containersToKill: [changed], containersToStart: [1] }),
    },
    {
      name: "Never: a changed spec restarts its container, too",
      pod: never,
      observed: observed({ containers: running(container({ name: "foo2", hash: "0" })) }),
      want: podActions({ containersToKill: [changed], containersToStart: [1] }),
    },
    {
      name: "[node-agent 11] a failed liveness probe restarts its container",
      observed: observed(),
      probes: { liveness: failing.foo2 },
      want: podActions({ containersToKill: [failed("liveness")], containersToStart: [1] }),
    },
    {
      name: "[node-agent 11] a failed startup probe restarts its container",
      observed: observed(),
      probes: { startup: failing.foo2 },
      want: podActions({ containersToKill: [failed("startup")], containersToStart: [1] }),
    },
    {
      name: "Never: a failed liveness probe kills the container and does not restart it",
      pod: never,
      observed: observed(),
      probes: { liveness: failing.foo2 },
      want: podActions({ containersToKill: [failed("liveness", "")] }),
    },
    {
      name: "Never: the pod is completed when its last container is killed",
      pod: nodePod({ restartPolicy: "Never", containers: ["foo2"] }),
      observed: observed({ containers: [container({ name: "foo2" })] }),
      probes: { liveness: failing.foo2 },
      want: killOnly(0, { containersToKill: [failed("liveness", "")] }),
    },
    {
      name: "an unknown probe result changes nothing",
      observed: observed(),
      probes: { liveness: () => "Unknown", startup: () => "Unknown" },
      want: podActions(),
    },
    {
      name: "[node-agent 12] Never: no sandbox for a completed pod",
      pod: never,
      observed: observed({ sandboxes: [sandbox({ ...DEAD, attempt: 1 })], containers: allExited }),
      want: killOnly(2),
    },
    {
      name: "[node-agent 12] OnFailure: no sandbox for a completed pod",
      pod: onFailure,
      observed: observed({ sandboxes: [sandbox({ ...DEAD, attempt: 1 })], containers: allExited }),
      want: killOnly(2),
    },
    {
      name: "[node-agent 13] Never: the sandbox is recreated as long as no container was created",
      pod: never,
      observed: observed({ sandboxes: [sandbox({ ...DEAD, attempt: 2 })], containers: [] }),
      want: create(3, { containersToStart: [0, 1, 2] }),
    },
    {
      name: "Never: a pod whose sandboxes were removed starts again, whatever its containers' exit codes",
      pod: never,
      observed: observed({ sandboxes: [], containers: allExited }),
      want: create(0, { sandboxId: "", containersToStart: [0, 1, 2] }),
    },
    {
      name: "[node-agent 14] Never: an unknown container is killed before it starts again",
      pod: never,
      observed: observed({ containers: running(container({ name: "foo2", state: "CONTAINER_UNKNOWN" })) }),
      want: podActions({ containersToKill: [unknown], containersToStart: [1] }),
    },
    {
      name: "[node-agent 14] Never: a created container is started without being killed first",
      pod: never,
      observed: observed({ containers: running(container({ name: "foo2", state: "CONTAINER_CREATED" })) }),
      want: podActions({ containersToStart: [1] }),
    },
    {
      name: "only the newest instance of a name is considered",
      observed: observed({ containers: running(exited("foo2", 1), container({ name: "foo2", restartCount: 1 })) }),
      want: podActions(),
    },
    {
      name: "a pod that is being deleted starts no container",
      pod: nodePod({ deletionTimestamp: "2026-03-01T09:59:00Z" }),
      observed: twoExited,
      want: podActions(),
    },
  ];
  it.each(table)("$name", ({ pod = always, observed: seen, probes, want }) => {
    expect(computePodActions(pod, seen, { ...NO_PROBES, ...probes })).toEqual(want);
  });
});

describe("a container's own restart policy", () => {
  const own = (restartPolicy: string): NodePod["spec"]["containers"] =>
    ["foo1", "foo2"].map((name) => containerSpec(name, { restartPolicy }));
  const bothExited = observed({ containers: [exited("foo1", 0), exited("foo2", 1)] });
  const table = [
    {
      name: "[node-agent 38] a container with Always in a pod with Never",
      pod: nodePod({ restartPolicy: "Never", containers: own("Always") }),
      want: podActions({ containersToStart: [0, 1] }),
    },
    {
      name: "[node-agent 38] a container with OnFailure in a pod with Never",
      pod: nodePod({ restartPolicy: "Never", containers: own("OnFailure") }),
      want: podActions({ containersToStart: [1] }),
    },
    {
      name: "[node-agent 38] a container with Never in a pod with Always",
      pod: nodePod({ containers: own("Never") }),
      want: killOnly(0),
    },
  ];
  it.each(table)("$name", ({ pod, want }) => {
    expect(computePodActions(pod, bothExited, NO_PROBES)).toEqual(want);
  });

  it("a container's own policy decides about a failed probe, and about containers to omit from a new sandbox", () => {
    const pod = nodePod({ restartPolicy: "Never", containers: own("Always") });
    const seen = observed({ containers: [container({ name: "foo1" }), container({ name: "foo2" })] });
    const probes: ProbeAnswers = { ...NO_PROBES, liveness: (id) => (id === "foo1-0" ? "Failure" : undefined) };
    expect(computePodActions(pod, seen, probes).containersToStart).toEqual([0]);

    const dead = observed({ sandboxes: [DEAD], containers: [exited("foo1", 0), exited("foo2", 1)] });
    expect(computePodActions(nodePod({ containers: own("OnFailure") }), dead, NO_PROBES)).toEqual(create(1, { containersToStart: [1] }));
  });
});

describe("ephemeral containers", () => {
  const withDebug = (restartPolicy: "Always" | "OnFailure" | "Never" = "Always"): NodePod =>
    nodePod({ restartPolicy, ephemeralContainers: ["debug"] });
  const debug = container({ name: "debug" });
  const withInit = (restartPolicy: "Always" | "OnFailure" = "Always"): NodePod =>
    nodePod({ restartPolicy, initContainers: ["init1"], ephemeralContainers: ["debug"] });

  const table: readonly (Row & { readonly pod: NodePod })[] = [
    {
      name: "[node-agent 33] a running ephemeral container is kept",
      pod: withDebug(),
      observed: observed({ containers: [...running(), debug] }),
      want: podActions(),
    },
    {
      name: "[node-agent 33] an exited ephemeral container is never restarted",
      pod: withDebug(),
      observed: observed({ containers: [...running(), exited("debug", 42)] }),
      want: podActions(),
    },
    {
      name: "[node-agent 33] an ephemeral container in state unknown is neither killed nor restarted",
      pod: withDebug("Never"),
      observed: observed({ containers: [...running(), container({ name: "debug", state: "CONTAINER_UNKNOWN" })] }),
      want: podActions(),
    },
    {
      name: "[node-agent 34] a new ephemeral container is started",
      pod: withDebug(),
      observed: observed(),
      want: podActions({ ephemeralContainersToStart: [0] }),
    },
    {
      name: "[node-agent 34] a second ephemeral container is started in addition to the first",
      pod: nodePod({ ephemeralContainers: ["debug", "debug2"] }),
      observed: observed({ containers: [...running(), debug] }),
      want: podActions({ ephemeralContainersToStart: [1] }),
    },
    {
      name: "[node-agent 35] an ephemeral container is started while an init container runs",
      pod: withInit(),
      observed: observed({ containers: [container({ name: "init1" })] }),
      want: podActions({ ephemeralContainersToStart: [0] }),
    },
    {
      name: "[node-agent 36] Always: an ephemeral container is not started together with a new sandbox",
      pod: withInit(),
      observed: observed({ sandboxes: [DEAD], containers: [exited("init1", 0)] }),
      want: create(1, { initContainersToStart: [0] }),
    },
    {
      name: "[node-agent 36] OnFailure with a failed init container: an ephemeral container is not started together with a new sandbox",
      pod: withInit("OnFailure"),
      observed: observed({ sandboxes: [DEAD], containers: [exited("init1", 137)] }),
      want: create(1, { initContainersToStart: [0] }),
    },
    {
      name: "[node-agent 37] Never: an ephemeral container does not keep a completed pod alive",
      pod: withDebug("Never"),
      observed: observed({ containers: [...["foo1", "foo2", "foo3"].map((name) => exited(name, 0)), debug] }),
      want: killOnly(0),
    },
  ];
  it.each(table)("$name", ({ pod, observed: seen, want }) => {
    expect(computePodActions(pod, seen, NO_PROBES)).toEqual(want);
  });
});
