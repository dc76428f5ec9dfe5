// Would catch: a container that is stopped for a restart and then counts as completed, and a container that is restarted although it must
// be stopped.
import { describe, expect, it } from "vitest";
import { computePodActions } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import { restartsOf } from "../../../../shared/node-agent/kubelet/kuberuntime/restarts.ts";
import type { ObservedContainer, ProbeAnswer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { Restarts } from "../../../../shared/node-agent/ports/node-store.ts";
import { container, exited, NO_PROBES, nodePod, observed, podActions, sandbox, sidecarSpec } from "../fixtures.ts";

type Policy = "Always" | "OnFailure" | "Never";

const DEAD = sandbox({ state: "SANDBOX_NOTREADY" });
const old = (name: string, fields: Partial<ObservedContainer> = {}): ObservedContainer => container({ name, hash: "0", ...fields });
const endedForRestart = true;
const rest = ["foo2", "foo3"].map((name) => container({ name }));

describe("restartsOf", () => {
  const table: readonly {
    readonly name: string;
    readonly policy?: Policy;
    readonly init?: readonly (string | ContainerSpec)[];
    readonly containers: readonly ObservedContainer[];
    readonly dead?: true;
    readonly failing?: string;
    /** The container that is being stopped. */
    readonly ending?: string;
    readonly want: Restarts | undefined;
  }[] = [
    { name: "none while all containers run unchanged", containers: [container(), ...rest], want: undefined },
    { name: "a container with another image under Never", policy: "Never", containers: [old("foo1"), ...rest], want: { foo1: "foo1-0" } },
    {
      name: "a container with a failed probe under OnFailure",
      policy: "OnFailure",
      containers: [container(), ...rest],
      failing: "foo1-0",
      want: { foo1: "foo1-0" },
    },
    {
      name: "none for a failed probe under Never",
      policy: "Never",
      containers: [container(), ...rest],
      failing: "foo1-0",
      want: undefined,
    },
    {
      name: "a container that may still run and is killed first, under Never",
      policy: "Never",
      containers: [container({ state: "CONTAINER_UNKNOWN" }), ...rest],
      want: { foo1: "foo1-0" },
    },
    { name: "none for a container that exited by itself", containers: [exited("foo1", 1), ...rest], want: undefined },
    {
      name: "all containers that are not completed, for a dead sandbox under OnFailure",
      policy: "OnFailure",
      dead: true,
      containers: [exited("foo1", 0), exited("foo2", 1), container({ name: "foo3" })],
      want: { foo2: "foo2-0", foo3: "foo3-0" },
    },
    {
      name: "none for a dead sandbox under Never, because the pod ends",
      policy: "Never",
      dead: true,
      containers: [container(), ...rest],
      want: undefined,
    },
    {
      name: "running containers, for a dead sandbox with init containers",
      policy: "OnFailure",
      dead: true,
      init: ["init", sidecarSpec("side")],
      containers: [exited("init", 0), container({ name: "side" }), container(), exited("foo2", 1), container({ name: "foo3" })],
      want: { side: "side-0", foo1: "foo1-0", foo3: "foo3-0" },
    },
    {
      name: "a sidecar with another image",
      init: [sidecarSpec("side")],
      containers: [old("side"), container(), ...rest],
      want: { side: "side-0" },
    },
    {
      name: "a plain init container that may still run",
      policy: "OnFailure",
      init: ["init"],
      containers: [container({ name: "init", state: "CONTAINER_UNKNOWN" })],
      want: { init: "init-0" },
    },
    {
      name: "a stopped container that waits for its next instance while another container is stopped",
      policy: "OnFailure",
      containers: [exited("foo1", 0, { endedForRestart }), old("foo2"), container({ name: "foo3" })],
      want: { foo1: "foo1-0", foo2: "foo2-0" },
    },
    {
      name: "none for a stopped container whose next instance exists",
      containers: [exited("foo1", 0, { endedForRestart }), container({ restartCount: 1 }), ...rest],
      want: undefined,
    },
    {
      name: "none for a container whose stop is no longer necessary",
      containers: [container({ endedForRestart }), ...rest],
      want: undefined,
    },
    {
      name: "a container whose stop is in progress",
      containers: [container({ endedForRestart }), ...rest],
      ending: "foo1-0",
      want: { foo1: "foo1-0" },
    },
    {
      name: "none if the sandbox of a stopped container dies under Never, because the pod ends",
      policy: "Never",
      dead: true,
      containers: [exited("foo1", 0, { endedForRestart }), ...rest],
      want: undefined,
    },
    {
      name: "none for a container that is no longer in the spec",
      containers: [container(), ...rest, exited("gone", 0, { endedForRestart })],
      want: undefined,
    },
  ];
  it.each(table)(
    "[node-agent 127] restartsOf returns $name",
    ({ policy = "Always", init = [], containers, dead, failing, ending, want }) => {
      const pod = nodePod({ restartPolicy: policy, initContainers: init });
      const seen = observed({ containers, ...(dead && { sandboxes: [DEAD] }) });
      const answer = (id: string): ProbeAnswer => (id === failing ? "Failure" : undefined);
      const actions = computePodActions(pod, seen, { ...NO_PROBES, liveness: answer });
      expect(restartsOf(pod, seen, actions, (id) => id === ending)).toEqual(want);
    },
  );
});

describe("computePodActions of a container that was stopped for its restart and exited with 0", () => {
  const cut = exited("foo1", 0, { endedForRestart });

  it.each(["Always", "OnFailure", "Never"] as const)("[node-agent 127] %s: starts the container", (restartPolicy) => {
    const seen = observed({ containers: [cut, ...rest] });
    expect(computePodActions(nodePod({ restartPolicy }), seen, NO_PROBES)).toEqual(podActions({ containersToStart: [0] }));
  });

  it("[node-agent 127] OnFailure: creates a sandbox for the container", () => {
    const seen = observed({ sandboxes: [DEAD], containers: [cut, exited("foo2", 0), exited("foo3", 0)] });
    const want = podActions({ killPod: true, createSandbox: true, attempt: 1, containersToStart: [0] });
    expect(computePodActions(nodePod({ restartPolicy: "OnFailure" }), seen, NO_PROBES)).toEqual(want);
  });

  it("[node-agent 127] does not treat an init container as completed", () => {
    const pod = nodePod({ restartPolicy: "OnFailure", initContainers: ["init1", "init2"] });
    const seen = observed({ containers: [exited("init1", 0, { endedForRestart })] });
    expect(computePodActions(pod, seen, NO_PROBES)).toEqual(podActions({ initContainersToStart: [0] }));
  });
});
