// What the scheduler and the kubelet do next. Would catch: a wait without an end, or with one that does not apply.
import { describe, expect, it } from "vitest";
import { verdictText, worstText } from "../../../../cli/explain/verdict-text.ts";
import type { Placed } from "../../../support/incident.ts";
import { at, backOff, deployment, event, pod, textOf, verdictOn, waiting } from "../../../support/incident.ts";

describe("pods that wait for the scheduler", () => {
  const uid = "c9930744-f50d-4cdc-8e78-08995b7228de";
  const podAt = (status: string, reason: string): Placed =>
    deployment({ status: { conditions: [{ type: "Progressing", status, reason, lastUpdateTime: at(-100) }] } });
  const noClaim = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
  const pending = (message = "0/3 nodes are available: 3 Insufficient cpu."): Placed =>
    pod({ status: { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }] } });
  const preempted: readonly Placed[] = [
    pod({ metadata: { uid, ownerReferences: [] }, spec: { nodeName: undefined } }, "customer-57d84df78d-v4g86-with-a-long-name"),
    event("Preempted", `Preempted by pod ${uid} on node n1`, { of: "web-b-9", type: "Normal" }),
  ];
  const next = "Next the scheduler tries again when a pod ends or a node changes";

  it.each<{ readonly name: string; readonly objects: readonly Placed[]; readonly says: string }>([
    { name: "no deadline", objects: [pending(), podAt("True", "NewReplicaSetAvailable")], says: `${next}; no deadline Try` },
    { name: "an exceeded deadline", objects: [pending(), podAt("False", "ProgressDeadlineExceeded")], says: `${next} Try` },
    {
      name: "an unbound claim",
      objects: [pending(noClaim), podAt("True", "NewReplicaSetAvailable")],
      says: "Next the scheduler tries again when the PersistentVolumeClaim changes; no deadline Try",
    },
    {
      name: "preempted pods",
      objects: [...preempted, pending(), podAt("True", "NewReplicaSetAvailable")],
      says: `${next}; no deadline Try`,
    },
  ])("have a next attempt with $name", ({ objects, says }) => {
    expect(textOf(...objects)).toContain(says);
  });

  it("have only the deadline while it runs", () => {
    const text = textOf(pending(), podAt("True", "ReplicaSetUpdated"));
    expect(text).toMatch(/Waits for .*progress by 10:18:20Z/);
    expect(text).not.toContain("Next ");
  });

  it("are preempted once, even if condition and Event show it, and are not advised to get a higher priority", () => {
    const disrupted = { type: "DisruptionTarget", status: "True", reason: "PreemptionByScheduler", lastTransitionTime: at(-60) };
    const event9 = event("Preempted", `Preempted by pod ${uid} on node n1`, { type: "Normal" });
    const verdict = verdictOn(...preempted, event9, pod({ status: { conditions: [disrupted] } }));
    expect(verdict.findings.filter(({ kind }) => kind === "preempted")).toHaveLength(1);
    const text = verdictText(verdict).replaceAll(/\s+/g, " ");
    expect(text).toMatch(/Try kubectl get priorityclasses .* add nodes/);
    expect(text).not.toContain("raise the priority");
  });

  it("are listed with the whole cause", () => {
    const [resource, fields] = event("Preempted", `Preempted by pod ${uid} on node n1`, { of: "web-b-9-also-with-a-long-name-of-a-pod" });
    const list = worstText([verdictOn(...preempted.slice(0, 1), [resource, fields])], false).replaceAll(/\s+/g, " ");
    expect(list).toContain("customer-57d84df78d-v4g86-with-a-long-name, which has a higher priority");
  });
});

describe("the kubelet's next step", () => {
  const terminated = { terminated: { reason: "Error", exitCode: 1 } };
  const crashed = (time: string, name = "web-b-1", lastState: object = terminated): Placed =>
    pod(
      {
        state: waiting("CrashLoopBackOff", `back-off ${time} restarting failed container=web pod=${name}_shop(u)`),
        web: { restartCount: 2, lastState },
      },
      name,
    );
  it.each([
    {
      name: "a missing key",
      objects: [pod({ state: waiting("CreateContainerConfigError", "couldn't find key token in Secret shop/web-token") })],
      next: "the kubelet retries; the container starts when Secret web-token has the key",
    },
    {
      name: "a missing Secret",
      objects: [pod({ state: waiting("CreateContainerConfigError", 'secret "web-token" not found') })],
      next: "the kubelet retries; the container starts when Secret web-token exists",
    },
    {
      name: "a missing volume",
      objects: [
        pod({ state: waiting("ContainerCreating") }),
        event("FailedMount", 'MountVolume.SetUp failed for volume "conf" : configmap "web-conf" not found'),
      ],
      next: "the kubelet retries; the pod starts when ConfigMap web-conf exists",
    },
    {
      name: "a failing liveness probe",
      objects: [
        pod({ status: { phase: "Running" }, state: { running: { startedAt: at(-20) } }, web: { ready: true, restartCount: 1 } }),
        event("Killing", "Container web failed liveness probe, will be restarted"),
      ],
      next: "the kubelet restarts the container, with back-off up to 5m0s",
    },
    {
      name: "a container that exits",
      objects: [pod({ state: waiting("CrashLoopBackOff"), web: { restartCount: 2, lastState: terminated } })],
      next: "the kubelet restarts the container, with back-off up to 5m0s",
    },
    {
      name: "containers that exit, with the longest back-off",
      objects: [crashed("1m20s"), crashed("40s", "web-b-2"), crashed("10s", "web-b-3")],
      next: "the kubelet restarts the container in at most 1m20s",
    },
    {
      name: "a failing liveness probe, with the back-off",
      objects: [crashed("40s"), event("Killing", "Container web failed liveness probe, will be restarted")],
      next: "the kubelet restarts the container in at most 40s",
    },
    {
      name: "a missing command, with the back-off",
      objects: [
        crashed("20s", "web-b-1", { terminated: { reason: "StartError", exitCode: 128 } }),
        event("Failed", "Error: failed to create containerd task: exec: no such file or directory"),
      ],
      next: "the kubelet restarts the container in at most 20s",
    },
    {
      name: "an image that cannot be pulled",
      objects: [backOff()],
      next: "the kubelet pulls the image again, with back-off up to 5m0s",
    },
  ])("is printed for $name", ({ objects, next }) => {
    expect(textOf(...objects)).toContain(`Next ${next} `);
  });

  it.each([
    { name: "an image that is never pulled", objects: [pod({ state: waiting("ErrImageNeverPull") })] },
    { name: "a paused Deployment", objects: [deployment({ spec: { paused: true } })] },
  ])("is not printed for $name", ({ objects }) => {
    expect(textOf(...objects)).not.toContain("Next ");
  });
});
