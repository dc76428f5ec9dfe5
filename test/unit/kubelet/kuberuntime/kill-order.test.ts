/**
 * The order and timing in which a pod's containers are stopped.
 *
 * Catches: a sidecar that is stopped while a regular container still needs it; sidecars that are stopped in their start order; a probe's
 * grace period that is used for another kill; and an ignored grace period of a deletion.
 */
import { describe, expect, it } from "vitest";
import { killGraceSeconds, terminationOrder } from "../../../../shared/node-agent/kubelet/kuberuntime/kill-pod.ts";
import type { ContainerSpec, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";

const container = (name: string, more: Partial<ContainerSpec> = {}): ContainerSpec => ({ name, image: "shop:1", ...more });
const sidecar = (name: string): ContainerSpec => container(name, { restartPolicy: "Always" });

function pod(spec: Partial<NodePod["spec"]>, deletionGracePeriodSeconds?: number): NodePod {
  const deletion = deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds };
  return { metadata: { name: "web", namespace: "shop", uid: "u", ...deletion }, spec: { containers: [container("main")], ...spec } };
}

describe("the order of stopping containers", () => {
  it.each([
    { name: "stops all containers in parallel if there are no sidecars", init: [], running: ["a", "b"], want: [["a", "b"]] },
    {
      name: "stops sidecars after regular containers, in reverse order",
      init: [sidecar("s1"), sidecar("s2")],
      running: ["s1", "a", "s2"],
      want: [["a"], ["s2"], ["s1"]],
    },
    {
      name: "stops a running init container together with regular containers",
      init: [container("setup"), sidecar("s1")],
      running: ["setup", "s1"],
      want: [["setup"], ["s1"]],
    },
    { name: "does not wait for a container that is not running", init: [sidecar("s1"), sidecar("s2")], running: ["s1"], want: [["s1"]] },
    { name: "stops nothing if no container runs", init: [sidecar("s1")], running: [], want: [] },
  ])("terminationOrder $name", ({ init, running, want }) => {
    expect(terminationOrder(pod({ initContainers: init }), running)).toEqual(want);
  });
});

describe("the grace period of a container", () => {
  const probed = container("main", {
    livenessProbe: { terminationGracePeriodSeconds: 3 },
    startupProbe: { terminationGracePeriodSeconds: 4 },
    readinessProbe: {},
  });
  it.each([
    {
      name: "the one that the pod worker requests, if any",
      spec: { terminationGracePeriodSeconds: 30 },
      deletion: 20,
      given: { override: 1 },
      want: 1,
    },
    {
      name: "the deletionGracePeriodSeconds of a pod that is being deleted",
      spec: { terminationGracePeriodSeconds: 30 },
      deletion: 20,
      given: { reason: "LivenessProbe" },
      want: 20,
    },
    {
      name: "the terminationGracePeriodSeconds of the failed liveness probe",
      spec: { terminationGracePeriodSeconds: 30 },
      given: { reason: "LivenessProbe" },
      want: 3,
    },
    {
      name: "the terminationGracePeriodSeconds of the failed startup probe",
      spec: { terminationGracePeriodSeconds: 30 },
      given: { reason: "StartupProbe" },
      want: 4,
    },
    {
      name: "the terminationGracePeriodSeconds of the pod if no probe failed",
      spec: { terminationGracePeriodSeconds: 30 },
      given: { reason: "Unknown" },
      want: 30,
    },
    { name: "the minimum of 2 s if none is set", spec: {}, given: { reason: "LivenessProbe" }, want: 2 },
  ] as const)("the grace period of a container is $name", ({ spec, given, want, ...more }) => {
    expect(killGraceSeconds(pod(spec, "deletion" in more ? more.deletion : undefined), probed, given)).toBe(want);
  });
});
